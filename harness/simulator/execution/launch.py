"""One kernel launch: runs its blocks chunk by chunk, and collects the results.

A chunk is a number of blocks that are simulated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from harness.finding import Finding
from harness.simulator.counters.counters import Counts, KernelCounters, RawCounts
from harness.simulator.execution.faults import Faults
from harness.simulator.execution.frame import ChunkMemory, Frame, special_registers
from harness.simulator.execution.prepared import Prepared
from harness.simulator.execution.residency import ChunkSlot, blocks_at_once, run_chunks
from harness.simulator.execution.scheduler import Scheduler
from harness.simulator.execution.watch import Observers
from harness.simulator.hardware.budget import Budget
from harness.simulator.hardware.errors import BarrierDeadlock, UnmetCondition
from harness.simulator.hardware.fault import Fault
from harness.simulator.hardware.geometry import Geometry, Placement
from harness.simulator.hardware.memory import Memory
from harness.simulator.hardware.team import Output, Team
from harness.simulator.native.bindings import Native
from harness.simulator.sanitizer.agents import Agents
from harness.simulator.sanitizer.provenance import Traits
from harness.simulator.sanitizer.race import RaceHistory, Races
from harness.simulator.sanitizer.synccheck import SyncChecks

Sites = npt.NDArray[np.uint64]

_POISONED = {16: 0x7FA1, 32: 0x7FA1DEAD, 64: 0x7FF1DEAD7FA1DEAD}
"""Contents of registers that nothing has set, by width in bits.

They are NaN in every floating-point type, and differ from the poison of fresh memory.
"""
_LARGE = {16: 0x7B00, 32: 0x7F61DEAD, 64: 0x7FE1DEAD7F61DEAD}
_SMALL = {16: 0xFB00, 32: 0xFF61DEAD, 64: 0xFFE1DEADFF61DEAD}
"""Contents of these registers in odd and even schedules: large numbers of either sign.

