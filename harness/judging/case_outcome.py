"""The outcome of one case: its report, and what the submission's report needs besides."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.division import Division
from harness.judging.kept_bits import Rounding
from harness.judging.picture import WrongOutput
from harness.judging.result_bits import NarrowResults
from harness.problems.grid import Case
from harness.records.report import CaseReport
from harness.simulator.counters.totals import KernelProfile


@dataclass(frozen=True)
class CaseOutcome:
    """A case's report, with further results that the submission's report needs.

    Attributes:
        report: The report of the case.
        case: The case.
        wrong: The first output that has the right shape and wrong elements; None if there is none.
        other: If `wrong` is None, another output that shows the failure: its shape is wrong, or a
            kernel wrote beside it. This output has no elements if a memory error stopped the call.
        wrong_shape: Shape of an output that has the right number of dimensions and wrong sizes;
            None if there is no output with such a shape.
        initialised_alike: True if ModelNew initialises its weights with the same values as the
            reference after the same seed; None if they could not be compared.
        worker_failed: True if the worker failed during the case, so that it can run no further
            case.
        wrong_inputs: Sentence that names the calls with wrong outputs by their inputs; empty if the
            first call is wrong, or if no call is.
        kernels: Counters of each kernel in the first call of the problem's own configuration on the
            simulator; empty for other cases.
        spent: Number of thread-instructions that the simulator executed in the case's calls.
        roundings: Roundings of operands and results to fewer bits, from each call whose outputs
            show such a rounding.
        division: How the case's work is divided between torch and the submission's kernels; None
            unless the case passed.
        is_over_budget: True if a call exceeded the instruction budget.
    """

    report: CaseReport
    case: Case
    wrong: WrongOutput | None = None
    other: WrongOutput | None = None
    wrong_shape: tuple[int, ...] | None = None
    initialised_alike: bool | None = None
    worker_failed: bool = False
    wrong_inputs: str = ""
    kernels: tuple[KernelProfile, ...] = ()
    spent: int = 0
    roundings: tuple[Rounding | NarrowResults, ...] = ()
    division: Division | None = None
    is_over_budget: bool = False

    @property
    def spent_on_a_call(self) -> int:
        """The mean number of thread-instructions of the case's judged calls."""
        return self.spent // max(1, len(self.report.errors))
