"""One launch on several cores: processes take chunks of its blocks and run them in parallel.

Whether the order of blocks matters to a kernel is unknown before it runs, so the harness
speculates. It runs the chunks in parallel, and then compares the memory that the processes
accessed. The order made no difference if all of these hold:

- No process accessed memory that another process wrote.
- There are no findings, and nothing was printed.
- No thread read the clock.

The sums of the parts are then what one core would have counted. Otherwise memory is restored, and
the launch runs again on one core, as do all later launches of that kernel.

Processes are used instead of threads. NumPy's calls on a chunk are so short that two threads, with
the interpreter's lock, gain only 14 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from harness.simulator.counters.counters import Totals
from harness.simulator.execution.cores import CoreLost, SharedBoard, WorkerProcesses
from harness.simulator.execution.launch import Kernel, Launch, LaunchResult
from harness.simulator.execution.snapshot import Snapshot
from harness.simulator.hardware.budget import Budget, OverBudget
from harness.simulator.hardware.geometry import Geometry
from harness.simulator.hardware.memory import Memory
from harness.simulator.lowering.program import Access, Program
from harness.simulator.ptx.space import Space

_LEAST_LANES = 4096
"""Threads of the smallest chunks that are worth running in parallel."""
_LEAST_WORK = 8_000_000
"""Thread-instructions of the smallest launches that are worth running in parallel."""
_TYPICAL_INSTRUCTIONS = 200
"""Assumed instructions per thread of a kernel that has not run yet."""
_MOST_CELLS = 1 << 26
"""Most cells of global memory that can be compared; race detection has as many."""
_WRITTEN = 2
"""Value of a room's cell that the process has written, as in sharing.c."""

Sites = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Task:
    """A launch, described by names and numbers that mean the same in all processes.

    Attributes:
        module: Number of the module.
        kernel: Mangled name of the kernel.
        geometry: Grid and block.
        dynamic_shared_bytes: Dynamic shared memory of a block.
        arguments: The kernel's argument bytes.
        chunk_lanes: Most threads of a chunk.
        counters: True if the launch is counted.
        grid_barrier: Address at which the blocks of a cooperative launch are counted; else 0.
        schedule: Order of blocks and warps, as in `Placement`.
        is_shared: True if several processes run blocks of the launch.
        chunks: Number of chunks, if it is shared.
        counted: Counts that exist already at each place in the code, if it is shared.
        budget: The call's budget.
        chosen: Numbers of the blocks that run; empty for all.
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
    """The share of a launch that one process has run.

    Attributes:
        has_run: True if the process ran any chunk.
        thread_instructions: Instructions executed, summed over threads.
        work: Cost of the simulation, as in `budget.work_of`.
        totals: The counts, or None.
        problem: Why one core has to run the whole launch; the other fields are then meaningless.
        over_budget: The work done when the launch exceeded its budget, else 0; the other fields are
            then meaningless.
        reached: Numbers of the program's blocks of code that have run so far.
        outcomes: Ways that threads went at each branch, as in `Prepared`.
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
    """Return why the kernel must not run on several cores; empty if it may."""
    if any(access.operation for access in _not_of_shared(program)):
        return "it has atomic operations on global memory"
    return "its blocks meet at the grid's barrier" if "%envreg1" in program.specials else ""


def why_all_blocks(program: Program) -> str:
    """Return why some blocks may depend on others; empty if none does."""
    may_wait = any(access.how for access in _not_of_shared(program))
    return why_one_core(program) or ("it may wait for what other blocks write" if may_wait else "")


def _not_of_shared(program: Program) -> Iterator[Access]:
    """Yield the program's accesses outside shared memory."""
    for block in program.blocks:
        for step in block.steps:
            if isinstance(step, Access) and step.space is not Space.SHARED:
                yield step


def chunk_lanes(kernel: Kernel, threads: int, most: int, processes: int) -> int:
    """Return the threads of a chunk of a shared launch, or 0 if one core runs the whole launch.

    Args:
        kernel: The kernel; its last launch gives the work per thread.
        threads: Threads of the whole grid.
        most: Most threads of a chunk.
        processes: Number of processes.
    """
    each = kernel.instructions_per_thread or _TYPICAL_INSTRUCTIONS
    if kernel.needs_one_core or threads < 2 * _LEAST_LANES or threads * each < _LEAST_WORK:
        return 0
    # At least two chunks for each process, as far as chunks are not too small.
    return max(_LEAST_LANES, min(most, -(-threads // (2 * processes))))


class MulticoreLaunches:
    """Launches on `processes` cores, this process's own included.

    Args:
        memory: The device's memory.
        processes: Number of processes.
        make: Makes the launch of a task, in whichever process it is called.
    """

    def __init__(self, memory: Memory, processes: int, make: Callable[[Task], Launch]) -> None:
        self.processes = processes
        self._memory = memory
        self._make = make
        self._board: SharedBoard | None = None
        self._cores: WorkerProcesses[Task, Part] | None = None
        self._known_modules = 0

    def run(self, task: Task, modules: int) -> LaunchResult | None:
        """Run a launch; return None, with memory restored, if it has to run on one core.

        Args:
            task: The launch.
            modules: Number of modules loaded so far. The other processes have only those loaded
                before they were forked.

        Raises:
            OverBudget: The launch exceeds the call's budget. Memory is restored.
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
        """End the other processes, even while they work."""
        if self._cores and self._cores.are_mine:
            self._cores.close()
        self._cores = None

    def _are_there(self, modules: int) -> bool:
        """Return whether processes with these modules exist; fork them if necessary."""
        if self._cores and self._cores.are_mine and self._known_modules == modules:
            return True
        self.close()
        self._known_modules = modules
        try:
            self._board = self._board or SharedBoard(
                self._memory.library, self.processes, _MOST_CELLS
            )
            self._cores = WorkerProcesses(self.processes - 1, self._memory.join, self._work)
        except OSError:
            self.processes = 1
        return self._cores is not None

    def _work(self, process: int, task: Task) -> Part:
        """Run a task's chunks in another process."""
        assert self._board  # noqa: S101 - the board is made before the processes
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
        """Run chunks in this process, and return its share of the launch."""
        assert self._board  # noqa: S101 - as above
        try:
            launch.run_some(numbers)
        except OverBudget as over:
            self._board.stop()
            return Part(over_budget=over.work)
        except Exception as error:  # an error that stops one process comes again on one core
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
        """Run a launch; return why its result is unusable, or an empty string."""
        assert self._board and self._cores  # noqa: S101, PT018 - _are_there was asked
        numbers = self._board.numbers(task.chunks)
        self._board.deal()
        if task.counters:
            # The first chunk decides the stride that later accesses are compared with. It runs
            # alone, and all processes start from its counts.
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
            # Answers that were not read must not be mistaken for answers to the next task.
            self.close()
            raise
        return self._merge(launch, task, parts)

    def _merge(self, launch: Launch, task: Task, parts: Sequence[Part]) -> str:
        """Add up the parts; return why that is impossible, or an empty string."""
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
    """Return whether a process has accessed a cell that another process has written."""
    # Only cells that several processes have accessed matter, and among them those with a writer.
    touched, several, written = (np.zeros(rooms[0].shape, np.bool_) for _ in range(3))
    for room in rooms:
        here = room > 0
        several |= touched & here
        touched |= here
        written |= room == _WRITTEN
    return bool((several & written).any())
