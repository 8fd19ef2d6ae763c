"""One launch on several cores: processes run different blocks of the launch in parallel.

A chunk is a number of blocks that are simulated together. Each process takes chunks until all have
run. The harness cannot know before the launch if the order of blocks matters to the kernel. It
therefore runs the chunks in parallel, and then compares the memory that the processes accessed. The
order made no difference if all of these hold:

- No process accessed memory that another process wrote.
- There are no findings, and nothing was printed.
- No thread read the clock or slept, and no block waited for another block.

Then the sums of the processes' counts equal the counts of a launch on one core. Otherwise memory is
restored, and the launch runs again on one core, as do all later launches of that kernel.

Processes are used instead of threads, because two threads gain only 14 %. NumPy's calls on a chunk
are too short for threads, which share the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from harness.simulator.counters.counters import RawCounts
from harness.simulator.execution.cores import CoreLost, SharedBoard, WorkerProcesses
from harness.simulator.execution.launch import Kernel, Launch, LaunchResult
from harness.simulator.execution.snapshot import Snapshot
from harness.simulator.hardware.budget import Budget, OverBudget
from harness.simulator.hardware.geometry import Geometry
from harness.simulator.hardware.limits import STACK_BYTES
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
    """A kernel launch as plain data, which can be sent to another process.

    Attributes:
        module: Number of the loaded module.
        kernel: Mangled name of the kernel.
        geometry: Grid and block.
        dynamic_shared_bytes: Bytes of a block's dynamic shared memory.
        arguments: Bytes of the kernel's arguments.
        chunk_lanes: Maximum number of threads of a chunk (blocks that are simulated together).
        counters: True if traffic and instructions are counted.
        grid_barrier: Address of the memory in which cooperative groups count the blocks that have
            arrived at the barrier of the grid; 0 if the kernel does not use this barrier.
        schedule: Order of blocks and warps: 0 for the natural order, or the seed of a random one.
        is_shared: True if several processes run blocks of the launch.
        chunks: Number of chunks; set only if `is_shared`.
        counted: Counts of memory accesses after the first chunk, for each instruction. All
            processes continue from these counts. Set only if `is_shared` and `counters` are true.
        stack_bytes: Size of a thread's stack on a GPU, in bytes.
        budget: Limits of work and memory for the current call of the device.
        chosen: Numbers of the blocks to run; empty for all.
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
    stack_bytes: int = STACK_BYTES
    budget: Budget = field(default_factory=Budget)
    chosen: tuple[int, ...] = ()


@dataclass(frozen=True)
class Part:
    """The result of one process, which has run some of the blocks of a launch.

    Attributes:
        has_run: True if the process ran any block.
        thread_instructions: PTX instructions executed, summed over threads.
        work: Cost of the simulation in thread-instructions, as in `budget.work_of`.
        totals: Counts of the process, or None if counters are switched off.
        problem: The reason why the launch must run on one core, or empty. If it is set, ignore the
            other fields.
        over_budget: The work of the call when it exceeded its budget, else 0. If it is not 0,
            ignore the other fields.
        reached: Numbers of the kernel's basic blocks that have run so far.
        outcomes: For each basic block, the outcomes of its branch as bits JUMPED and STAYED.
    """

    has_run: bool = False
    thread_instructions: int = 0
    work: int = 0
    totals: RawCounts | None = None
    problem: str = ""
    over_budget: int = 0
    reached: frozenset[int] = frozenset()
    outcomes: tuple[int, ...] = ()


def why_one_core(program: Program) -> str:
    """Return the reason why a kernel must run on one core; empty if several cores may run it.

    There are two possible reasons: the kernel has atomic operations outside shared memory, or it
    uses the barrier of the grid.
    """
    if any(access.operation for access in _not_of_shared(program)):
        return "it has atomic operations on global memory"
    return "its blocks meet at the grid's barrier" if "%envreg1" in program.specials else ""


