"""The errors that end a launch, with who waits where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.meeting import Barriers, Meetings, lane_list
from harness.simulator.execution.performer import Performer
from harness.simulator.execution.spinning import Spinning
from harness.simulator.execution.watch import Watch
from harness.simulator.hardware.errors import BarrierDeadlock, KernelTrap, UnmetCondition
from harness.simulator.lowering.program import Access, Program, Trap
from harness.simulator.ptx.ptx import Location
from harness.simulator.sanitizer.synccheck import Wait

Lanes = npt.NDArray[np.bool_]


def trap(program: Program, watch: Watch, end: Trap, lane: int, first_block: int) -> KernelTrap:
    """The error for a trap that the thread `lane` of a chunk has executed."""
    block, thread = divmod(lane, watch.placement.geometry.threads)
    return KernelTrap(
        program.name,
        watch.placement.block(first_block + block),
        watch.placement.thread(thread),
        end.location,
        end.reason,
    )


@dataclass(frozen=True)
class Waiting:
    """Everybody of a chunk that waits for something."""

    program: Program
    watch: Watch
    first_block: int
    barriers: Barriers
    meetings: Meetings
    spinning: Spinning
    performer: Performer

    def error(self, alive: Lanes) -> BarrierDeadlock | UnmetCondition:
        """The error that tells who waits where, in the first block that is stuck."""
        if self.performer.parked:
            return self._unmet_condition()
        stuck, here = self._block_of(int(np.flatnonzero(alive)[0]))
        waits: list[Wait] = []
        places: list[tuple[int, str]] = []
        counts: dict[int, int] = {}

        def tell(wait: Wait, order: int, what: str) -> int:
            waits.append(wait)
            threads = np.flatnonzero(wait.lanes[here])
            if len(threads):
                noun = "thread" if len(threads) == 1 else "threads"
                who = f"{len(threads)} {noun} {what} (threads {lane_list(threads)})"
                places.append((order, who))
            return len(threads)

        for waiting in self.barriers.waiting:
            number, location = waiting.barrier.number, waiting.barrier.location
            wait = Wait.at_barrier(waiting.barrier, waiting.lanes)
            if found := tell(wait, number, f"at barrier {number}{_at(', ', location)}"):
                counts[number] = counts.get(number, 0) + found
        for meeting in self.meetings.waiting:
            meet = meeting.meet
            wait = Wait(meet.location, meeting.lanes, f"wait at {meet.name}")
            tell(wait, 1 << 20, f"at {meet.name}{_at(', ', meet.location)}")
        for position, lanes in self.spinning.parked.items():
            location = self._place_of(position)
            tell(Wait(location, lanes, "spin"), 1 << 21, f"spinning{_at(' at ', location)}")
        self.watch.sync.stuck(waits, self.first_block + stuck, here)
        block = self.watch.placement.block(self.first_block + stuck)
        who = tuple(text for _, text in sorted(places))
        return BarrierDeadlock(self.program.name, block, tuple(sorted(counts.items())), who)

    def _unmet_condition(self) -> UnmetCondition:
        error, lanes = self.performer.stuck(self.program)
        stuck, here = self._block_of(int(np.argmax(lanes)))
        waits = [Wait(error.location, lanes, f"wait at `{error.instruction}`")]
        waits += [Wait.at_barrier(w.barrier, w.lanes) for w in self.barriers.waiting]
        self.watch.sync.stuck(waits, self.first_block + stuck, here)
        return error

    def _block_of(self, lane: int) -> tuple[int, slice]:
        """The block of a lane in the chunk, and its lanes."""
        threads = self.watch.placement.geometry.threads
        block = lane // threads
        return block, slice(block * threads, (block + 1) * threads)

    def _place_of(self, position: int) -> Location | None:
        """The first known place from a block of code on."""
        for block in self.program.blocks[position : position + 4]:
            for step in block.steps:
                if isinstance(step, Access) and step.location:
                    return step.location
        return None


def _at(before: str, location: Location | None) -> str:
    return f"{before}{location.file}:{location.line}" if location else ""
