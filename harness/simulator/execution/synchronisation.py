"""Handling of threads that arrive at a place where they may have to wait for other threads.

Such places are barriers of the block, instructions that need lanes of the warp, actions,
`nanosleep`, and loops that only another thread can end. `WaitingThreads` records the threads that
wait.
"""

from __future__ import annotations

import numpy as np

from harness.simulator.execution.block_barriers import by_operands
from harness.simulator.execution.runnable import Lanes, RunnableThreads, Turn
from harness.simulator.execution.thread_exits import ThreadExits
from harness.simulator.execution.waiting import WaitingThreads
from harness.simulator.hardware.team import FULL
from harness.simulator.lowering.program import Barrier, Block, Exit, Perform, WarpSync


class Synchronisation:
    """The decision whether arriving threads of one chunk wait or continue at once."""

    def __init__(self, waiting: WaitingThreads, exits: ThreadExits) -> None:
        self._waiting = waiting
        self._exits = exits
        self._blocks = waiting.program.blocks
        self._threads: RunnableThreads = waiting.threads
        self._executor = waiting.executor
        self._team = waiting.team
        self._watch = waiting.watch

    def barrier(self, barrier: Barrier, after: int, current: Lanes | None, count: int) -> Turn:
        """Handle threads at a barrier of their block; they continue at block of code `after`."""
        lanes = self._threads.all_of(current)
        for known, part in self._numbered(barrier, lanes):
            # All threads of the chunk have arrived together, so nothing has to be recorded. This is
            # the common case.
            if known is barrier and current is None and self._is_complete(barrier):
                self._watch.passed(None, whole=True)
                return after, current, count
            self._waiting.barriers.add(known, after, part)
        if barrier.is_arrival:
            return self._threads.go(after, current, count)
        return self._threads.next()

    def _is_complete(self, barrier: Barrier) -> bool:
        """Return whether the barrier waits for exactly the threads of a block."""
        return not barrier.is_arrival and barrier.threads in (None, self._team.threads)

    def _numbered(self, barrier: Barrier, lanes: Lanes) -> list[tuple[Barrier, Lanes]]:
        """Return the barrier with its number and count taken from registers where necessary.

        Threads whose registers differ are at different barriers.
        """
        if barrier.number_register < 0 and barrier.threads_register < 0:
            return [(barrier, lanes)]
        numbers = counts = None
        if barrier.number_register >= 0:
            numbers = self._executor.values(barrier.number_register, "u32")
        if barrier.threads_register >= 0:
            counts = self._executor.values(barrier.threads_register, "u32")
        return by_operands(barrier, lanes, numbers, counts)

    def warp(self, sync: WarpSync, after: int, current: Lanes | None, count: int) -> Turn:
        """Handle threads at an instruction that needs the lanes in their masks."""
        masks = self._executor.values(sync.mask, "u32")
        # Whole warps that name all their lanes are complete: the common case needs no checks.
        if len(masks) == 1 and int(masks[0]) == FULL and self._team.are_whole_warps(current):
            return self._threads.go(after, current, count)
        self._end_who_returned()
        lanes = self._threads.all_of(current)
        masks = np.broadcast_to(masks, lanes.shape)
        self._waiting.masks.arrived(sync, lanes, masks)
        warps = self._waiting.warps
        if warps.are_all_here(lanes, masks, self._threads.alive):
            return self._threads.go(after, current, count)
        warps.add(sync, after, lanes, masks)
        for position, gone in warps.release(self._threads.alive):
            self._threads.add(position, gone)
        return self._threads.next()

    def _end_who_returned(self) -> None:
        """End the threads that only have to exit, so that no thread waits for them."""
        for position in list(self._threads.at):
            block = self._blocks[position]
            if isinstance(block.end, Exit) and not block.steps:
                lanes = self._threads.at.pop(position)
                count = int(np.count_nonzero(lanes))
                self._executor.thread_instructions += block.instructions * count
                self._watch.executed(position, lanes, count)
                self._threads.end(lanes)

    def action(self, block: Block, end: Perform, position: int, current: Lanes | None) -> Turn:
        """Handle threads at an action: those that can execute it do so and continue."""
        lanes = self._threads.all_of(current)
        executor = self._executor
        actions = self._waiting.actions
        going, executor.uniform = actions.arrive(position, end, lanes, executor.uniform)
        count = int(np.count_nonzero(going))
        if not count:
            return self._threads.next()
        executor.thread_instructions += block.instructions * count
        all_going = None if count == self._threads.lanes else going
        self._watch.executed(position, all_going, count)
        if self._exits.leads_out[position]:
            self._exits.ran(position, all_going)
        if not end.is_test:
            self._waiting.spinning.changes += 1
        return self._threads.go(position + 1, all_going, count)

    def sleep(self, after: int, current: Lanes | None) -> Turn:
        """Park threads so that all others run first."""
        self._waiting.spinning.sleep(after, self._threads.all_of(current))
        return self._threads.next()

    def spin(self, position: int, current: Lanes | None) -> Turn | None:
        """Set aside the threads that have returned to `position` in an unchanged state.

        Returns:
            The threads that run next, or None if no thread was set aside.
        """
        lanes = self._threads.all_of(current)
        values = [
            self._executor.values(register, "pred" if bits == 1 else f"b{bits}")
            for register, bits in enumerate(self._waiting.program.register_bits)
            if self._blocks[position].live >> register & 1
        ]
        has_others = bool(self._threads.at)
        parked = self._waiting.spinning.look(
            position, lanes, values, self._waiting.progress, has_others=has_others
        )
        if parked is None:
            return None
        if (rest := lanes & ~parked).any():
            self._threads.add(position, rest)
        return self._threads.next()
