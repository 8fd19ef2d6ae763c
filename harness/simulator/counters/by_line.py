"""Counters of the lines of one source file, summed over all kernels of a forward call."""

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
    """The counters of one line, which are exact and the same in every run.

    Attributes:
        line: The number of the line.
        warp_instructions: PTX instructions that warps executed.
        thread_instructions: PTX instructions, summed over the threads that executed them.
        requests: Accesses of warps to global memory.
        sectors: Sectors of 32 bytes that the requests touched.
        ideal_sectors: Sectors that they would touch if each warp's elements were neighbours.
        wavefronts: Passes that accesses of shared memory took.
        ideal_wavefronts: Passes that they would take without bank conflicts.
        branches: How often a warp executed a branch.
        divergent: How often a warp's threads diverged at a branch.
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
    """Sum the counters of kernels for each line of a file, in the order of the lines.

    Args:
        kernels: The kernels of a forward call.
        file: The name of the file without its folder, which is how compilers see it.
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
    """Yield the counters of a line that these counts contribute to."""
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