A maximum or minimum drops a NaN, but one of these numbers shows.
"""

CHUNK_PRIVATE_BYTES = 64 << 20
"""Most shared and local memory, in bytes, of the blocks that run together."""


@dataclass(frozen=True)
class LaunchResult:
    """The result of a kernel launch, apart from the kernel's effect on memory.

    Attributes:
        findings: Findings of the memory, race and synchronisation checks.
        thread_instructions: PTX instructions executed, summed over threads. Instructions whose
            guard was false do not count; guarded branches always count.
        counters: Counters of traffic and instructions, or None if they are switched off.
        fault: The first fault that would have stopped the kernel on a real GPU, or None.
        work: Cost of the simulation in thread-instructions, as in `budget.work_of`.
        processes: Number of processes that ran blocks.
        share_of_blocks: Fraction of the grid's blocks that ran; below 1 only if a few blocks were
            chosen to run.
    """

    findings: tuple[Finding, ...]
    thread_instructions: int
    counters: KernelCounters | None = None
    fault: Fault | None = None
    work: int = 0
    processes: int = 1
    share_of_blocks: float = 1.0


class NeedsOneCore(RuntimeError):
    """The launch must run again on one core, because its result may depend on the order of blocks.

    Only a launch on one core runs the blocks in the defined order.
    """


@dataclass
class Kernel:
    """A kernel that is ready to run, with the objects that later launches use again.

    Attributes:
        prepared: The kernel's basic blocks and the code compiled for them.
        instructions_per_thread: Mean number of PTX instructions per thread in the last launch.
        needs_one_core: The reason why launches must not run on several cores; empty if they may.
        stack_bytes: Size of the stack that the kernel was translated for, or None if the kernel is
            not recursive.
        frame: Register arrays of the last launch, or None.
        traits: Properties of the kernel for race detection; None before the first launch.
        team: The `Team` (warps and blocks) of the last launch, with its cache of shuffles, or None.
    """

    prepared: Prepared
    instructions_per_thread: int = 0
    needs_one_core: str = ""
    stack_bytes: int | None = None
    frame: Frame | None = None
    traits: Traits | None = None
    team: Team | None = None


@dataclass(frozen=True)
class LaunchEnvironment:
    """The parts and settings of the simulated device that a launch uses.

    Attributes:
        memory: Global memory.
        native: The simulator's C functions.
        history: State of race detection after the previous launch.
        racecheck: True to look for races.
        counters: True to count traffic and instructions.
        schedule: Order of blocks and warps: 0 for the natural order, or the seed of a random one.
        chunk_lanes: Maximum number of threads that are simulated together.
        print_out: Receives the output of `printf`.
        print_error: Receives the messages of failed assertions.
        grid_barrier: Address of the memory in which cooperative groups count the blocks that have
            arrived at the barrier of the grid; 0 if the kernel does not use this barrier.
        budget: Limits of work and memory for the current call of the device.
    """

    memory: Memory
    native: Native
    history: RaceHistory
    racecheck: bool
    counters: bool
    schedule: int
    chunk_lanes: int
    print_out: Output
    print_error: Output
    grid_barrier: int
    budget: Budget


class Launch:
    """A kernel launch, which runs the blocks chunk by chunk.

    A chunk is a number of blocks that are simulated together.

    Attributes:
        kernel: The kernel.
        processes: Number of processes that run blocks.
        races: Race detection, or None if it is switched off.
        counts: The counters, or None if they are switched off.
    """

    def __init__(
        self,
        host: LaunchEnvironment,
        kernel: Kernel,
        geometry: Geometry,
        dynamic_shared_bytes: int,
        arguments: bytes,
        chosen: tuple[int, ...] = (),
    ) -> None:
        """Prepare the launch; `run` or `run_some` executes blocks.

        Args:
            host: The simulated device.
            kernel: The kernel.
            geometry: Grid and block.
            dynamic_shared_bytes: Bytes of a block's dynamic shared memory.
            arguments: Bytes of the kernel's arguments.
            chosen: Numbers of the blocks to run; empty for all.
        """
        program = kernel.prepared.compiler.program
        self.kernel = kernel
        self.processes = 1
        self._host = host
        self._prepared = kernel.prepared
        self._program = program
        self._geometry = geometry
        self._arguments = arguments
        self._dynamic_shared_bytes = dynamic_shared_bytes
        self._shared_bytes = program.shared_bytes
        if dynamic_shared_bytes:
            self._shared_bytes = program.dynamic_shared_offset + dynamic_shared_bytes
        self._placement = Placement(geometry, host.schedule, program.lanes_together, chosen)
        self._blocks = self._blocks_at_once()
        self._lanes = self._blocks * geometry.threads
        self._sync = SyncChecks(program.name, self._placement)
        self.races = self._race_detection()
        self.counts = self._counting()
        self._places: list[ChunkSlot] = []
        self._elsewhere = 0
        self._work_elsewhere = 0

    @property
    def chunks(self) -> int:
        """Number of chunks (blocks that are simulated together) of the launch."""
        return -(-self._placement.count // self._blocks)

    @property
    def thread_instructions(self) -> int:
        """PTX instructions executed so far, in all processes, summed over threads."""
        return sum(p.scheduler.thread_instructions for p in self._places) + self._elsewhere

    @property
    def work(self) -> int:
        """Cost of the simulation so far in thread-instructions, as in `budget.work_of`."""
        return sum(p.scheduler.work for p in self._places) + self._work_elsewhere

    def run(self, registers: Callable[[], int]) -> LaunchResult:
        """Run all blocks to their end.

        Args:
            registers: Returns the number of registers of a thread. It is called only if many blocks
                wait for each other.

        Raises:
            OverBudget: The launch exceeds the call's budget.
            KernelTrap: A thread executed `trap`.
            BarrierDeadlock, UnmetCondition: Threads wait for an event that cannot happen.
        """
        chunks = [self._chunk(number) for number in range(self.chunks)]

        @cache
        def resident() -> int:
            return blocks_at_once(self._geometry.threads, self._shared_bytes, registers())

        try:
            with np.errstate(all="ignore"):
                run_chunks(chunks, resident, self._place, self._start)
        except (BarrierDeadlock, UnmetCondition) as error:
            error.findings = self._findings()
            raise
        finally:
            self.end()
        return self.result()

    def run_some(self, numbers: Iterable[int]) -> None:
        """Run only some chunks (blocks simulated together), while other processes run the rest.

        Args:
            numbers: Numbers of the chunks to run, from 0 to `chunks` - 1.

        Raises:
            OverBudget: The launch exceeds the call's budget.
            NeedsOneCore: The kernel's effect or findings may depend on the order of blocks. The
                launch must run again on one core.
            KernelTrap, BarrierDeadlock, UnmetCondition: The errors of `run`. After these errors,
                too, the launch must run again on one core.
        """
        with np.errstate(all="ignore"):
            for number in numbers:
                at = self._places[0] if self._places else self._place()
                at.private.spaces.confined = 1
                if not self._start(at, self._chunk(number)):
                    raise NeedsOneCore("blocks wait for other blocks")
                if self._findings():
                    raise NeedsOneCore("there are findings")
                if at.private.spaces.escapes:
                    raise NeedsOneCore("not all that it accesses is watched")
                if at.scheduler.patience:
                    raise NeedsOneCore("it reads the clock or sleeps")

    def touched(self, into: npt.NDArray[np.uint8]) -> None:
        """Write into `into` how this process has accessed each cell of global memory.

        The value of a cell is 0 if it was not accessed, 1 if it was only read, and 2 if it was
        written. Do nothing if race detection is switched off.
        """
        if self.races:
            self.races.touched(into)

    def totals(self) -> RawCounts | None:
        """Return the raw counts of this process, or None if counters are switched off."""
        return self.counts.totals() if self.counts else None

    def add(
        self, thread_instructions: int, work: int, totals: RawCounts | None, counted: Sites | None
    ) -> bool:
        """Add the instructions, work and counts of another process to those of this launch.

        Args:
            thread_instructions: PTX instructions that the process executed, summed over threads.
            work: Cost of the simulation in that process.
            totals: Counts of the process, or None.
            counted: Counts of memory accesses with which the process started, or None. They are
                subtracted from `totals`.

        Returns:
            True if the counts were added, or if counters are switched off. False if the counts
            cannot be added; the launch must then run again on one core.
        """
        self._elsewhere += thread_instructions
        self._work_elsewhere += work
        counts = self.counts
        if counts is None or totals is None or counted is None:
            return counts is None
        return counts.add(totals, counted)

    def end(self) -> None:
        """Pass the clock of race detection on to the next launch, after all blocks have run."""
        if self.races:
            self.races.end()

    def result(self) -> LaunchResult:
        """Return the result of the launch; set the kernel's mean instructions per thread."""
        executed, counts = self.thread_instructions, self.counts
        threads = self._placement.count * self._geometry.threads
        self.kernel.instructions_per_thread = executed // threads
        sites = self._prepared.compiler.sites
        counters = counts.result(sites, self._dynamic_shared_bytes) if counts else None
        fault = self._places[0].faults.fault if self._places else None
        return LaunchResult(
            self._findings(),
            executed,
            counters,
            fault,
            self.work,
            self.processes,
            share_of_blocks=self._placement.count / self._geometry.blocks,
        )

    def _chunk(self, number: int) -> range:
        first = number * self._blocks
        return range(first, min(first + self._blocks, self._placement.count))

    def _findings(self) -> tuple[Finding, ...]:
        races = self.races.findings(self._prepared.compiler.sites) if self.races else ()
        faults = self._places[0].faults.findings if self._places else ()
        return (*faults, *races, *self._sync.findings)

    def _place(self) -> ChunkSlot:
        """Make the registers, memory and scheduler for one chunk (blocks simulated together).

        A launch needs more than one such set only while a chunk waits for other chunks.
        """
        first = self._places[0] if self._places else None
        frame = Frame(self._lanes) if first else self._first_frame()
        private = ChunkMemory(
            self._lanes,
            self._geometry.threads,
            self._shared_bytes,
            self._program.local_bytes,
            self._arguments,
        )
        others = first.faults if first else None
        faults = Faults(
            self._prepared.compiler, self._host.memory, self._placement, private, others
        )
        private.spaces.profile = self.counts.pointer if self.counts else None
        clocks = self.races.clocks() if self.races else None
        private.spaces.race = clocks.pointer if clocks else None
        agents = Agents(clocks) if clocks else None
        watch = Observers(self._placement, self._sync, clocks, agents, self.counts)
        scheduler = Scheduler(
            self._prepared, frame, private, faults, watch, self._team(private), self._check_budget
        )
        self._places.append(ChunkSlot(frame, private, faults, scheduler))
        return self._places[-1]

    def _start(self, at: ChunkSlot, chunk: range) -> bool:
        """Start blocks that are simulated together, and run them until they end or must wait.

        Return True if all of their threads have ended, and False if the remaining threads wait for
        other blocks.

        Args:
            at: Registers, memory and scheduler for the blocks.
            chunk: The blocks, as indices in the order of execution.
        """
        self._check_budget()
        at.private.reset()
        uniform = self._fill_specials(at.frame, chunk.start)
        self._poison_unset(at.frame)
        return at.scheduler.run(chunk.start, len(chunk), uniform)

    def _check_budget(self) -> None:
        self._host.budget.check(self.work)

    def _first_frame(self) -> Frame:
        """Return register arrays for the first chunk (blocks that are simulated together).

        The arrays of the kernel's last launch are used again if they have the same number of
        threads.
        """
        known = self.kernel.frame
        if known is None or known.lanes != self._lanes:
            known = self.kernel.frame = Frame(self._lanes)
        return known

    def _team(self, private: ChunkMemory) -> Team:
        """Return a `Team` (warps and blocks of the threads that are simulated together).

        If the kernel's last launch had the same arrangement of threads, the result shares the cache
        of shuffles with the team of that launch.
        """
        known = self.kernel.team
        if known and known.lanes == self._lanes and known.placement.is_same(self._placement):
            return known.for_launch(private, self._host.print_out, self._host.print_error)
        host = self._host
        team = Team(
            self._lanes, self._placement, host.memory, private, host.print_out, host.print_error
        )
        self.kernel.team = team
        return team

    def _race_detection(self) -> Races | None:
        host, program = self._host, self._program
        if not host.racecheck:
            return None
        if not self.kernel.traits:
            self.kernel.traits = Traits.of(program)
        return Races(
            host.native,
            host.history,
            host.memory,
            program.name,
            self.kernel.traits,
            self._placement,
            self._lanes,
            self._shared_bytes,
            self._arguments,
        )

    def _counting(self) -> Counts | None:
        if not self._host.counters:
            return None
        sites = len(self._prepared.compiler.sites)
        return Counts(self._program, self._geometry, self._lanes, sites)

    def _blocks_at_once(self) -> int:
        """Return the number of blocks that are simulated together, at least one.

        At most `chunk_lanes` threads and 64 MiB of shared and local memory are simulated together,
        unless one block alone exceeds these limits.
        """
        threads, blocks = self._geometry.threads, self._placement.count
        per_block = self._shared_bytes + self._program.local_bytes * threads
        by_memory = CHUNK_PRIVATE_BYTES // per_block if per_block else blocks
        return max(1, min(blocks, by_memory, self._host.chunk_lanes // threads))

    def _poison_unset(self, frame: Frame) -> None:
        """Fill the registers that the kernel may read before anything writes them.

        Otherwise these registers would hold values of an earlier block, or 0, which might give a
        right result by chance. They get NaN, or in another schedule than 0 large numbers.
        """
        program, slots = self._program, self._prepared.compiler.slots
        if not program.unset:
            return
        schedule = self._placement.schedule
        poison = (_LARGE if schedule % 2 else _SMALL) if schedule else _POISONED
        for register, bits in enumerate(program.register_bits):
            if program.unset >> register & 1 and bits in poison:
                slot = slots.number(register, f"b{bits}")
                frame.extend(slots)
                frame.varying[slot][...] = poison[bits]

    def _fill_specials(self, frame: Frame, first_block: int) -> int:
        """Set the special registers (such as `%tid.x`) of all threads of a chunk.

        Return the special registers that hold one value for all threads (a bit mask).

        Args:
            frame: Registers of the chunk's threads.
            first_block: Index of the chunk's first block in the order of execution.
        """
        program, slots = self._program, self._prepared.compiler.slots
        makers = special_registers(
            self._placement,
            first_block,
            frame.lanes,
            self._dynamic_shared_bytes,
            self._shared_bytes,
        )
        barrier = self._host.grid_barrier
        for name, value in (
            ("dynamic shared memory", program.dynamic_shared_offset),
            ("%envreg1", barrier >> 32),
            ("%envreg2", barrier & 2**32 - 1),
        ):
            makers[name] = lambda value=value: np.array([value], np.uint32)  # type: ignore[misc]
        uniform = 0
        for name, register in program.specials.items():
            slot = slots.number(register, f"b{program.register_bits[register]}")
            frame.extend(slots)
            values = makers[name]()
            if len(values) == 1:
                frame.uniform[slot][...] = values
                uniform |= 1 << register
            else:
                frame.varying[slot][...] = values
        return uniform
