"""The scheduler: a loop that picks threads and executes one basic block of code after another.

It schedules the threads of one chunk (thread blocks that are simulated together). Other modules
decide:

- `runnable.py`: which threads can continue, and where.
- `control_flow.py`: where branches, jumps and traps lead.
- `synchronisation.py`: where threads begin to wait.
- `waiting.py`: what releases waiting threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.simulator.execution.codegen import Compiled
from harness.simulator.execution.control_flow import ControlFlow
from harness.simulator.execution.deadlock import deadlock_error
from harness.simulator.execution.executor import ChunkExecutor
from harness.simulator.execution.frame import ChunkMemory, Frame
from harness.simulator.execution.prepared import Prepared
from harness.simulator.execution.runnable import Lanes, RunnableThreads, Turn
from harness.simulator.execution.synchronisation import Synchronisation
from harness.simulator.execution.thread_exits import ThreadExits
from harness.simulator.execution.waiting import WaitingThreads
from harness.simulator.execution.watch import Observers
from harness.simulator.hardware.budget import work_of
from harness.simulator.hardware.errors import BarrierDeadlock, UnmetCondition
from harness.simulator.hardware.team import Team
from harness.simulator.lowering.program import (
    Barrier,
    Block,
    Branch,
    Dispatch,
    Exit,
    Jump,
    Perform,
    WarpSync,
    Yield,
    reads_strongly,
)

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults


class Scheduler:
    """The scheduler of one chunk (thread blocks that are simulated together).

    The threads at the lowest basic block run first. In another schedule than 0, half of the warps
    of a kernel that could pass values without barriers run ahead of the others. Threads at a
    barrier continue when as many threads have arrived as the barrier asks for. Threads at a
    `*_sync` instruction continue when the lanes in their masks have arrived. Spinning threads are
    set aside until no other thread can run. If all remaining threads spin, the chunk waits for
    other chunks.
    """

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: ChunkMemory,
        faults: Faults,
        watch: Observers,
        team: Team,
        check_budget: Callable[[], None],
    ) -> None:
        """Make a scheduler for one chunk at a time (blocks that are simulated together).

        Args:
            prepared: The kernel and its compiled code.
            frame: Registers of the chunk's threads.
            private: Shared and local memory of the chunk, and the kernel's arguments.
            faults: Collector of faulty accesses.
            watch: Observers that are told what the threads execute.
            team: Warps and blocks of the chunk's threads.
            check_budget: Raises if the launch exceeds its budget. It is called regularly in loops.
        """
        program = prepared.compiler.program
        self._check_budget = check_budget
        self._blocks = program.blocks
        self._watch = watch
        self._team = team
        ahead = watch.placement.ahead(frame.lanes) if reads_strongly(program) else None
        self._threads = RunnableThreads(frame.lanes, ahead)
        self._exits = ThreadExits(program, frame.lanes)
        self._executor = ChunkExecutor(prepared, frame, private, faults, team)
        self._flow = ControlFlow(
            program, prepared.outcomes, frame, self._executor, self._threads, team, watch
        )
        self._waiting = WaitingThreads(
            prepared,
            frame,
            private,
            faults,
            watch,
            team,
            self._threads,
            self._executor,
            self._exits,
        )
        self._synchronisation = Synchronisation(self._waiting, self._exits)

    @property
    def thread_instructions(self) -> int:
        """PTX instructions executed so far by this scheduler, summed over threads."""
        return self._executor.thread_instructions

    @property
    def work(self) -> int:
        """Cost of the simulation so far in thread-instructions, as in `budget.work_of`."""
        return work_of(self._executor.thread_instructions, self._executor.issued)

    @property
    def progress(self) -> int:
        """A counter that grows with every event that may let a waiting thread continue."""
        return self._waiting.progress

    @property
    def patience(self) -> int:
        """A counter that grows when threads sleep or read the clock.

        Loops that sleep or read the clock may end without an event from another thread. Chunks with
        such loops are therefore resumed more often before they count as deadlocked.
        """
        return self._waiting.spinning.yields + self._team.clock_reads

    def run(self, first_block: int, blocks: int, uniform: int) -> bool:
        """Start a chunk (blocks that are simulated together); run it until it ends or must wait.

        Args:
            first_block: Index of the chunk's first block in the order of execution.
            blocks: Number of blocks in the chunk.
            uniform: Registers that hold one value for all threads (a bit mask).

        Returns:
            True if all threads have ended; False if the remaining threads wait for other chunks.

        Raises:
            KernelTrap: A thread executed `trap`.
            BarrierDeadlock, UnmetCondition: Threads wait for an event that cannot happen.
        """
        self._team.first_block = first_block
        self._watch.begin(first_block)
        self._executor.begin(first_block, uniform)
        self._exits.begin()
        self._waiting.begin()
        return self._run(self._threads.begin(blocks * self._team.threads))

    def resume(self) -> bool:
        """Continue a chunk (blocks simulated together) that waited for blocks of other chunks.

        Return True if all threads have ended, or False if the chunk must wait again.
        """
        self._waiting.try_again()
        return self._run(self._threads.next())

    def give_up(self) -> bool:
        """Release the threads that wait at a warp-level instruction for lanes that never arrive.

        Return True if any thread was released.
        """
        return self._waiting.give_up()

    def deadlock(self) -> BarrierDeadlock | UnmetCondition:
        """Return the error for threads that wait forever; record it as a finding, too."""
        return deadlock_error(self._waiting)

    def _run(self, turn: Turn) -> bool:
        previous = -1
        spinning = self._waiting.spinning
        position, current, count = turn
        while True:
            if position is None:
                if not self._release():
                    break
                position, current, count = self._threads.next()
                continue
            # Only a backward jump can make a loop, so loops and the budget are checked only here.
            if position <= previous:
                spinning.backs += 1
                if spinning.backs >= spinning.due or position in spinning.watched:
                    self._check_budget()
                    following = self._synchronisation.spin(position, current)
                    if following:
                        previous = position
                        position, current, count = following
                        continue
            previous = position
            block = self._blocks[position]
            if isinstance(block.end, Perform):
                turn = self._synchronisation.action(block, block.end, position, current)
            else:
                compiled = self._execute(block, position, current, count)
                turn = self._follow(block, compiled, position, current, count)
            position, current, count = turn
        self._waiting.masks.took_undefined()
        if self._threads.alive.any():
            return False
        self._waiting.actions.finish()
        return True

    def _execute(self, block: Block, position: int, current: Lanes | None, count: int) -> Compiled:
        elsewhere = 0 if current is None else self._needed_elsewhere()
        compiled = self._executor.run(position, block, current, count, elsewhere)
        self._watch.executed(position, current, count)
        if self._exits.leads_out[position]:
            self._exits.ran(position, current)
        return compiled

    def _needed_elsewhere(self) -> int:
        """Return the registers whose values idle threads need (a bit mask).

        Idle threads have not ended, but do not run at the moment.
        """
        needed = self._waiting.registers()
        for position in self._threads.at:
            needed |= self._blocks[position].live
        return needed

    def _follow(
        self, block: Block, compiled: Compiled, position: int, current: Lanes | None, count: int
    ) -> Turn:
        """Execute the end of a basic block, such as a branch or a barrier.

        Return the threads that run next.

        Args:
            block: The basic block.
            compiled: Compiled code of the basic block.
            position: Number of the basic block.
            current: The threads that have run it, or None for all simulated threads.
            count: Number of those threads.
        """
        end = block.end
        if isinstance(end, Branch):
            return self._flow.branch(end, block.target, compiled, position, current, count)
        if isinstance(end, Jump):
            return self._threads.go(block.target, current, count)
        if isinstance(end, Barrier):
            return self._synchronisation.barrier(end, position + 1, current, count)
        if isinstance(end, WarpSync):
            return self._synchronisation.warp(end, position + 1, current, count)
        if isinstance(end, Exit):
            self._threads.end(current)
            return self._threads.next()
        if isinstance(end, Dispatch):
            return self._flow.dispatch(end, block, current, count)
        if isinstance(end, Yield):
            return self._synchronisation.sleep(position + 1, current)
        assert not isinstance(end, Perform)  # noqa: S101 - actions have no code to execute
        raise self._flow.trap(end, current)

    def _release(self) -> bool:
        """Release waiting threads when none of the threads simulated together is runnable.

        Return False if all threads have ended, or if they must wait for other blocks.

        Raises:
            BarrierDeadlock, UnmetCondition: Nothing can release the waiting threads.
        """
        if not self._threads.alive.any():
            return False
        waiting = self._waiting
        if waiting.release():
            return True
        # Spinning threads may wait for another chunk, so this chunk must wait before lanes give up.
        if waiting.spinning.parked:
            return False
        if waiting.give_up():
            return True
        raise self.deadlock()
