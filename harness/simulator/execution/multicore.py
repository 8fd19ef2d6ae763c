"""One launch on several cores: chunks of its blocks are dealt out to processes.

Whether blocks care in which order they run is not known beforehand. So it is tried, and what each
process touched is compared afterwards: where no process has touched what another has written, and
nothing was found, nothing printed and no clock read, the order made no difference, and the sums of
the parts are what one core would have counted. Else memory is made what it was, and the launch is
run again on one core, as are all later launches of that kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from harness.simulator.counters.counters import Totals
from harness.simulator.execution.cores import Board, CoreLost, Cores
from harness.simulator.execution.launch import Kernel, Launch, LaunchResult
from harness.simulator.execution.snapshot import Snapshot
from harness.simulator.hardware.budget import Budget, OverBudget
from harness.simulator.hardware.geometry import Geometry
from harness.simulator.hardware.memory import Memory
from harness.simulator.lowering.program import Access, Program
from harness.simulator.ptx.space import Space

_LEAST_LANES = 4096
"""Threads of the smallest chunks that are worth their while."""
_LEAST_WORK = 8_000_000
"""Thread-instructions of the smallest launches that are."""
_TYPICAL_INSTRUCTIONS = 200
"""Of a thread, as long as a kernel has not run."""
_MOST_CELLS = 1 << 26
"""Cells of global memory that may be watched: as many as race detection has."""
_WRITTEN = 2
"""What a cell of a room says, as in sharing.c."""

Sites = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Task:
    """A launch, by what names it in all processes.

    `grid_barrier` is where the blocks of a cooperative launch are counted, 0 in another one.
    `is_shared` tells that others run blocks of it too, `chunks` how many there are then, and
    `counted` what has been counted already at each place in the code; `budget` is the call's.
    `chosen` are the blocks that run, none for all.
    """

    module: int
    kernel: str
    geometry: Geometry
    dynamic_shared_bytes: int
    arguments: bytes
    chunk_lanes: int
    counters: bool
    grid_barrier: int
    schedule: int = 0
    is_shared: bool = False
    chunks: int = 0
    counted: Sites | None = None
    budget: Budget = field(default_factory=Budget)
    chosen: tuple[int, ...] = ()


@dataclass(frozen=True)
class Part:
    """What one process did of a launch.

    `problem` tells why one core has to do it all, and `over_budget` that it would be too much in
    any case; nothing else is of use then. `reached` are the program's blocks that have run so far,
    and `outcomes` which ways their branches went.
    """

    has_run: bool = False
    thread_instructions: int = 0
    work: int = 0
    totals: Totals | None = None
    problem: str = ""
    over_budget: int = 0
    reached: frozenset[int] = frozenset()
    outcomes: tuple[int, ...] = ()


def why_one_core(program: Program) -> str:
    """Why there is no sense in trying this kernel on several cores; empty where there may be."""
    if any(access.operation for access in _not_of_shared(program)):
        return "it has atomic operations on global memory"
    return "its blocks meet at the grid's barrier" if "%envreg1" in program.specials else ""


def why_all_blocks(program: Program) -> str:
    """Why some of a kernel's blocks may need what others do; empty where none does."""
    may_wait = any(access.how for access in _not_of_shared(program))
    return why_one_core(program) or ("it may wait for what other blocks write" if may_wait else "")


def _not_of_shared(program: Program) -> Iterator[Access]:
    """What it accesses outside of shared memory."""
    for block in program.blocks:
        for step in block.steps:
            if isinstance(step, Access) and step.space is not Space.SHARED:
                yield step


