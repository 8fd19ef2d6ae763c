"""Verdicts and one-line messages for faults, worker failures and wrong calls of a case."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compiler.ninja import first_error
from harness.judging.layouts import WORDS
from harness.messages.faults import Fault
from harness.messages.kinds import NOBODY_ASKED
from harness.problems import families
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.source_numbers import MOST_BLOCKS
from harness.problems.values import Call
from harness.records.report import DECLINES_OWN, Verdict
from harness.worker.supervisor import WorkerFailure

_LARGE = frozenset({"far", "large", "huge", "spike", "peaks", "positive peaks"})
"""The distributions with numbers of large magnitude."""

FALLS_BACK = "falls back to torch"
"""Message of a case whose work torch does, though not in the problem's own configuration."""


@dataclass(frozen=True)
class Stop:
    """The reason why a step of a worker (import, construct, forward) stopped.

    Attributes:
        verdict: The verdict on the case, or on all cases.
        message: The reason in one line.
        detail: Further lines, such as a compiler's output.
        is_cause: True if the reason explains the findings about memory. False if such findings may
            explain the reason.
        is_refusal: True if the submission itself refuses the configuration.
        beyond_grid: The message to use instead if the case has more rows than the reference's own
            sizes (`has_more_rows`). Empty unless a launch had more blocks along y or z than a grid
            has.
        is_noticed: False if the submission did not ask CUDA for the error.
    """

    verdict: Verdict
    message: str
    detail: str = ""
    is_cause: bool = False
    is_refusal: bool = False
    beyond_grid: str = ""
    is_noticed: bool = True


TOO_MANY_ROWS = "more than 65,535 rows: the launch fails, and nobody asks for the error"
"""The note about a case whose sizes exceed a grid, where the submission does not notice it."""


def of_import_fault(fault: Fault) -> Stop:
    """Return the verdict and message for an exception at import, where nothing can be declined."""
    stop = stop_for_fault(fault)
    if stop.verdict != "declined":
        return stop
    return Stop("error", f"raises at import: {stop.message}", stop.detail)


def stop_for_fault(fault: Fault, case: Case | None = None, *, is_call: bool = False) -> Stop:
    """Return the verdict and message for a fault that a worker reported.

    A submission may decline a configuration in its constructor, except for the problem's own
    configuration. In three situations it may also decline in `forward`:

    - A kernel of the case needs more shared memory than a block has. The submission may refuse the
      case, or let CUDA refuse the launch.
    - The case has more rows or channels than a grid has blocks along y and z.
    - The reference's constructor does not receive the sizes of the inputs. If an input has more
      elements than a grid has blocks along y and z, the submission may also report that CUDA
      refused a launch. The reason is that a kernel may use any product of the input's sizes as the
      grid's y.

    Args:
        fault: The fault.
        case: The case in which the fault occurred; None at import.
        is_call: Whether it occurred in a forward call.
    """
    kind, message, detail = fault.kind, fault.message, fault.detail
    if kind == "build":
        return Stop("error", f"does not compile: {first_error(detail)}", detail)
    if kind == "unsupported":
        return Stop("unsupported", message, detail, is_cause=True)
    if kind == "budget":
        why = f"not run: {message} in one call; --call-budget allows more"
        return Stop("not run", why, detail)
    if kind == "library":
        return Stop("failed", f"own work: {message}", detail, is_cause=True)
    # This test precedes the tests for declining: the own configuration must not be refused.
    if kind == "refusal" and case and case.label in OWN:
        return Stop("failed", f"{DECLINES_OWN}: {message}", detail)
    if kind in ("refusal", "launch refused") and case and _overfills(case):
        return Stop("declined", message, detail)
    if kind == "refusal" and case and _has_more_rows_than_blocks(case):
        return Stop("declined", message, detail, is_refusal=True)
    if kind == "launch refused" and case and _says_that_it_is_too_large(message, case):
        return Stop("declined", message, detail, is_refusal=True)
    if kind == "refusal" and is_call and case and not _may_refuse(case):
        why = f"forward refuses a configuration that the constructor accepted: {message}"
        return Stop("failed", why, detail, is_refusal=True)
    if kind == "refusal":
        return Stop("declined", message, detail, is_refusal=True)
    if not fault.exceeds_grid:
        return Stop("error", message, detail)
    # A kernel that did not run may have left indices unwritten, so the fault may be another one.
    is_asked = kind == "launch refused" and NOBODY_ASKED not in message
    beyond_grid = message if is_asked else TOO_MANY_ROWS
    return Stop("error", message, detail, beyond_grid=beyond_grid, is_noticed=is_asked)


def for_more_rows(stop: Stop) -> Stop:
    """Return the verdict `declined` for a case whose size makes a launch exceed the largest grid.

    The reference's own sizes do not exceed that grid. The failed launch explains every finding of
    the case.
    """
    detail = f"{stop.message}\n{stop.detail}".strip()
    return Stop("declined", stop.beyond_grid, detail, is_cause=True, is_noticed=stop.is_noticed)


