"""A profile, the counts of what kernels do, as text tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tabulate import tabulate

from harness.profile.profile import Profile, remarks
from harness.simulator.counters.counters import AccessCounts, KernelCounters
from harness.simulator.counters.totals import KernelProfile
from harness.simulator.lowering.program import COPY


def tables(profile: Profile) -> str:
    """Return a profile as text: tables of work, memory and resources, with a row for each kernel.

    The remarks and the findings come after the tables.
    """
    arguments = ", ".join(f"{name}={value}" for name, value in profile.arguments.items())
    shapes = ", ".join(str(tuple(shape)) for shape in profile.input_shapes)
    parts = [
        f"{profile.submission} on {profile.problem}: ModelNew({arguments}) on input {shapes}",
        _table(map(_work, profile.kernels)),
        _table(map(_memory, profile.kernels)),
        _table(map(_resources, profile.kernels)),
        "\n".join(remarks(profile.kernels) or ["nothing stands out"]),
    ]
    if profile.findings:
        parts.append("\n".join(profile.findings))
    return "\n\n".join(parts)


def _table(rows: Iterable[dict[str, object]]) -> str:
    return tabulate(list(rows), headers="keys", disable_numparse=True, stralign="right")


def _work(kernel: KernelProfile) -> dict[str, object]:
    counters = kernel.counters
    executed = sum(counters.thread_instructions.values())
    branches = sum(branch.executed for branch in counters.branches)
    divergent = sum(branch.divergent for branch in counters.branches)
    return {
        "kernel": counters.kernel,
        "launches": counters.launches,
        "grid": "x".join(map(str, counters.grid)),
        "block": "x".join(map(str, counters.block)),
        "instructions": f"{executed:,}",
        "flop": f"{counters.flop:,}",
        "of matrices": ", ".join(f"{n:,} {kind}" for kind, n in counters.matrix_operations.items()),
        "lanes": f"{counters.lanes_per_instruction:.1f}",
        "divergent branches": f"{divergent / branches:.1%}" if branches else "",
        "most": _most(counters),
    }


def _most(counters: KernelCounters) -> str:
    """Return the three classes of instructions that threads execute most, and their percentages."""
    total = sum(counters.thread_instructions.values())
    classes = sorted(counters.thread_instructions.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count / total:.0%}" for name, count in classes[:3])


def _memory(kernel: KernelProfile) -> dict[str, object]:
    accesses = kernel.counters.accesses
    row: dict[str, object] = {"kernel": kernel.counters.kernel}
    for kind in ("load", "store"):
        chosen = [a for a in accesses if (a.kind, a.space) == (kind, "global")]
        row[f"global {kind}s, bytes"] = f"{sum(a.nbytes for a in chosen):,}"
        row["sectors/request" if kind == "load" else "sectors/request "] = _ratio(
            chosen, "sectors", "requests"
        )
    copies = [a for a in accesses if (a.kind, a.space) == (COPY, "global")]
    if copies:
        row["copies, bytes"] = f"{sum(a.nbytes for a in copies):,}"
        row["sectors/request  "] = _ratio(copies, "sectors", "requests")
    shared = [a for a in accesses if a.space == "shared"]
    row["shared, bytes"] = f"{sum(a.nbytes for a in shared):,}"
    row["bank conflicts"] = "".join(_ways(shared))
    row["local, bytes"] = f"{sum(a.nbytes for a in accesses if a.space == 'local'):,}"
    return row


def _ratio(accesses: Sequence[AccessCounts], what: str, per: str) -> str:
    whole = sum(getattr(a, per) for a in accesses)
    return f"{sum(getattr(a, what) for a in accesses) / whole:.2f}" if whole else ""


def _ways(accesses: Sequence[AccessCounts]) -> Iterator[str]:
    ratio = _ratio(accesses, "wavefronts", "ideal_wavefronts")
    if ratio:
        yield f"{ratio}-way"


def _resources(kernel: KernelProfile) -> dict[str, object]:
    row: dict[str, object] = {"kernel": kernel.counters.kernel}
    if kernel.resources is None or kernel.occupancy is None:
        return row
    row["registers"] = kernel.resources.registers
    row["spilled, bytes"] = kernel.resources.spill_store_bytes
    row["static shared, bytes"] = kernel.resources.shared_bytes
    row["dynamic shared, bytes"] = kernel.counters.dynamic_shared_bytes
    row["occupancy"] = f"{kernel.occupancy.fraction:.0%}"
    row["limited by"] = kernel.occupancy.limited_by
    return row