def why_all_blocks(program: Program) -> str:
    """Return the reason why blocks of a kernel may depend on each other; empty if they cannot.

    The possible reasons are those of `why_one_core`, and strong accesses outside shared memory
    (such as volatile, relaxed or acquire). Through these, a block may wait for another block.
    """
    may_wait = any(access.is_strong for access in _not_of_shared(program))
    return why_one_core(program) or ("it may wait for what other blocks write" if may_wait else "")


def _not_of_shared(program: Program) -> Iterator[Access]:
    """Yield the program's loads, stores and atomic operations outside shared memory."""
    for block in program.blocks:
        for step in block.steps:
            if isinstance(step, Access) and step.space is not Space.SHARED:
                yield step


def chunk_lanes(kernel: Kernel, threads: int, most: int, processes: int) -> int:
    """Return how many threads to simulate together if several processes run a launch.

    Return 0 if the launch is too small for several processes, or if the kernel must run on one
    core.

    Args:
        kernel: The kernel, with the mean number of instructions per thread in its last launch.
        threads: Number of threads in the grid.
        most: Maximum number of threads that may be simulated together.
        processes: Number of processes.
    """
    each = kernel.instructions_per_thread or _TYPICAL_INSTRUCTIONS
    if kernel.needs_one_core or threads < 2 * _LEAST_LANES or threads * each < _LEAST_WORK:
        return 0
    # At least two chunks for each process, as far as chunks are not too small.
    return max(_LEAST_LANES, min(most, -(-threads // (2 * processes))))


class MulticoreLaunches:
    """Runner of launches on several processes, including this one.

    Args:
        memory: Global memory of the simulated device.
        processes: Number of processes, this one included.
        make: Makes a `Launch` from a task. It is called in each process that runs blocks.
    """

    def __init__(self, memory: Memory, processes: int, make: Callable[[Task], Launch]) -> None:
        self.processes = processes
        self._memory = memory
        self._make = make
        self._board: SharedBoard | None = None
        self._cores: WorkerProcesses[Task, Part] | None = None
        self._known_modules = 0

    def run(self, task: Task, modules: int) -> LaunchResult | None:
        """Run a launch on several processes.

        Return None if the launch must run on one core. Its effect on memory is then undone.

        Args:
            task: The launch.
            modules: Number of modules that are loaded now. Other processes have only the modules
                that were loaded before they were forked.

        Raises:
            OverBudget: The launch exceeds the call's budget. Its effect on memory is undone.
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
        """Kill the other processes, even while they work."""
        if self._cores and self._cores.are_mine:
            self._cores.close()
        self._cores = None

    def _are_there(self, modules: int) -> bool:
        """Fork the other processes, unless they exist and have all of the `modules` loaded modules.

        Return False if the system does not allow so many processes.
        """
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
        """Run a part of a launch in a forked process, and return the result of this part.

        The process takes chunks (blocks that are simulated together) until none is left.

        Args:
            process: Number of the forked process, from 1 on.
            task: The launch.
        """
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
        """Run some blocks of a launch in the calling process, and return their result.

        If an error occurs, the other processes take no more blocks, and the result has the error.

        Args:
            launch: The launch.
            numbers: Numbers of the chunks (blocks that are simulated together) to run.
            process: Number of the calling process. The memory that it accesses is recorded in the
                buffer of this number.
        """
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
        """Run a launch on all processes, and add up their results in `launch`.

        Return the reason why the launch must run again on one core, or an empty string.
        """
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
        """Add the results of all processes (`parts`), and store them in `launch`.

        Return an empty string, or the reason if the results cannot be merged.

        Raises:
            OverBudget: A process exceeded the budget.
        """
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
    """Return True if a process has accessed a memory cell that another process has written.

    Args:
        rooms: For each process, an array with a value for each cell: 0 not accessed, 1 read, 2
            written.
    """
    # Only cells that several processes have accessed matter, and among them those with a writer.
    touched, several, written = (np.zeros(rooms[0].shape, np.bool_) for _ in range(3))
    for room in rooms:
        here = room > 0
        several |= touched & here
        touched |= here
        written |= room == _WRITTEN
    return bool((several & written).any())
