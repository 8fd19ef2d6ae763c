"""Exact counters of a simulated kernel: instructions, bytes, sectors, bank conflicts, branches."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.counters.classes import (
    INTEGERS,
    classify,
    floating_point_operations,
    matrix_operations,
)
from harness.simulator.hardware.geometry import WARP, Geometry
from harness.simulator.layout.counting import SiteCounts, SiteProfile
from harness.simulator.lowering.program import Access, Program
from harness.simulator.ptx.ptx import TYPE_BYTES, Location
from harness.simulator.ptx.space import WINDOWS


@dataclass(frozen=True)
class AccessCounts:
    """Counters of one load, store or atomic instruction of a kernel.

    An asynchronous copy has two of these objects: one for its reads and one for its writes.

    Attributes:
        kind: Kind of access, such as "load".
        space: State space of the addresses, such as "global"; never "generic".
        bytes_per_thread: Bytes that a thread accesses at a time. For an asynchronous copy or a
            similar instruction, this is the smallest number of bytes that the instruction may
            access at a time.
        file: Path of the source file, or None if the PTX does not have it.
        line: Line in the source file, or None.
        requests: Number of times that a warp executed the instruction.
        threads: Number of times that a thread executed the instruction.
        nbytes: Bytes that all threads accessed.
        sectors: Number of 32-byte sectors that the requests touched in global memory.
        ideal_sectors: The value of `sectors` if the bytes of each request were contiguous.
        wavefronts: Number of passes that the requests needed in shared memory.
        ideal_wavefronts: The value of `wavefronts` without bank conflicts.
        stride: Distance in bytes between the addresses of neighbouring threads. None unless more
            than half of the pairs of neighbouring threads have this distance.
    """

    kind: str
    space: str
    bytes_per_thread: int
    file: str | None
    line: int | None
    requests: int
    threads: int
    nbytes: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int
    stride: int | None


@dataclass(frozen=True)
class BranchCounts:
    """Counters of a branch of a kernel.

    Attributes:
        file: Path of the source file, or None if the PTX does not name one. If the branch was
            inlined, file and line are those of the outermost call, in the kernel itself.
        line: Line in the source file, or None.
        executed: Number of times that a warp executed the branch.
        divergent: Number of times that the threads of a warp diverged at the branch.
    """

    file: str | None
    line: int | None
    executed: int
    divergent: int


@dataclass(frozen=True)
class LineCounts:
    """Numbers of PTX instructions that were executed for one source line of a kernel.

    Attributes:
        file: Path of the source file, or None if the PTX does not name one. If the code of a header
            was inlined, file and line are those of the submission's line that calls this code.
        line: Line in the source file, or None.
        warp_instructions: PTX instructions executed, counted once for each warp.
        thread_instructions: PTX instructions executed, counted once for each thread.
    """

    file: str | None
    line: int | None
    warp_instructions: int
    thread_instructions: int


@dataclass(frozen=True)
class KernelCounters:
    """Counters of one or more launches of a kernel.

    Attributes:
        kernel: The kernel's readable name.
        launches: Number of launches.
        grid: Blocks of the last launch's grid along x, y and z.
        block: Threads of the last launch's blocks along x, y and z.
        dynamic_shared_bytes: Bytes of a block's dynamic shared memory in the last launch.
        thread_instructions: PTX instructions executed, summed over threads. The keys are classes
            such as "load global" or "float32".
        warp_instructions: PTX instructions executed, summed over warps, by class.
        operations: Floating-point operations by PTX type, without those of matrix instructions.
        matrix_operations: Multiplications and additions of matrix instructions, by the type of the
            factors.
        accesses: Counters of each load, store, atomic and asynchronous copy.
        branches: Counters of each branch.
        lines: Counters of each source line.
    """

    kernel: str
    launches: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    thread_instructions: Mapping[str, int]
    warp_instructions: Mapping[str, int]
    operations: Mapping[str, int]
    matrix_operations: Mapping[str, int]
    accesses: tuple[AccessCounts, ...]
    branches: tuple[BranchCounts, ...]
    lines: tuple[LineCounts, ...] = ()

    @property
    def flop(self) -> int:
        """Number of floating-point operations, including those of matrix instructions.

        Products of integer matrices do not count.
        """
        of_matrices = (n for kind, n in self.matrix_operations.items() if kind not in INTEGERS)
        return sum(self.operations.values()) + sum(of_matrices)

    @property
    def lanes_per_instruction(self) -> float:
        """Mean number of threads of a warp that execute an instruction together, at most 32.

        It is 0 if no instruction was executed.
        """
        warps = sum(self.warp_instructions.values())
        return sum(self.thread_instructions.values()) / warps if warps else 0.0


_NUMBERS = list(SiteCounts.fields)
_REQUESTS, _PAIRS = _NUMBERS.index("requests"), _NUMBERS.index("pairs")
_STRIDE, _SPACE = _NUMBERS.index("stride"), _NUMBERS.index("space")
"""Positions among the numbers of `SiteCounts`. The numbers before the stride are sums."""


@dataclass(frozen=True)
class RawCounts:
    """The raw counts of one process that runs blocks of a launch.

    Attributes:
        threads: For each basic block of the kernel, how many times a thread executed it.
        warps: For each basic block of the kernel, how many times a warp executed it.
        divergent: For each basic block of the kernel, how many times a warp diverged at its end.
        sites: For each instruction that accesses memory, the fields of `SiteCounts` as numbers.
    """

    threads: npt.NDArray[np.int64]
    warps: npt.NDArray[np.int64]
    divergent: npt.NDArray[np.int64]
    sites: npt.NDArray[np.uint64]


class Counts:
    """The raw counts of a launch while it runs.

    Executions are counted for each basic block, and not for each instruction, because all
    instructions of a basic block are executed equally often. `result` makes counters of
    instructions, lines and branches from these counts.
    """

    def __init__(self, program: Program, geometry: Geometry, lanes: int, sites: int) -> None:
        self._program = program
        self._geometry = geometry
        blocks = len(program.blocks)
        self._threads = np.zeros(blocks, np.int64)
        self._warps = np.zeros(blocks, np.int64)
        self._divergent = np.zeros(blocks, np.int64)
        threads = geometry.threads
        warps = -(-threads // WARP)
        lane = np.arange(lanes)
        self._warp_of = (lane // threads * warps + lane % threads // WARP).astype(np.uint32)
        self._lane_of = (lane % threads % WARP).astype(np.uint8)
        self._starts = np.flatnonzero(self._lane_of == 0)
        self._sites = (SiteCounts * max(sites, 1))()
        self._table = np.ctypeslib.as_array(self._sites).view(np.uint64).reshape(-1, len(_NUMBERS))
        self._profile = SiteProfile(
            self._warp_of.ctypes.data, self._lane_of.ctypes.data, ctypes.addressof(self._sites)
        )
        self.pointer = ctypes.addressof(self._profile)

    def _any(self, lanes: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a boolean for each simulated warp: True if `lanes` has a thread of the warp."""
        return np.logical_or.reduceat(lanes, self._starts)

    def executed(self, position: int, current: npt.NDArray[np.bool_] | None, count: int) -> None:
        """Count one execution of a basic block by some threads.

        Args:
            position: Number of the basic block.
            current: Mask of the threads that executed it, or None for all threads of the chunk
                (blocks that are simulated together).
            count: Number of those threads.
        """
        self._threads[position] += count
        whole = current is None
        self._warps[position] += (
            len(self._starts) if whole or current is None else int(self._any(current).sum())
        )

    def diverged(
        self, position: int, taking: npt.NDArray[np.bool_], staying: npt.NDArray[np.bool_]
    ) -> None:
        """Count the warps whose threads diverge at a branch.

        Args:
            position: Number of the basic block that ends with the branch.
            taking: Mask of the threads that take the branch.
            staying: Mask of the threads that do not take the branch.
        """
        self._divergent[position] += int((self._any(taking) & self._any(staying)).sum())

    def totals(self) -> RawCounts:
        """Return a copy of the raw counts so far."""
        by_block = (self._threads.copy(), self._warps.copy(), self._divergent.copy())
        return RawCounts(*by_block, self._table.copy())

    def start_from(self, sites: npt.NDArray[np.uint64]) -> None:
        """Set the counts of memory accesses to those of another process, to continue from them.

        Args:
            sites: The field `sites` of the other process's `RawCounts`.
        """
        self._table[...] = sites

    def add(self, part: RawCounts, started_from: npt.NDArray[np.uint64]) -> bool:
        """Add the counts of another process, minus the counts `started_from` with which it started.

        Args:
            part: All counts of the other process, including `started_from`.
            started_from: The counts of memory accesses with which the other process started.

        Returns:
            True if the counts were added. False, without an addition, if the two processes recorded
            different strides or state spaces for one instruction. A single process would have used
            one stride for all accesses, so its counts could differ from the sums.
        """
        ours, theirs = self._table, part.sites
        both = (ours[:, _REQUESTS] > 0) & (theirs[:, _REQUESTS] > 0)
        paired = (ours[:, _PAIRS] > 0) & (theirs[:, _PAIRS] > 0)
        differ = ours != theirs
        if (paired & differ[:, _STRIDE]).any() or (both & differ[:, _SPACE]).any():
            return False
        self._threads += part.threads
        self._warps += part.warps
        self._divergent += part.divergent
        first_there = (ours[:, _PAIRS] == 0) & (theirs[:, _REQUESTS] > 0)
        ours[first_there, _STRIDE:] = theirs[first_there, _STRIDE:]
        ours[:, :_STRIDE] += theirs[:, :_STRIDE] - started_from[:, :_STRIDE]
        return True

    def result(self, sites: list[Access], dynamic_shared_bytes: int) -> KernelCounters:
        """Return the counters of the launch so far, by instruction class, access, branch and line.

        Args:
            sites: The instructions that access memory, in the order of `BlockCompiler.sites`.
            dynamic_shared_bytes: Bytes of a block's dynamic shared memory.
        """
        threads: Counter[str] = Counter()
        warps: Counter[str] = Counter()
        operations: Counter[str] = Counter()
        of_matrices: Counter[str] = Counter()
        by_line: Counter[tuple[str | None, int | None]] = Counter()
        threads_by_line: Counter[tuple[str | None, int | None]] = Counter()
        branches = []
        for index, block in enumerate(self._program.blocks):
            by_thread, by_warp = int(self._threads[index]), int(self._warps[index])
            if not by_warp:
                continue
            for instruction in block.executed:
                name = classify(instruction)
                threads[name] += by_thread
                warps[name] += by_warp
                place = _written_at(instruction.location)
                by_line[place] += by_warp
                threads_by_line[place] += by_thread
                for counter, (kind, per_thread) in (
                    (operations, floating_point_operations(instruction)),
                    (of_matrices, matrix_operations(instruction)),
                ):
                    if per_thread:
                        counter[kind] += per_thread * by_thread
            if block.counted_branch:
                file, line = _file_and_line(block.counted_branch.location)
                branches.append(BranchCounts(file, line, by_warp, int(self._divergent[index])))
        return KernelCounters(
            self._program.name,
            1,
            self._geometry.grid,
            self._geometry.block,
            dynamic_shared_bytes,
            dict(threads),
            dict(warps),
            dict(operations),
            dict(of_matrices),
            tuple(
                _access(step, counts)
                for step, counts in zip(sites, self._sites, strict=False)
                if counts.requests
            ),
            tuple(branches),
            tuple(LineCounts(*place, by_line[place], threads_by_line[place]) for place in by_line),
        )


