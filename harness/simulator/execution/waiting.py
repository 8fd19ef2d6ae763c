"""The waiting threads of a chunk (blocks that are simulated together), and their release.

If no thread is runnable, the waiting threads are divided into five groups. The threads of the first
group that is not empty are released:

1. Threads at an action (such as an mbarrier wait) whose condition has become true.
2. Threads at a warp-level instruction if all lanes in their masks have arrived.
3. Threads at complete barriers.
4. Threads that sleep or spin, if something has changed since they were last released.
5. Threads at an action whose wait can expire.

If all groups are empty, one of these things happens:

- If some threads sleep or spin, the chunk waits for other chunks.
- Otherwise, threads at a warp-level instruction continue without the lanes that never arrive.
- If no thread is at a warp-level instruction either, the kernel is deadlocked.

`synchronisation.py` decides when threads begin to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.simulator.execution.action_executor import ActionExecutor
from harness.simulator.execution.action_memory import ActionMemory
from harness.simulator.execution.block_barriers import BlockBarriers
from harness.simulator.execution.executor import ChunkExecutor
from harness.simulator.execution.frame import ChunkMemory, Frame
from harness.simulator.execution.masks import MaskChecks
from harness.simulator.execution.prepared import Prepared
from harness.simulator.execution.runnable import Lanes, RunnableThreads
from harness.simulator.execution.spinning import Spinning
from harness.simulator.execution.thread_exits import ThreadExits
from harness.simulator.execution.warp_sync import WarpSynchronisation
from harness.simulator.execution.watch import Observers
from harness.simulator.hardware.team import Team
from harness.simulator.sanitizer.synccheck import Arrivals

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults


class WaitingThreads:
    """The waiting threads of a chunk: at barriers, for lanes of their warp, at actions, in loops.

    A chunk is a number of thread blocks that are simulated together.
    """

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: ChunkMemory,
        faults: Faults,
        watch: Observers,
        team: Team,
        threads: RunnableThreads,
        executor: ChunkExecutor,
        exits: ThreadExits,
    ) -> None:
        self.program = prepared.compiler.program
        self.threads = threads
        self.executor = executor
        self.team = team
        self.watch = watch
        self.barriers = BlockBarriers(team, exits)
        self.warps = WarpSynchronisation(team)
        self.masks = MaskChecks(team, faults)
        self.spinning = Spinning(team)
        memory = ActionMemory(prepared.compiler, private, faults, watch.agents)
        self.actions = ActionExecutor(prepared.compiler, frame, watch.placement, memory)
        self._private = private
        self._releases = 0
        """A counter that grows when threads that waited for others continue."""

    @property
    def progress(self) -> int:
        """A counter that grows with every event that may let a waiting thread continue."""
        events = self.threads.exits + self._releases + self.spinning.changes
        return events + self._private.spaces.changes

    def begin(self) -> None:
        """Remove all waiting threads, before the next blocks are simulated."""
        self.barriers.clear()
        self.warps.clear()
        self.spinning.clear()
        self.actions.start(self.team.first_block)

    def registers(self) -> int:
        """Return the registers whose values the waiting threads still need (a bit mask)."""
        blocks = self.program.blocks
        needed = 0
        for at_barrier in self.barriers.waiting:
            needed |= blocks[at_barrier.block].live
        for for_lanes in self.warps.waiting:
            needed |= blocks[for_lanes.block].live
        for position in (*self.spinning.parked, *self.actions.parked):
            needed |= blocks[position].live
        return needed

    def release(self) -> bool:
        """Release waiting threads that can continue; called when no thread is runnable.

        Returns:
            True if any thread was released.
        """
        if self._go_on(self.actions.satisfied(self.program, self.executor.uniform)):
            return True
        if self._synchronised():
            return True
        if self.spinning.parked and not self.spinning.tried_in_vain(self.progress):
            self.try_again()
            return True
        return self._go_on(self.actions.expire(self.program))

    def try_again(self) -> None:
        """Release all threads that sleep or spin, so that they test their condition again."""
        self.spinning.release(self.progress, self.threads.add)

    def give_up(self) -> bool:
        """Release threads that wait for lanes of their warp that never arrive, and report them.

        Returns:
            True if any thread was released.
        """
        released = False
        for waiting in self.warps.give_up():
            self.masks.gave_up(waiting)
            self.threads.add(waiting.block, waiting.lanes)
            released = True
        return released

    def _synchronised(self) -> bool:
        """Release threads that wait for other threads which have now arrived.

        Threads at warp-level instructions are tried first. Only if none of them can continue,
        threads at barriers of their block are released. Return True if any thread was released.
        """
        alive = self.threads.alive
        going = self.warps.release(alive) or self.barriers.release(alive, self._tell)
        for position, lanes in going:
            self.threads.add(position, lanes)
        self._releases += bool(going)
        return bool(going)

    def _tell(self, arrivals: Arrivals) -> None:
        self.watch.synchronised(arrivals, self.team.first_block, self.threads.started)

    def _go_on(self, found: dict[int, Lanes]) -> bool:
        """Make threads runnable that waited at an action (such as an mbarrier wait).

        Return True if `found` has threads.

        Args:
            found: Masks of the threads, by the number of the action's basic block.
        """
        for position, lanes in found.items():
            self.threads.add(position, lanes)
        self._releases += bool(found)
        return bool(found)
