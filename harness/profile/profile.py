"""A profile of a submission's kernels, counted on the simulator in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.evaluate import Request, settings_for
from harness.judging.conversation import MOST_ELEMENTS, Conversation, StepFault
from harness.problems.discovery import Submission
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem
from harness.problems.values import runs_for, values_for
from harness.records.findings import describe_finding, failing_findings, merge_findings
from harness.simulator.counters.counters import AccessCounts, BranchCounts, KernelCounters
from harness.simulator.counters.totals import KernelProfile
from harness.simulator.lowering.program import COPY
from harness.worker.device_worker import DeviceWorker, ForwardCall, ForwardOutcome
from harness.worker.supervisor import WorkerFailure

SCHEMA = 3
"""Version of the JSON form.

1: the first.
2: `operations` without those of matrix instructions, which are `matrix_operations`; `nbytes` of
each access; asynchronous copies among the accesses.
3: `lines`, the instructions of each source line.
"""


@dataclass(frozen=True)
class Profile:
    """Counts of what a submission's kernels do, in one run on one problem.

    Attributes:
        submission: Name of the submission.
        problem: Name of the reference.
        case: Id of the configuration that was run.
        arguments: Arguments of `ModelNew` in that configuration.
        input_shapes: Shapes of forward's inputs.
        kernels: The counts of each kernel, in the order of their first launch.
        findings: Findings of the device's checks, such as memcheck, in the run; one line each.
        failed: Whether at least one of the findings makes the submission wrong.
    """

    submission: str
    problem: str
    case: str
    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    kernels: tuple[KernelProfile, ...]
    findings: tuple[str, ...]
    failed: bool

    def to_plain(self) -> dict[str, Any]:
        """Return the profile as plain data for JSON."""
        return {"schema": SCHEMA, **asdict(self)}


class ProfileError(RuntimeError):
    """The submission did not run to its end; the message gives the reason."""


def profile(request: Request, problem: Problem, submission: Submission) -> Profile:
    """Run a submission once, and count what its kernels do.

    The submission runs in the problem's own configuration (the reference's own sizes), which is
    reduced in size for the simulator. The request's grid and cases are ignored.

    Raises:
        ProfileError: The submission cannot be built or run.
        harness.system.errors.MachineError: This machine cannot evaluate anything.
    """
    (case,) = cases_for(problem, submission, "own", "simulator", seed=request.seed)
    try:
        with DeviceWorker(settings_for(request), request.deadlines, lambda _: None) as worker:
            called = _run(Conversation(worker, problem, case), problem, case)
    except WorkerFailure as failure:
        raise ProfileError(str(failure)) from None
    except StepFault as fault:
        found = failing_findings(fault.findings)
        raise ProfileError(describe_finding(found[0]) if found else str(fault)) from None
    findings = merge_findings(called.findings)
    return Profile(
        submission=submission.name,
        problem=problem.name,
        case=case.id,
        arguments=case.arguments,
        input_shapes=case.input_shapes,
        kernels=called.kernels,
        findings=tuple(describe_finding(finding) for finding in findings),
        failed=bool(failing_findings(findings)),
    )


def _run(conversation: Conversation, problem: Problem, case: Case) -> ForwardOutcome:
    values = values_for(problem, case, runs_for(problem)[0])
    conversation.import_submission()
    conversation.construct(elements=sum(weight.numel() for weight in values.weights.values()))
    return conversation.call(ForwardCall(counting=True), values.inputs, elements=MOST_ELEMENTS)


@dataclass(frozen=True)
class CostRemark:
    """One line of text about an avoidable cost of a kernel.

    `cost` is a rough estimate that only orders the remarks. It counts avoidable memory sectors,
    shared-memory wavefronts or instructions of a warp.
    """

    cost: float
    text: str


def remarks(kernels: Sequence[KernelProfile], most: int = 3) -> tuple[str, ...]:
    """Return at most `most` remarks on avoidable costs of kernels, the highest cost first."""
    found = [remark for kernel in kernels for remark in _remarks(kernel)]
    found.sort(key=lambda remark: -remark.cost)
    return tuple(remark.text for remark in found[:most])


# Four costs are reported: uncoalesced global accesses, bank conflicts, idle lanes, and spills. The
# first two compare a count with the least that the same bytes need. So an access that cannot be
# improved is not reported.
def _remarks(kernel: KernelProfile) -> Iterator[CostRemark]:
    counters = kernel.counters
    by_line: dict[tuple[Any, ...], list[AccessCounts]] = {}
    for access in counters.accesses:
        key = (access.kind, access.space, access.file, access.line)
        by_line.setdefault(key, []).append(access)
    for accesses in by_line.values():
        yield from _of_sectors(accesses)
        yield from _of_conflicts(accesses)
    yield from _of_idle_lanes(counters)
    if kernel.resources and kernel.resources.spill_load_bytes:
        spilled = kernel.resources.spill_load_bytes
        yield CostRemark(
            sum(counters.warp_instructions.values()) / 10,
            f"{counters.kernel}: {spilled} bytes of registers are spilled to local memory",
        )


def _of_sectors(accesses: Sequence[AccessCounts]) -> Iterator[CostRemark]:
    sectors, ideal = (sum(getattr(a, n) for a in accesses) for n in ("sectors", "ideal_sectors"))
    if sectors < 1.5 * ideal or not ideal:
        return
    requests = sum(a.requests for a in accesses)
    first = accesses[0]
    strides = {a.stride for a in accesses}
    why = "neighbouring threads are not neighbours in memory"
    if len(strides) == 1 and None not in strides:
        does = {"load": "read", COPY: "copy"}.get(first.kind, "write")
        why = f"neighbouring threads {does} {abs(strides.pop() or 0)} bytes apart"
    yield CostRemark(
        sectors - ideal,
        f"global {_several(first)}: {sectors / requests:.3g} sectors per request, "
        f"{ideal / requests:.3g} would do: {why}, {_place(first)}",
    )


def _of_conflicts(accesses: Sequence[AccessCounts]) -> Iterator[CostRemark]:
    needed, ideal = (
        sum(getattr(a, n) for a in accesses) for n in ("wavefronts", "ideal_wavefronts")
    )
    if needed >= 1.5 * ideal > 0:
        first = accesses[0]
        yield CostRemark(
            needed - ideal,
            f"shared {_several(first)}: {needed / ideal:.3g}-way bank conflicts at {_place(first)}",
        )


def _several(access: AccessCounts) -> str:
    return "asynchronous copies" if access.kind == COPY else f"{access.kind}s"


def _of_idle_lanes(counters: KernelCounters) -> Iterator[CostRemark]:
    lanes = counters.lanes_per_instruction
    # Up to a quarter of the lanes may idle without a remark.
    if lanes > 24:
        return
    turns = sum(counters.warp_instructions.values()) * (1 - lanes / 32)
    divergent = [branch for branch in counters.branches if branch.divergent]
    if divergent:
        worst = max(divergent, key=lambda branch: branch.divergent)
        why = f"divergent branch at {_place(worst)}"
    else:
        x, y, z = counters.block
        why = f"blocks of {x * y * z} threads do not fill their warps"
    yield CostRemark(turns, f"{1 - lanes / 32:.0%} of the lanes idle in {counters.kernel}: {why}")


def _place(where: AccessCounts | BranchCounts) -> str:
    return f"{Path(where.file).name}:{where.line}" if where.file else "an unknown line"
