"""From what happened in a step to what it means, in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compiler.ninja import first_error
from harness.judging.layouts import WORDS
from harness.messages.kinds import NOBODY_ASKED
from harness.problems import families
from harness.problems.grid import OWN, Case
from harness.problems.source_numbers import MOST_BLOCKS
from harness.problems.values import Call
from harness.records.report import DECLINES_OWN, Verdict
from harness.worker.supervisor import Step, WorkerFailure


@dataclass(frozen=True)
class Stop:
    """Why a step ended what was being done.

    Attributes:
        verdict: What it makes of the case, or of all of them.
        message: One line.
        detail: Several lines for who wants to know more.
        is_cause: Whether it explains what was found in memory, and not the other way round.
        is_refusal: Whether the submission itself says no.
    """

    verdict: Verdict
    message: str
    detail: str = ""
    is_cause: bool = False
    is_refusal: bool = False


def of_import_fault(fault: Mapping[str, Any]) -> Stop:
    """What an exception at import means that a worker reported: there, nothing can be declined.

    Args:
        fault: `worker.faults.Fault` as plain data.
    """
    stop = of_fault(fault)
    if stop.verdict != "declined":
        return stop
    return Stop("error", f"raises at import: {stop.message}", stop.detail)


def of_fault(fault: Mapping[str, Any], case: Case | None = None, step: Step = "construct") -> Stop:
    """What an exception means that a worker reported.

    Args:
        fault: `worker.faults.Fault` as plain data.
        case: What it was raised for. Nobody may decline the problem's own configuration; what needs
            more shared memory than there is may be declined by letting CUDA refuse the launch, and
            more rows or channels than a grid has blocks along y and z by saying so. Where no more
            is known of the reference, who asks whether a launch was refused says that, too, of more
            numbers than that: any of their sizes may be along y.
        step: What was asked for. Declining is for the constructor: who constructs a model says that
            it is one.
    """
    kind = fault.get("kind")
    message = str(fault.get("message", "no message"))
    detail = str(fault.get("detail", ""))
    if kind == "build":
        return Stop("error", f"does not compile: {first_error(detail)}", detail)
    if kind == "unsupported":
        return Stop("unsupported", message, detail, is_cause=True)
    if kind == "budget":
        why = f"not run: {message} in one call; --call-budget allows more"
        return Stop("not run", why, detail)
    if kind == "library":
        return Stop("failed", f"own work: {message}", detail, is_cause=True)
    if kind == "refusal" and case and case.label in OWN:
        return Stop("failed", f"{DECLINES_OWN}: {message}", detail)
    if kind in ("refusal", "launch refused") and case and _overfills(case):
        return Stop("declined", message, detail)
    if kind == "refusal" and case and _has_more_rows_than_blocks(case):
        return Stop("declined", message, detail, is_refusal=True)
    if kind == "launch refused" and case and _says_that_it_is_too_large(message, case):
        return Stop("declined", message, detail, is_refusal=True)
    if kind == "refusal" and step != "construct" and case and not _may_refuse(case):
        why = f"refuses what its constructor accepted: {message}"
        return Stop("failed", why, detail, is_refusal=True)
    if kind == "refusal":
        return Stop("declined", message, detail, is_refusal=True)
    return Stop("error", message, detail)


def _overfills(case: Case) -> bool:
    return families.named(case.family).overfills_shared_memory(case)


def _has_more_rows_than_blocks(case: Case) -> bool:
    rows = [size for shape in case.input_shapes for size in shape[:-1]]
    # An output's channels are among the arguments, if anywhere.
    channels = [value for value in case.arguments.values() if isinstance(value, int)]
    return max(rows + channels, default=0) > MOST_BLOCKS


def _says_that_it_is_too_large(message: str, case: Case) -> bool:
    is_asked = NOBODY_ASKED not in message and case.label not in OWN
    is_large = any(math.prod(shape) > MOST_BLOCKS for shape in case.input_shapes)
    return is_asked and _may_refuse(case) and (is_large or _has_more_rows_than_blocks(case))


def _may_refuse(case: Case) -> bool:
    return families.named(case.family).forward_may_refuse


def of_changed_file(became: str) -> Stop:
    """What it means that a worker may have imported something else than was to be checked."""
    return Stop("error", f"the file was {became} before the worker had read it; check it again")


def of_failure(failure: WorkerFailure) -> Stop:
    """What it means that a worker had to be given up."""
    return Stop("error", str(failure))


def describe_wrong_runs(calls: Sequence[Call], wrong: Sequence[str]) -> str:
    """What it tells of the mistake which calls of a case went wrong, where it tells anything.

    Args:
        calls: All of them, as they followed one another on one instance.
        wrong: The names of those with a wrong output.
    """
    if not wrong:
        return ""
    arranged = [call for call in calls if call.kind == "arranged" and call.name in wrong]
    if len(arranged) == len(wrong):
        return f"Wrong only with {WORDS[arranged[0].arrangement]}."
    if all(call.kind != "first" for call in calls if call.name in wrong):
        return f"Wrong only when values came back, or nearly: {', '.join(wrong)}."
    # Touched inputs lie in new memory, where who goes by an address is right once more.
    in_one_memory = [call for call in calls if call.kind != "touched"]
    right = [call for call in in_one_memory if call.name not in wrong]
    first = calls[0]
    if first not in right:
        return ""
    if all(call.run == first.run for call in right):
        return "Right only at the first call: something of the first call is kept."
    if right == [call for call in in_one_memory if call.run.weights == first.run.weights]:
        return "Wrong only after the weights changed: something computed from old weights is kept."
    return ""


def name_wrong_inputs(calls: Sequence[Call], wrong: Sequence[str]) -> str:
    """Name the calls of a case that went wrong, where the first went well: no mistake's name.

    A mistake may show with some inputs alone. Who knows which one it is says that instead.
    """
    if not wrong or calls[0].name in wrong:
        return ""
    return f"Wrong only with these inputs: {', '.join(wrong)}."
