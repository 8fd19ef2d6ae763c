"""Reports: the result of one submission on one problem, as plain data with a JSON form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.finding import Finding
from harness.problems.grid import OWN, Case
from harness.records.comparison import Comparison, Precision
from harness.records.coverage import Coverage
from harness.records.picture import Picture
from harness.simulator.counters.by_line import LineCounters
from harness.simulator.counters.totals import Totals
from harness.simulator.ptx.by_line import PtxOfLine
from harness.system import codec

SCHEMA = 10
"""Version of the JSON form. The list states what each version added.

- 1: the first version.
- 2: counters.
- 3: the share of own work.
- 4: the verdict on the problem's own configuration, and the other kinds of failure.
- 5: all fields in every finding.
- 6: the verdict `agrees`, and each case's constants.
- 7: each case's constructor call and notes, and coverage.
- 8: the data of a report page: pictures of wrong outputs, errors of each run, counters of each
  line, the source, and the time of the check.
- 9: branches, and variables that nothing has set.
- 10: the PTX of lines, and pictures of accesses out of bounds.
"""

Verdict = Literal["passed", "agrees", "failed", "declined", "unsupported", "error", "not run"]
"""The verdict on a case or on a whole submission.

Only a whole submission `agrees`: its cases passed, but its error bound is an estimate.
"""

AMISS: tuple[Verdict, ...] = ("error", "failed", "unsupported")
"""The verdicts on a case that prevent the verdict `passed` on the submission."""

DECLINES_OWN = "declines the problem's own configuration"
"""The start of the message for a submission that refuses the problem's own configuration."""

# The verdict on the submission is the first of these that any case has. A wrong output is graver
# than a crash: the crash of one corner must not hide that all other cases are wrong.
_GRAVEST_FIRST: tuple[Verdict, ...] = (
    "failed",
    "error",
    "unsupported",
    "not run",
    "passed",
    "declined",
)


MOST_LEFT_OUT = 0.1
"""The largest share of cases that may be left out in a check that passes."""


@dataclass(frozen=True)
class BuildReport:
    """One extension that the submission had compiled.

    Attributes:
        name: Name that the submission gave the extension.
        seconds: Duration of the compilation when it was done.
        reused: True if the extension came from the cache.
        headers: The torch headers that the extension was compiled with: the harness's own `slim` or
            `light` ones, or torch's `full` ones.
    """

    name: str
    seconds: float
    reused: bool
    headers: str


@dataclass(frozen=True)
class OtherFailure:
    """A kind of failure other than the one that the report explains.

    Attributes:
        count: Number of cases whose message is of this kind.
        case: Id of one of these cases.
        message: Message of the case with this id.
    """

    count: int
    case: str
    message: str


@dataclass(frozen=True)
class CaseReport:
    """The result of one case.

    Attributes:
        id: Id of the case.
        label: Origin of the case, such as "reduced", "corner" or "random".
        arguments: Constructor arguments of the case.
        input_shapes: Shapes of the case's inputs.
        verdict: The verdict; `not run` if the case is beyond the time budget, or if an earlier
            error ended the evaluation.
        message: Why the verdict is not `passed`, in one line; empty if it is.
        precision: The tightest precision class (fp32, tf32, fp16, bf16) whose error bound holds in
            every run of the case.
        worst: The largest error as a fraction of the fp32 bound.
        wrong_runs: Names of the runs (sets of inputs and weights) with a wrong output.
        comparison: Comparison of the first wrong output; None if no output is wrong.
        findings: Findings of the sanitizers and of the integrity checks, such as the check for own
            work.
        diagnosis: The known mistake that explains the failure; empty if none fits.
        detail: Further information, in several lines, such as a traceback or a compiler's output.
        seconds: Duration of the case.
        own_work: The share of the work that the submission's own kernels did; None if unknown.
        deterministic: True if the same call twice gave the same bits; None if that was not tried.
        constants: Values of the constants in the reference's file in this case.
        estimated: Why there is no precision class, although every output is near the reference: the
            bounds are estimates, or allow anything. Empty if there is a class.
        constructor_call: The call that constructed `ModelNew`, as Python text.
        notes: Remarks that change no verdict.
        errors: The largest error of each run as a fraction of the fp32 bound. None if the output is
            not finite or has a wrong shape, dtype or device.
        limits: The other classes' bounds in the first run, as multiples of the fp32 bound, at the
            element with the largest fp32 bound.
        picture: Maps of the first wrong output. None for most cases. The smallest failing case and
            the failing case whose output shows most can have a picture. So can one case of each
            other kind of failure, for up to three kinds.
    """

    id: str
    label: str
    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    verdict: Verdict
    message: str = ""
    precision: Precision | None = None
    worst: float | None = None
    wrong_runs: tuple[str, ...] = ()
    comparison: Comparison | None = None
    findings: tuple[Finding, ...] = ()
    diagnosis: str = ""
    detail: str = ""
    seconds: float = 0.0
    own_work: float | None = None
    deterministic: bool | None = None
    constants: Mapping[str, int] = field(default_factory=dict)
    estimated: str = ""
    constructor_call: str = ""
    notes: tuple[str, ...] = ()
    errors: Mapping[str, float | None] = field(default_factory=dict)
    limits: Mapping[Precision, float] = field(default_factory=dict)
    picture: Picture | None = None