def _written_at(location: Location | None) -> tuple[str | None, int | None]:
    """Return the submission's file and line for an instruction, or (None, None) if unknown.

    If the code of a header was inlined, the result is the submission's line that calls this code.
    """
    place = location and location.written_at
    return (place.file, place.line) if place else (None, None)


def _file_and_line(location: Location | None) -> tuple[str | None, int | None]:
    """Return the file and line in the kernel itself, or (None, None) if unknown.

    If the code was inlined, the result is the line of the outermost call.
    """
    return (location.outermost.file, location.outermost.line) if location else (None, None)


def _access(step: Access, counts: SiteCounts) -> AccessCounts:
    """Return the counters of an instruction that accesses memory.

    The stride is None unless more than half of the pairs of neighbouring threads have this stride.
    """
    alike = 2 * counts.pairs_alike > counts.pairs
    return AccessCounts(
        kind=step.kind,
        space=WINDOWS[counts.space],
        bytes_per_thread=TYPE_BYTES[step.type] * step.elements,
        file=step.location.file if step.location else None,
        line=step.location.line if step.location else None,
        requests=counts.requests,
        threads=counts.threads,
        nbytes=counts.bytes,
        sectors=counts.sectors,
        ideal_sectors=counts.ideal_sectors,
        wavefronts=counts.wavefronts,
        ideal_wavefronts=counts.ideal_wavefronts,
        stride=counts.stride if alike else None,
    )