def has_more_rows(case: Case, own: Problem) -> bool:
    """Return whether a size of a case exceeds 65,535, but not the same size of the reference.

    65,535 is the largest number of blocks of a grid along y and z.

    The size may be a product of an input's neighbouring sizes, such as its rows in all batches. It
    may also be a number of channels among the constructor's arguments.

    Args:
        case: The case.
        own: The reference with its own sizes.
    """
    sizes: list[tuple[object, object]] = [
        (case.constants[name], own.constants.get(name)) for name in case.constants
    ]
    sizes += [(value, own.arguments.get(name)) for name, value in case.arguments.items()]
    for shape, ours in zip(case.input_shapes, own.input_shapes, strict=False):
        if len(shape) == len(ours):
            sizes += zip(_products(shape), _products(ours), strict=True)
    return any(
        isinstance(size, int) and isinstance(ours, int) and size > MOST_BLOCKS >= ours
        for size, ours in sizes
    )


def _products(shape: Sequence[int]) -> list[int]:
    """Return the product of the sizes in each range of neighbouring dimensions."""
    ends = range(len(shape) + 1)
    return [math.prod(shape[start:end]) for end in ends for start in range(end)]


def _overfills(case: Case) -> bool:
    return families.named(case.family).overfills_shared_memory(case)


def _has_more_rows_than_blocks(case: Case) -> bool:
    rows = [size for shape in case.input_shapes for size in shape[:-1]]
    # The number of output channels can only be among the arguments.
    channels = [value for value in case.arguments.values() if isinstance(value, int)]
    return max(rows + channels, default=0) > MOST_BLOCKS


def _says_that_it_is_too_large(message: str, case: Case) -> bool:
    """Return whether a submission declines a large case by reporting that CUDA refused a launch."""
    is_asked = NOBODY_ASKED not in message and case.label not in OWN
    is_large = any(math.prod(shape) > MOST_BLOCKS for shape in case.input_shapes)
    return is_asked and _may_refuse(case) and (is_large or _has_more_rows_than_blocks(case))


def _may_refuse(case: Case) -> bool:
    return families.named(case.family).forward_may_refuse


def stop_for_changed_file(became: str) -> Stop:
    """Return an error: the worker may have imported another file than the one to be checked."""
    return Stop("error", f"the file was {became} before the worker read it; check it again")


def stop_for_failure(failure: WorkerFailure) -> Stop:
    """Return an error for a worker that died, exceeded a deadline or sent an invalid answer."""
    return Stop("error", str(failure))


def of_own_error(error: Exception, reference: Path) -> Stop:
    """Return the verdict and message for an exception that was raised while an answer was judged.

    If the reference's file raised it, the reference is unsupported. Else the harness has failed.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == reference]
    if lines:
        where = f"{reference.name}:{lines[-1]}"
        why = f"the reference raises where the harness computes the right output ({where}): {text}"
        return Stop("unsupported", why)
    why = f"the harness itself failed while it judged the submission; please report this: {text}"
    return Stop("error", why, "".join(traceback.format_exception(error)))


def describe_wrong_runs(calls: Sequence[Call], wrong: Sequence[str]) -> str:
    """Describe what the wrong calls of a case have in common; empty if they suggest no cause.

    All calls use one instance of ModelNew, and each kind of call detects another kind of state that
    the instance keeps. If only calls with the first run's values are right, the instance keeps
    something of the first call. If exactly the calls with the first weights are right, the instance
    keeps something computed from these weights. If only calls with repeated values are wrong, the
    instance keeps outputs.

    Args:
        calls: All calls of the case, in their order.
        wrong: Names of the calls with a wrong output.
    """
    if not wrong:
        return ""
    arranged = [call for call in calls if call.kind == "arranged" and call.name in wrong]
    if len(arranged) == len(wrong):
        return f"Wrong only with {WORDS[arranged[0].arrangement]}."
    if all(call.kind != "first" for call in calls if call.name in wrong):
        return (
            "Wrong only when the same or nearly the same values were given again, or in another "
            f"order of warps and blocks: {', '.join(wrong)}."
        )
    # Touched inputs lie in new memory. A submission that recognises values by their address is
    # right there.
    in_one_memory = [call for call in calls if call.kind != "touched"]
    right = [call for call in in_one_memory if call.name not in wrong]
    first = calls[0]
    if first not in right:
        return ""
    if all(call.run == first.run for call in right):
        return "Right only at the first call: the submission keeps something of the first call."
    if right == [call for call in in_one_memory if call.run.weights == first.run.weights]:
        return (
            "Wrong only after the weights changed: the submission keeps something computed "
            "from old weights."
        )
    return ""


def name_wrong_inputs(calls: Sequence[Call], wrong: Sequence[str], *, is_finite: bool) -> str:
    """Name the inputs of the wrong calls if the first call was right; else return "".

    `is_finite` is false if the first wrong element of each wrong call is not finite. If all inputs
    of these calls are also large, the text says that an intermediate result overflowed. The report
    uses this text only if no diagnosis names the mistake.
    """
    if not wrong or calls[0].name in wrong:
        return ""
    names = ", ".join(wrong)
    kinds = {call.run.distribution for call in calls if call.name in wrong}
    if not is_finite and kinds <= _LARGE:
        return f"Right but for an overflow: wrong only with these inputs: {names}."
    return f"Wrong only with these inputs: {names}."