def chunk_lanes(kernel: Kernel, threads: int, most: int, processes: int) -> int:
    """Threads of a chunk for a launch of so many; 0 where one core is to do it all.

    Args:
        kernel: what is launched; its earlier launches tell how much work a thread is.
        threads: of the whole grid.
        most: threads of a chunk.
        processes: that there are.
    """
    each = kernel.instructions_per_thread or _TYPICAL_INSTRUCTIONS
    if kernel.needs_one_core or threads < 2 * _LEAST_LANES or threads * each < _LEAST_WORK:
        return 0
    return max(_LEAST_LANES, min(most, -(-threads // (2 * processes))))


class MulticoreLaunches:
    """Runs launches on `processes` cores, of which this process's own is one.

    `make` makes the launch of a task, in whichever process it is called.
    """

    def __init__(self, memory: Memory, processes: int, make: Callable[[Task], Launch]) -> None:
        self.processes = processes
        self._memory = memory
        self._make = make
        self._board: Board | None = None
        self._cores: Cores[Task, Part] | None = None
        self._known_modules = 0

    def run(self, task: Task, modules: int) -> LaunchResult | None:
        """Runs a launch; None where it has to run on one core, with memory as it was.

        Raises OverBudget where it is more than the call may do; memory is as it was then, too.

        `modules` is how many have been loaded so far; the others know those from before the fork.
        """
        launch = self._make(task)
        try:
            races = launch.races
            if not races or races.watched_cells > _MOST_CELLS or not self._are_there(modules):
                return None
            snapshot = Snapshot.of(self._memory, races.watched)
            try:
                problem = self._run(launch, replace(task, chunks=launch.chunks))
            except OverBudget:
                snapshot.restore()
                raise
            if problem:
                snapshot.restore()
                launch.kernel.needs_one_core = problem
            return None if problem else launch.result()
        finally:
            launch.end()

    def close(self) -> None:
        """Ends the other processes, whatever they do."""
        if self._cores and self._cores.are_mine:
            self._cores.close()
        self._cores = None

    def _are_there(self, modules: int) -> bool:
        """Whether there are processes that know the modules; forks them where there are not."""
        if self._cores and self._cores.are_mine and self._known_modules == modules:
            return True
        self.close()
        self._known_modules = modules
        try:
            self._board = self._board or Board(self._memory.library, self.processes, _MOST_CELLS)
            self._cores = Cores(self.processes - 1, self._memory.join, self._work)
        except OSError:
            self.processes = 1
        return self._cores is not None

    def _work(self, process: int, task: Task) -> Part:
        """What the other processes do with a task."""
        assert self._board  # noqa: S101 - it was there before they were
        numbers = self._board.numbers(task.chunks)
        first = list(islice(numbers, 1))
        if not first:
            return Part()
        launch = self._make(task)
        if launch.counts and task.counted is not None:
            launch.counts.start_from(task.counted)
        try:
            return self._part(launch, chain(first, numbers), process)
        finally:
            launch.end()

    def _part(self, launch: Launch, numbers: Iterable[int], process: int) -> Part:
        assert self._board  # noqa: S101 - as above
        try:
            launch.run_some(numbers)
        except OverBudget as over:
            self._board.stop()
            return Part(over_budget=over.work)
        except Exception as error:  # what stops one process will come again on one core
            self._board.stop()
            return Part(problem=str(error) or repr(error))
        launch.touched(self._board.room(process))
        prepared = launch.kernel.prepared
        return Part(
            True,
            launch.thread_instructions,
            launch.work,
            launch.totals(),
            reached=frozenset(prepared.reached),
            outcomes=tuple(prepared.outcomes),
        )

    def _run(self, launch: Launch, task: Task) -> str:
        """Runs a launch; returns why it was in vain, or nothing."""
        assert self._board and self._cores  # noqa: S101, PT018 - _are_there was asked
        numbers = self._board.numbers(task.chunks)
        self._board.deal()
        if task.counters:
            # What comes first decides which strides are counted as alike.
            first = self._part(launch, islice(numbers, 1), 0)
            _refuse_what_is_too_much([first])
            if not first.totals:
                return first.problem
            task = replace(task, counted=first.totals.sites)
        others = min(self.processes, task.chunks) - 1
        try:
            self._cores.ask(task, others)
            parts = [self._part(launch, numbers, 0), *self._cores.answers(others)]
        except CoreLost:
            self.close()
            self.processes = 1
            return "a process has ended"
        except BaseException:
            # Answers that nobody waits for must not be taken for those to the next task.
            self.close()
            raise
        return self._merge(launch, task, parts)

    def _merge(self, launch: Launch, task: Task, parts: Sequence[Part]) -> str:
        """Adds up the parts; returns why that cannot be, or nothing."""
        assert self._board  # noqa: S101 - as above
        _refuse_what_is_too_much(parts)
        for part in parts:
            if part.problem:
                return part.problem
        cells = launch.races.watched_cells if launch.races else 0
        rooms = [self._board.room(n)[:cells] for n, part in enumerate(parts) if part.has_run]
        if _conflict(rooms):
            return "blocks access what other blocks write"
        for part in parts[1:]:
            if part.has_run and not launch.add(
                part.thread_instructions, part.work, part.totals, task.counted
            ):
                return "the counts of its parts do not add up"
        launch.processes = len(parts)
        for part in parts:
            launch.kernel.prepared.add(part.reached, part.outcomes)
        return ""


def _refuse_what_is_too_much(parts: Sequence[Part]) -> None:
    for part in parts:
        if part.over_budget:
            raise OverBudget(part.over_budget)


def _conflict(rooms: Sequence[npt.NDArray[np.uint8]]) -> bool:
    """Whether a process has touched what another has written."""
    touched, several, written = (np.zeros(rooms[0].shape, np.bool_) for _ in range(3))
    for room in rooms:
        here = room > 0
        several |= touched & here
        touched |= here
        written |= room == _WRITTEN
    return bool((several & written).any())
