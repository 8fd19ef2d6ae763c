"""Handling of threads that arrive at an instruction where they may have to wait.

Threads may wait at block barriers, at warp-level instructions, at actions (such as `mma.sync`), at
`nanosleep`, and in loops that only another thread can end. `WaitingThreads` records the threads
that wait.
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
    """Decides whether threads that arrive at a barrier, action or similar point wait or continue.

    One object serves one chunk (thread blocks that are simulated together). The methods receive the
    arriving threads `current` (None for all threads of the chunk), and return the threads that run
    next.
    """

    def __init__(self, waiting: WaitingThreads, exits: ThreadExits) -> None:
        self._waiting = waiting
        self._exits = exits
        self._blocks = waiting.program.blocks
        self._threads: RunnableThreads = waiting.threads
        self._executor = waiting.executor
        self._team = waiting.team
        self._watch = waiting.watch

    def barrier(self, barrier: Barrier, after: int, current: Lanes | None, count: int) -> Turn:
        """Handle threads that arrive at a barrier of their thread block (`bar.sync`, `bar.arrive`).

        Args:
            barrier: The barrier instruction.
            after: Number of the basic block where the threads continue after the barrier.
            current: The arriving threads, or None for all threads that are simulated together.
            count: Number of those threads.

        Returns:
            The threads that run next.
        """
        lanes = self._threads.all_of(current)
        for known, part in self._numbered(barrier, lanes):
            self._watch.arrived(known, part, self._team.first_block)
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
        """Return True if the barrier waits for all threads of a block, neither more nor fewer."""
        return not barrier.is_arrival and barrier.threads in (None, self._team.threads)

    def _numbered(self, barrier: Barrier, lanes: Lanes) -> list[tuple[Barrier, Lanes]]:
        """Return the barriers at which threads arrive, with constant numbers and thread counts.

        A barrier instruction may take its number and count from registers. Threads whose registers
        differ are then at different barriers. Each result is a barrier and a mask of its threads.
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
        """Handle threads that arrive at a warp-level instruction such as `__shfl_sync`.

        Args:
            sync: The instruction.
            after: Number of the basic block where the threads continue when all lanes that their
                masks name have arrived.
            current: The arriving threads, or None for all threads that are simulated together.
            count: Number of those threads.

        Returns:
            The threads that run next.
        """
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
        """End the runnable threads whose next instruction is the exit.

        Otherwise other lanes of their warps would wait for them.
        """
        for position in list(self._threads.at):
            block = self._blocks[position]
            if isinstance(block.end, Exit) and not block.steps:
                lanes = self._threads.at.pop(position)
                count = int(np.count_nonzero(lanes))
                self._executor.thread_instructions += block.instructions * count
                self._watch.executed(position, lanes, count)
                self._threads.end(lanes)

    def action(self, block: Block, end: Perform, position: int, current: Lanes | None) -> Turn:
        """Handle threads that arrive at an action such as `mma.sync`.

        Threads that can execute the action do so and continue; the other threads wait.

        Args:
            block: The basic block that consists of the action.
            end: The action.
            position: Number of the basic block.
            current: The arriving threads, or None for all threads that are simulated together.

        Returns:
            The threads that run next.
        """
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
        """Park threads that execute `nanosleep`, so that all other threads run first.

        The threads continue later at basic block `after`. Return the threads that run next.
        """
        self._waiting.spinning.sleep(after, self._threads.all_of(current))
        return self._threads.next()

    def spin(self, position: int, current: Lanes | None) -> Turn | None:
        """Park the threads that have jumped back to basic block `position` and spin there.

        After many backward jumps, all threads that have jumped back are parked.

        Returns:
            The threads that run next, or None if no thread was parked.
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
