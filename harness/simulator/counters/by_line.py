"""Counters of each line of one source file, summed over all kernels of a forward call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from harness.simulator.counters.counters import AccessCounts, BranchCounts, LineCounts
from harness.simulator.counters.totals import KernelProfile
from harness.simulator.ptx.space import Space

_Counted: TypeAlias = LineCounts | AccessCounts | BranchCounts


@dataclass(frozen=True)
class LineCounters:
    """The counters of one source line; they are exact and equal in every run.

    Attributes:
        line: Number of the line.
        warp_instructions: PTX instructions executed, counted once for each warp.
        thread_instructions: PTX instructions executed, counted once for each thread.
        requests: Accesses to global memory, counted once for each warp.
        sectors: Number of 32-byte sectors that the requests touched.
        ideal_sectors: The value of `sectors` if the bytes of each request were contiguous.
        wavefronts: Number of passes that accesses of shared memory needed.
        ideal_wavefronts: The value of `wavefronts` without bank conflicts.
        branches: Number of times that a warp executed a branch.
        divergent: Number of times that the threads of a warp diverged at a branch.
    """

    line: int
    warp_instructions: int = 0
    thread_instructions: int = 0
    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    branches: int = 0
    divergent: int = 0


def by_line(kernels: Iterable[KernelProfile], file: str) -> tuple[LineCounters, ...]:
    """Return the counters of each line of a source file, summed over kernels, sorted by line.

    Args:
        kernels: Profiles of the kernels of a forward call.
        file: Name of the file without a folder. The compiler received the file under this name.
    """
    found: dict[int, dict[str, int]] = {}
    for kernel in kernels:
        counters = kernel.counters
        counted: tuple[_Counted, ...] = (*counters.lines, *counters.accesses, *counters.branches)
        for of in counted:
            if of.line is not None and (of.file or "").rpartition("/")[2] == file:
                line = found.setdefault(of.line, {})
                for name, number in _numbers(of):
                    line[name] = line.get(name, 0) + number
    lines = (LineCounters(line, **numbers) for line, numbers in found.items())
    return tuple(sorted(lines, key=attrgetter("line")))


def _numbers(of: _Counted) -> Iterator[tuple[str, int]]:
    """Yield the name of each `LineCounters` field to which `of` contributes, and what it adds."""
    match of:
        case LineCounts():
            yield "warp_instructions", of.warp_instructions
            yield "thread_instructions", of.thread_instructions
        case BranchCounts():
            yield "branches", of.executed
            yield "divergent", of.divergent
        case AccessCounts(space=Space.GLOBAL):
            yield "requests", of.requests
            yield "sectors", of.sectors
            yield "ideal_sectors", of.ideal_sectors
        case AccessCounts(space=Space.SHARED):
            yield "wavefronts", of.wavefronts
            yield "ideal_wavefronts", of.ideal_wavefronts
