"""One launch of a kernel: its blocks in chunks, and what is told of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.simulator.agents import Agents
from harness.simulator.counters import Counts, KernelCounters
from harness.simulator.errors import BarrierDeadlock, UnmetCondition
from harness.simulator.faults import Faults
from harness.simulator.frame import (
    Frame,
    Geometry,
    Placement,
    PrivateMemory,
    special_registers,
)
from harness.simulator.memory import Memory
from harness.simulator.native import Native
from harness.simulator.prepared import Prepared
from harness.simulator.program import Access
from harness.simulator.provenance import Traits
from harness.simulator.race import RaceHistory, Races
from harness.simulator.residency import Place, blocks_at_once, run_chunks
from harness.simulator.sanitizer import Finding
from harness.simulator.scheduler import Scheduler
from harness.simulator.synccheck import SyncChecks
from harness.simulator.team import Output, Team
from harness.simulator.watch import Watch

CHUNK_PRIVATE_BYTES = 64 << 20
"""Most shared and local memory of the blocks that run together."""


@dataclass(frozen=True)
class LaunchResult:
    """What a kernel did, apart from its effect on memory.

    `thread_instructions` is how many PTX instructions were executed, summed over threads;
    instructions whose guard was false do not count, guarded branches always do.
    """

    findings: tuple[Finding, ...]
    thread_instructions: int
    counters: KernelCounters | None = None
    """Where the machine counts."""

    @property
    def is_illegal(self) -> bool:
        """Whether real hardware would have stopped the kernel with an illegal address."""
        return any(f.is_illegal_access for f in self.findings)


@dataclass
class Kernel:
    """A kernel ready to run, and what one launch leaves to the next."""

    prepared: Prepared
    frame: Frame | None = None
    traits: Traits | None = None
    team: Team | None = None


@dataclass(frozen=True)
class Host:
    """What every launch on a device needs of it.

    `racecheck`, `counters` and `schedule` are as in `Machine`; `grid_barrier` is the address at
    which cooperative groups count the blocks that are at a grid's barrier, 0 for none.
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


class Launch:
    """Runs a kernel's blocks, chunk after chunk."""

    def __init__(
        self,
        host: Host,
        kernel: Kernel,
        geometry: Geometry,
        dynamic_shared_bytes: int,
        arguments: bytes,
    ) -> None:
        program = kernel.prepared.compiler.program
        self._host = host
        self._kernel = kernel
        self._prepared = kernel.prepared
        self._program = program
        self._geometry = geometry
        self._arguments = arguments
        self._dynamic_shared_bytes = dynamic_shared_bytes
        self._shared_bytes = program.shared_bytes
        if dynamic_shared_bytes:
            self._shared_bytes = program.dynamic_shared_offset + dynamic_shared_bytes
        self._blocks = self._blocks_at_once()
        self._lanes = self._blocks * geometry.threads
        self._placement = Placement(geometry, host.schedule, program.lanes_together)
        self._sync = SyncChecks(program.name, self._placement)
        self._races = self._race_detection()
        self._counts = self._counting()
        self._places: list[Place] = []

    def run(self) -> LaunchResult:
        """Runs all blocks to their end.

        Raises:
            KernelTrap: a thread executed `trap`.
            BarrierDeadlock, UnmetCondition: threads wait for what cannot happen.
        """
        blocks = self._geometry.blocks
        chunks = [
            range(first, min(first + self._blocks, blocks))
            for first in range(0, blocks, self._blocks)
        ]
        resident = blocks_at_once(self._geometry.threads, self._shared_bytes)
        try:
            with np.errstate(all="ignore"):
                run_chunks(chunks, resident, self._place, self._start)
        except (BarrierDeadlock, UnmetCondition) as error:
            error.findings = self._findings()
            raise
        finally:
            if self._races:
                self._races.end()
        counters = None
        if self._counts:
            sites = self._prepared.compiler.sites
            counters = self._counts.result(sites, self._dynamic_shared_bytes)
        executed = sum(p.scheduler.thread_instructions for p in self._places)
        return LaunchResult(self._findings(), executed, counters)

    def _findings(self) -> tuple[Finding, ...]:
        races = self._races.findings(self._prepared.compiler.sites) if self._races else ()
        return (*self._places[0].faults.findings, *races, *self._sync.findings)

    def _place(self) -> Place:
        """Room for one chunk: only those that wait for others need more than one."""
        first = self._places[0] if self._places else None
        frame = Frame(self._lanes) if first else self._first_frame()
        private = PrivateMemory(
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
        private.spaces.profile = self._counts and self._counts.pointer
        clocks = self._races.clocks() if self._races else None
        private.spaces.race = clocks and clocks.pointer
        agents = Agents(clocks) if clocks else None
        watch = Watch(self._placement, self._sync, clocks, agents, self._counts)
        scheduler = Scheduler(self._prepared, frame, private, faults, watch, self._team(private))
        self._places.append(Place(frame, private, faults, scheduler))
        return self._places[-1]

    def _start(self, at: Place, chunk: range) -> bool:
        """Runs a chunk; returns whether all of its threads have ended."""
        at.private.reset()
        uniform = self._fill_specials(at.frame, chunk.start)
        return at.scheduler.run(chunk.start, len(chunk), uniform)

    def _first_frame(self) -> Frame:
        known = self._kernel.frame
        if known is None or known.lanes != self._lanes:
            known = self._kernel.frame = Frame(self._lanes)
        return known

    def _team(self, private: PrivateMemory) -> Team:
        known = self._kernel.team
        if known and known.lanes == self._lanes and known.geometry == self._geometry:
            return known.for_launch(private)
        host = self._host
        team = Team(
            self._lanes, self._placement, host.memory, private, host.print_out, host.print_error
        )
        self._kernel.team = team
        return team

    def _race_detection(self) -> Races | None:
        host, program, kernel = self._host, self._program, self._kernel
        if not host.racecheck:
            return None
        if not kernel.traits:
            kernel.traits = Traits.of(program)
        return Races(
            host.native,
            host.history,
            host.memory,
            program.name,
            kernel.traits,
            self._placement,
            self._lanes,
            self._shared_bytes,
            self._arguments,
        )

    def _counting(self) -> Counts | None:
        if not self._host.counters:
            return None
        compiler = self._prepared.compiler
        for block in self._program.blocks:
            for step in block.steps:
                if isinstance(step, Access):
                    compiler.site(step)
        return Counts(self._program, self._geometry, self._lanes, len(compiler.sites))

    def _blocks_at_once(self) -> int:
        threads, blocks = self._geometry.threads, self._geometry.blocks
        per_block = self._shared_bytes + self._program.local_bytes * threads
        by_memory = CHUNK_PRIVATE_BYTES // per_block if per_block else blocks
        return max(1, min(blocks, by_memory, self._host.chunk_lanes // threads))

    def _fill_specials(self, frame: Frame, first_block: int) -> int:
        """Gives the special registers their values; returns those that are uniform, as bits."""
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
