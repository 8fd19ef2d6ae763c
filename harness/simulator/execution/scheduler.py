"""The scheduler of a chunk's threads: a loop that executes one block of code after another.

The parts of its decisions have their own modules:

- `runnable.py`: which threads can continue, and where.
- `control_flow.py`: where the ends of blocks of code lead.
- `synchronisation.py`: where threads begin to wait.
- `waiting.py`: what releases waiting threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.simulator.execution.codegen import Compiled
from harness.simulator.execution.control_flow import ControlFlow
from harness.simulator.execution.deadlock import deadlock_error
from harness.simulator.execution.executor import Executor
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
)

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults


class Scheduler:
    """The scheduler of one chunk of blocks, which runs threads at the lowest block of code first.

    Threads at a barrier continue when as many have arrived as it asks for. Threads at a `*_sync`
    instruction continue when the lanes in their masks have arrived. Spinning threads are set aside
    until no other thread can run. If all threads that are left only spin, the chunk waits for other
    chunks.
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
        """Call `check_budget`, which may raise, from time to time."""
        program = prepared.compiler.program
        self._check_budget = check_budget
        self._blocks = program.blocks
        self._watch = watch
        self._team = team
        self._threads = RunnableThreads(frame.lanes)
        self._exits = ThreadExits(program, frame.lanes)
        self._executor = Executor(prepared, frame, private, faults, team)
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
        """Instructions executed so far, summed over threads."""
        return self._executor.thread_instructions

    @property
    def work(self) -> int:
        """Cost of the simulation so far, as in `budget.work_of`."""
        return work_of(self._executor.thread_instructions, self._executor.issued)

    @property
    def progress(self) -> int:
        """A counter that grows with every event that may release other threads."""
        return self._waiting.progress

    @property
    def patience(self) -> int:
        """A counter that grows when threads sleep or read the clock.

        Such threads may stop waiting by themselves.
        """
        return self._waiting.spinning.yields + self._team.clock_reads

    def run(self, first_block: int, blocks: int, uniform: int) -> bool:
        """Run `blocks` blocks, starting at place `first_block` of the order.

        Args:
            first_block: Place of the first block.
            blocks: Number of blocks.
            uniform: Registers that hold one value for all threads, as in codegen.State.

        Returns:
            True if all threads have ended; otherwise all that are left wait for other chunks.

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
        """Run a waiting chunk again; return the same as `run`."""
        self._waiting.try_again()
        return self._run(self._threads.next())

    def give_up(self) -> bool:
        """Release lanes that wait for lanes that never come; return whether there were any."""
        return self._waiting.give_up()

    def deadlock(self) -> BarrierDeadlock | UnmetCondition:
        """Return the error that lists the waiting threads of the first deadlocked block."""
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
        """Return the registers that threads which are not running need, as bits."""
        needed = self._waiting.registers()
        for position in self._threads.at:
            needed |= self._blocks[position].live
        return needed

    def _follow(
        self, block: Block, compiled: Compiled, position: int, current: Lanes | None, count: int
    ) -> Turn:
        """Return the threads that run next, after the end of a block of code."""
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
        """Release waiting threads when none is ready; return False if the chunk has to wait.

        Raises:
            BarrierDeadlock, UnmetCondition: Nothing can release them.
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