@dataclass(frozen=True)
class Report:
    """The result of one submission on one problem.

    Attributes:
        submission: Name of the submission.
        path: Path of the submission's file.
        content_hash: SHA-256 of the file's bytes, in hexadecimal.
        problem: Name of the problem.
        problem_hash: SHA-256 of the reference's bytes, in hexadecimal.
        device: The device that ran the kernels.
        grid: Name of the grid of cases.
        seed: The seed of every random value; the same seed gives the same values.
        versions: Versions of everything that may change the result.
        verdict: The gravest verdict of the cases, or the reason why they did not run.
        message: Why the submission is not right, in one line.
        precision: The tightest precision class (fp32, tf32, fp16, bf16) whose error bound holds in
            every case that ran.
        shared: The property that the failing cases have in common.
        own_configuration: The verdict on the problem's own configuration (the arguments and sizes
            in the reference's file); None if that was not among the cases.
        smallest_failure: Id of the failing case that is easiest to follow by hand. It is chosen
            among the cases with the report's verdict that fail in the same way as the problem's own
            configuration. If that has another verdict, the case is chosen from the most frequent
            kind of failure.
        other_failures: Other kinds of failure, in other cases.
        builds: The extensions that were compiled.
        cases: Results of the cases.
        counters: Counters of all kernels together in the problem's own configuration, at the sizes
            for the simulator. None without the simulator, or if the evaluation stopped earlier.
        notes: Remarks that change no verdict.
        detail: Several lines, such as the compiler's output or a traceback.
        seconds: Duration of the whole evaluation.
        coverage: Coverage of the submission's device code; None if it was not measured.
        lines: The kernels' counters for each line of the submission's file.
        ptx: The PTX of the lines that have counters or findings; about 128 KiB at most.
        source: Text of the submission's file; empty if it exceeds 256 KiB.
        checked_at: Time of the check, in UTC and ISO 8601.
        schema: Version of the JSON form.
    """

    submission: str
    path: str
    content_hash: str
    problem: str
    problem_hash: str
    device: str
    grid: str
    seed: int
    versions: Mapping[str, str]
    verdict: Verdict
    message: str = ""
    precision: Precision | None = None
    shared: str = ""
    own_configuration: Verdict | None = None
    smallest_failure: str = ""
    other_failures: tuple[OtherFailure, ...] = ()
    builds: tuple[BuildReport, ...] = ()
    cases: tuple[CaseReport, ...] = ()
    counters: Totals | None = None
    notes: tuple[str, ...] = ()
    detail: str = ""
    seconds: float = 0.0
    coverage: Coverage | None = None
    lines: tuple[LineCounters, ...] = ()
    ptx: tuple[PtxOfLine, ...] = ()
    source: str = ""
    checked_at: str = ""
    schema: int = field(default=SCHEMA)

    @property
    def is_right(self) -> bool:
        """True if nothing was wrong in the cases that ran."""
        return self.verdict in ("passed", "agrees")

    def count(self, verdict: Verdict) -> int:
        """Return the number of cases with the given verdict."""
        return Counter(case.verdict for case in self.cases)[verdict]

    @property
    def worst(self) -> float | None:
        """The largest error of all cases as a fraction of the fp32 bound.

        None if no error is known, or if some element has an error and a bound of 0. The latter
        happens, for example, where a right output is stored as float16.
        """
        worst = max((c.worst for c in self.cases if c.worst is not None), default=None)
        return None if worst == math.inf else worst

    @property
    def own_work(self) -> float | None:
        """The share of the work that the submission's own kernels did; None if unknown.

        It is the share in the problem's own configuration, or if that did not run, the smallest
        share of all cases. Smaller cases say less: if the output is tiny, adding a bias or scaling
        an input is a large part of the work.
        """
        own = [c.own_work for c in self.cases if c.label in OWN and c.own_work is not None]
        known = own or [c.own_work for c in self.cases if c.own_work is not None]
        return min(known, default=None)

    @property
    def is_deterministic(self) -> bool:
        """True unless some case gave different bits in two equal calls."""
        return all(case.deterministic is not False for case in self.cases)

    def case(self, case_id: str) -> CaseReport:
        """Return one case's report.

        Raises:
            KeyError: No case has that id.
        """
        for case in self.cases:
            if case.id == case_id:
                return case
        raise KeyError(case_id)

    def to_json(self) -> str:
        """Return the report as one line of JSON."""
        return codec.encode(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that `to_json` wrote.

        Raises:
            ValueError: The text has another schema version, or is not a report.
        """
        return codec.decode_of_schema(text, cls, SCHEMA, "report", "check the submission again")


def not_run(case: Case, why: str) -> CaseReport:
    """Return the report of a case that did not run, with the reason."""
    return CaseReport(
        id=case.id,
        label=case.label,
        arguments=case.arguments,
        input_shapes=case.input_shapes,
        constants=case.constants,
        constructor_call=case.constructor_call.spelled("ModelNew"),
        verdict="not run",
        message=why,
    )


def overall(cases: Sequence[CaseReport]) -> Verdict:
    """Return the gravest verdict of the cases: `passed` if every case passed or was declined.

    It stays `passed` if the time budget leaves out a few cases. If it leaves out more cases, or the
    problem's own configuration, the verdict is `unsupported`: the kernel is too slow for the
    simulator.
    """
    seen = {case.verdict for case in cases}
    verdict: Verdict = next((each for each in _GRAVEST_FIRST if each in seen), "not run")
    if verdict != "not run" or "passed" not in seen:
        return verdict
    left_out = [case for case in cases if case.verdict == "not run"]
    is_little = len(left_out) <= MOST_LEFT_OUT * len(cases)
    return "passed" if is_little and all(c.label not in OWN for c in left_out) else "unsupported"