def merged(one: KernelCounters, two: KernelCounters) -> KernelCounters:
    """Return the sum of the counters of launches of the same kernel.

    Name, grid, block and dynamic shared memory are those of `two`.
    """
    return KernelCounters(
        two.kernel,
        one.launches + two.launches,
        two.grid,
        two.block,
        two.dynamic_shared_bytes,
        _sum(one.thread_instructions, two.thread_instructions),
        _sum(one.warp_instructions, two.warp_instructions),
        _sum(one.operations, two.operations),
        _sum(one.matrix_operations, two.matrix_operations),
        _sum_accesses((*one.accesses, *two.accesses)),
        _sum_branches((*one.branches, *two.branches)),
        _sum_lines((*one.lines, *two.lines)),
    )


def _sum(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}}


def _sum_accesses(accesses: tuple[AccessCounts, ...]) -> tuple[AccessCounts, ...]:
    """Merge accesses that agree in kind, space, width, file, line and stride; sum the counters."""
    summed: dict[tuple[object, ...], AccessCounts] = {}
    for a in accesses:
        key = (a.kind, a.space, a.bytes_per_thread, a.file, a.line, a.stride)
        b = summed.get(key)
        summed[key] = (
            a
            if b is None
            else AccessCounts(
                a.kind,
                a.space,
                a.bytes_per_thread,
                a.file,
                a.line,
                a.requests + b.requests,
                a.threads + b.threads,
                a.nbytes + b.nbytes,
                a.sectors + b.sectors,
                a.ideal_sectors + b.ideal_sectors,
                a.wavefronts + b.wavefronts,
                a.ideal_wavefronts + b.ideal_wavefronts,
                a.stride,
            )
        )
    return tuple(summed.values())


def _sum_branches(branches: tuple[BranchCounts, ...]) -> tuple[BranchCounts, ...]:
    """Merge branches that agree in file and line, and sum their counters."""
    summed: dict[tuple[object, ...], BranchCounts] = {}
    for a in branches:
        b = summed.get((a.file, a.line))
        summed[a.file, a.line] = (
            a
            if b is None
            else BranchCounts(a.file, a.line, a.executed + b.executed, a.divergent + b.divergent)
        )
    return tuple(summed.values())


def _sum_lines(lines: tuple[LineCounts, ...]) -> tuple[LineCounts, ...]:
    """Merge the counters of the same file and line, and sum them."""
    summed: dict[tuple[str | None, int | None], LineCounts] = {}
    for a in lines:
        b = summed.get((a.file, a.line))
        summed[a.file, a.line] = (
            a
            if b is None
            else LineCounts(
                a.file,
                a.line,
                a.warp_instructions + b.warp_instructions,
                a.thread_instructions + b.thread_instructions,
            )
        )
    return tuple(summed.values())
