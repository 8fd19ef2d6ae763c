"""Runs the threads of a chunk of blocks: who goes next, who waits, who is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.codegen import Compiled
from harness.simulator.execution.crew import Workplace
from harness.simulator.execution.departures import Departures
from harness.simulator.execution.executor import Executor
from harness.simulator.execution.frame import Frame, PrivateMemory
from harness.simulator.execution.masks import MaskChecks
from harness.simulator.execution.meeting import Barriers, Meetings, apart
from harness.simulator.execution.performer import Performer
from harness.simulator.execution.prepared import Prepared
from harness.simulator.execution.spinning import Spinning
from harness.simulator.execution.stuck import Waiting, trap
from harness.simulator.execution.watch import Watch
from harness.simulator.hardware.budget import work_of
from harness.simulator.hardware.errors import BarrierDeadlock, KernelTrap, UnmetCondition
from harness.simulator.hardware.team import FULL, Team
from harness.simulator.lowering.program import (
    Barrier,
    Block,
    Branch,
    Dispatch,
    Exit,
    Jump,
    Meet,
    Perform,
    Trap,
    Yield,
)
from harness.simulator.sanitizer.synccheck import Arrivals

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults

Lanes = npt.NDArray[np.bool_]


class Scheduler:
    """Threads of one chunk of blocks, with the lowest block of code first.

    So threads that have parted meet again where their paths join, because compilers lay the code
    out in that order. Threads at a barrier go on when as many have come as it waits for, threads at
    a `*_sync` instruction when the lanes in their masks have. Threads that spin are set aside until
    no others can run; when they only spin on, the chunk is stuck, and waits for other chunks.
    """

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: PrivateMemory,
        faults: Faults,
        watch: Watch,
        team: Team,
        check_budget: Callable[[], None],
    ) -> None:
        """`check_budget` is called now and then, and may raise."""
        self._check_budget = check_budget
        self._program = prepared.compiler.program
        self._blocks = self._program.blocks
        self._frame = frame
        self._private = private
        self._geometry = watch.placement.geometry
        self._watch = watch
        self._live = 0
        self._team = team
        self._ready: dict[int, Lanes] = {}
        self._departures = Departures(self._program, frame.lanes)
        self._barriers = Barriers(team, self._departures)
        self._meetings = Meetings(team)
        self._masks = MaskChecks(team, faults)
        self._spinning = Spinning(team)
        self._alive: Lanes = np.ones(frame.lanes, np.bool_)
        self._first_block = 0
        self._events = 0
        self._executor = Executor(prepared, frame, private, faults, team)
        workplace = Workplace(prepared.compiler, private, faults, watch.agents)
        self._performer = Performer(prepared.compiler, frame, watch.placement, workplace)

    @property
    def thread_instructions(self) -> int:
        """Instructions executed so far, summed over threads."""
        return self._executor.thread_instructions

    @property
    def work(self) -> int:
        """What was executed so far, as `budget.work_of` has it."""
        return work_of(self._executor.thread_instructions, self._executor.issued)

    @property
    def progress(self) -> int:
        """Grows with everything that may let others go on."""
        return self._events + self._spinning.changes + int(self._private.spaces.changes)

    @property
    def patience(self) -> int:
        """Grows when threads sleep or look at the clock: they may give up waiting by themselves."""
        return self._spinning.yields + self._team.clock_reads

    def run(self, first_block: int, blocks: int, uniform: int) -> bool:
        """Runs `blocks` blocks from place `first_block` of the order on.

        `uniform` is as in codegen.State.

        Returns:
            Whether all threads have ended; if not, all that are left wait for other chunks.

        Raises:
            KernelTrap: a thread executed `trap`.
            BarrierDeadlock, UnmetCondition: threads wait for what cannot happen.
        """
        lanes = self._frame.lanes
        live = blocks * self._geometry.threads
        self._first_block = self._team.first_block = first_block
        self._live = live
        self._watch.begin(first_block)
        self._executor.begin(first_block, uniform)
        self._ready = {}
        self._departures.begin()
        self._barriers.clear()
        self._meetings = Meetings(self._team)
        self._spinning.clear()
        self._performer.start(first_block)
        self._alive = np.arange(lanes) < live
        return self._run(0, None if live == lanes else self._alive.copy(), live)

    def resume(self) -> bool:
        """Lets a stuck chunk try again; returns as `run` does."""
        self._spinning.release(self.progress, self._add)
        return self._run(*self._next())

    def _run(self, position: int | None, current: Lanes | None, count: int) -> bool:
        previous = -1
        spinning = self._spinning
        leads_out = self._departures.leads_out
        while position is not None:
            if position <= previous:
                spinning.backs += 1
                if spinning.backs >= spinning.due or position in spinning.watched:
                    following = self._look_for_spinning(position, current)
                    if following:
                        previous = position
                        position, current, count = following
                        continue
            previous = position
            block = self._blocks[position]
            if isinstance(block.end, Perform):
                position, current, count = self._perform(block, block.end, position, current)
                continue
            elsewhere = 0 if current is None else self._needed_elsewhere()
            compiled = self._executor.run(position, block, current, count, elsewhere)
            self._watch.executed(position, current, count)
            if block.stores:
                spinning.changes += 1
            if leads_out[position]:
                self._departures.ran(position, current)
            end = block.end
            if isinstance(end, Branch):
                position, current, count = self._branch(block, compiled, position, current, count)
            elif isinstance(end, Jump):
                position, current, count = self._go(block.target, current, count)
            elif isinstance(end, Barrier):
                position, current, count = self._wait(end, position + 1, current, count)
            elif isinstance(end, Meet):
                position, current, count = self._meet(end, position + 1, current, count)
            elif isinstance(end, Exit):
                position, current, count = self._exit(current)
            elif isinstance(end, Dispatch):
                position, current, count = self._dispatch(end, block, current, count)
            elif isinstance(end, Yield):
                self._spinning.sleep(position + 1, self._all(current))
                position, current, count = self._next()
            else:
                raise self._trap(end, current)
        if self._alive.any():
            return False
        self._performer.finish()
        return True

    def _perform(
        self, block: Block, end: Perform, position: int, current: Lanes | None
    ) -> tuple[int | None, Lanes | None, int]:
        lanes = self._all(current)
        executor = self._executor
        going, executor.uniform = self._performer.arrive(position, end, lanes, executor.uniform)
        count = int(np.count_nonzero(going))
        if not count:
            return self._next()
        executor.thread_instructions += block.instructions * count
        all_going = None if count == self._frame.lanes else going
        self._watch.executed(position, all_going, count)
        if self._departures.leads_out[position]:
            self._departures.ran(position, all_going)
        if not end.is_test:
            self._spinning.changes += 1
        return self._go(position + 1, all_going, count)

    def _needed_elsewhere(self) -> int:
        """The registers that matter to threads that are not running, as bits."""
        needed = 0
        for other in self._ready:
            needed |= self._blocks[other].live
        for waiting in self._barriers.waiting:
            needed |= self._blocks[waiting.block].live
        for meeting in self._meetings.waiting:
            needed |= self._blocks[meeting.block].live
        for other in (*self._spinning.parked, *self._performer.parked):
            needed |= self._blocks[other].live
        return needed

    def _branch(
        self, block: Block, compiled: Compiled, position: int, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        negated = block.end.negated  # type: ignore[union-attr]
        if compiled.condition_is_uniform:
            taken = bool(self._frame.uniform[compiled.condition][0]) != negated
            return self._go(block.target if taken else position + 1, current, count)
        condition = self._frame.varying[compiled.condition]
        true = condition if current is None else condition & current
        trues = int(np.count_nonzero(true))
        if trues in (0, count):
            taken = (trues == count) != negated
            return self._go(block.target if taken else position + 1, current, count)
        false = ~condition if current is None else current & ~condition
        taking, staying = (false, true) if negated else (true, false)
        self._watch.parted(position, taking, staying)
        self._add(block.target, taking.copy() if taking is condition else taking)
        self._add(position + 1, staying.copy() if staying is condition else staying)
        return self._next()

    def _add(self, position: int, lanes: Lanes) -> None:
        present = self._ready.get(position)
        if present is None:
            self._ready[position] = lanes
        else:
            self._ready[position] = present | lanes

    def _go(
        self, target: int, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        """The threads go on at `target`, unless others are to go first."""
        if not self._ready or current is None:
            return target, current, count
        self._add(target, current)
        return self._next()

    def _next(self) -> tuple[int | None, Lanes | None, int]:
        """The threads that run next: block of code, lanes (None for all), how many.

        No block when all have ended, or are stuck.
        """
        if not self._ready and (not self._alive.any() or not self._release()):
            return None, None, 0
        position = min(self._ready)
        lanes = self._ready.pop(position)
        count = int(np.count_nonzero(lanes))
        return position, None if count == self._frame.lanes else lanes, count

    def _all(self, current: Lanes | None) -> Lanes:
        return np.ones(self._frame.lanes, np.bool_) if current is None else current

    def _exit(self, current: Lanes | None) -> tuple[int | None, Lanes | None, int]:
        self._events += 1
        if current is None:
            self._alive = np.zeros(self._frame.lanes, np.bool_)
            return None, None, 0
        self._alive = self._alive & ~current
        return self._next()

    def _dispatch(
        self, end: Dispatch, block: Block, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        bits = self._program.register_bits[end.register]
        values = self._executor.values(end.register, f"b{bits}")
        left = self._all(current)
        for value, target in zip(end.values, block.targets, strict=True):
            chosen = left & (values == value)
            if not chosen.any():
                continue
            left = left & ~chosen
            if not left.any() and int(np.count_nonzero(chosen)) == count:
                return self._go(target, current, count)
            self._add(target, chosen)
        if left.any():
            raise self._trap(Trap(end.location, "a jump to where no code is"), left)
        return self._next()

    # Waiting for others

    def _wait(
        self, barrier: Barrier, after: int, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        lanes = self._all(current)
        for known, part in self._numbered(barrier, lanes):
            if (
                known is barrier
                and current is None
                and not barrier.is_arrival
                and barrier.threads in (None, self._geometry.threads)
            ):
                self._watch.passed(None, whole=True)
                return after, current, count
            self._barriers.add(known, after, part)
        if barrier.is_arrival:
            return self._go(after, current, count)
        return self._next()

    def _numbered(self, barrier: Barrier, lanes: Lanes) -> list[tuple[Barrier, Lanes]]:
        """The barrier with its number and its count taken from registers, where they are there."""
        if barrier.number_register < 0 and barrier.threads_register < 0:
            return [(barrier, lanes)]
        numbers = counts = None
        if barrier.number_register >= 0:
            numbers = self._executor.values(barrier.number_register, "u32")
        if barrier.threads_register >= 0:
            counts = self._executor.values(barrier.threads_register, "u32")
        return apart(barrier, lanes, numbers, counts)

    def _meet(
        self, meet: Meet, after: int, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        masks = self._executor.values(meet.mask, "u32")
        if len(masks) == 1 and int(masks[0]) == FULL and self._team.are_whole_warps(current):
            return self._go(after, current, count)
        self._end_who_returned()
        lanes = self._all(current)
        masks = np.broadcast_to(masks, lanes.shape)
        self._masks.arrived(meet, lanes, masks)
        if self._meetings.are_all_here(lanes, masks, self._alive):
            return self._go(after, current, count)
        self._meetings.add(meet, after, lanes, masks)
        for block, gone in self._meetings.release(self._alive):
            self._add(block, gone)
        return self._next()

    def _end_who_returned(self) -> None:
        """Ends the threads that have nothing left to do, so that nobody waits for them."""
        for position in list(self._ready):
            block = self._blocks[position]
            if isinstance(block.end, Exit) and not block.steps:
                lanes = self._ready.pop(position)
                count = int(np.count_nonzero(lanes))
                self._executor.thread_instructions += block.instructions * count
                self._watch.executed(position, lanes, count)
                self._alive = self._alive & ~lanes
                self._events += 1

    def _release(self) -> bool:
        """Lets waiting threads go on that can; for when none is ready. Returns whether any does."""
        program = self._program
        if self._perform_waits(self._performer.satisfied(program, self._executor.uniform)):
            return True
        going = self._meetings.release(self._alive) or self._barriers.release(
            self._alive, self._tell_who_met
        )
        if going:
            self._events += 1
            for block, lanes in going:
                self._add(block, lanes)
            return True
        if self._spinning.parked and not self._spinning.tried_in_vain(self.progress):
            self._spinning.release(self.progress, self._add)
            return True
        if self._perform_waits(self._performer.expire(program)):
            return True
        if self._spinning.parked:
            return False
        if self._go_on_without():
            return True
        raise self.deadlock()

    def _perform_waits(self, found: dict[int, Lanes]) -> bool:
        """Lets threads go on whose wait at an action is over."""
        for position, lanes in found.items():
            self._add(position, lanes)
        self._events += bool(found)
        return bool(found)

    def _tell_who_met(self, arrivals: Arrivals) -> None:
        self._watch.met(arrivals, self._first_block, self._live)

    def _go_on_without(self) -> bool:
        """Lets lanes go on that wait for lanes of their warp that never come."""
        released = False
        for waiting in self._meetings.give_up():
            self._masks.gave_up(waiting)
            self._add(waiting.block, waiting.lanes)
            released = True
        return released

    def give_up(self) -> bool:
        """As `resume`, but without waiting for lanes that never come; False if there are none."""
        return self._go_on_without()

    def _look_for_spinning(
        self, position: int, current: Lanes | None
    ) -> tuple[int | None, Lanes | None, int] | None:
        """Sets aside the threads that have come back to `position` as they were there before.

        Returns who runs next, or None if nobody was set aside.
        """
        self._check_budget()
        lanes = self._all(current)
        values = [
            self._executor.values(register, "pred" if bits == 1 else f"b{bits}")
            for register, bits in enumerate(self._program.register_bits)
            if self._blocks[position].live >> register & 1
        ]
        parked = self._spinning.look(
            position, lanes, values, self.progress, has_others=bool(self._ready)
        )
        if parked is None:
            return None
        if (rest := lanes & ~parked).any():
            self._add(position, rest)
        return self._next()

    # What stops the kernel

    def deadlock(self) -> BarrierDeadlock | UnmetCondition:
        """The error that tells who waits where, in the first block that is stuck."""
        waiting = Waiting(
            self._program,
            self._watch,
            self._first_block,
            self._barriers,
            self._meetings,
            self._spinning,
            self._performer,
        )
        return waiting.error(self._alive)

    def _trap(self, end: Trap, current: Lanes | None) -> KernelTrap:
        lane = 0 if current is None else int(np.argmax(current))
        return trap(self._program, self._watch, end, lane, self._first_block)
