"""The threads of a chunk that wait, what they wait for, and what lets them go on.

Apart from how they came to wait (`synchronisation.py`), because the order of what follows when no
thread is ready is a rule of its own: conditions that have come true, warps and blocks that are
complete, loops that try again, waits that expire; then the chunk waits for other chunks, or lanes
go on without those that never come, or there is a deadlock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.simulator.execution.action_executor import ActionExecutor
from harness.simulator.execution.action_memory import ActionMemory
from harness.simulator.execution.block_barriers import BlockBarriers
from harness.simulator.execution.executor import Executor
from harness.simulator.execution.frame import Frame, PrivateMemory
from harness.simulator.execution.masks import MaskChecks
from harness.simulator.execution.prepared import Prepared
from harness.simulator.execution.runnable import Lanes, RunnableThreads
from harness.simulator.execution.spinning import Spinning
from harness.simulator.execution.thread_exits import ThreadExits
from harness.simulator.execution.warp_sync import WarpSynchronisation
from harness.simulator.execution.watch import Watch
from harness.simulator.hardware.team import Team
from harness.simulator.sanitizer.synccheck import Arrivals

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults


class WaitingThreads:
    """Those that wait at barriers of their block, for lanes of their warp, at actions, in loops."""

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: PrivateMemory,
        faults: Faults,
        watch: Watch,
        team: Team,
        threads: RunnableThreads,
        executor: Executor,
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
        """Grows when threads go on that have waited for others."""

    @property
    def progress(self) -> int:
        """Grows with everything that may let others go on."""
        events = self.threads.exits + self._releases + self.spinning.changes
        return events + self._private.spaces.changes

    def begin(self) -> None:
        """The next chunk of blocks."""
        self.barriers.clear()
        self.warps.clear()
        self.spinning.clear()
        self.actions.start(self.team.first_block)

    def registers(self) -> int:
        """The registers that matter to them, as bits."""
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
        """Lets threads go on that can, when no others are ready.

        Returns:
            Whether any does.
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
        """Lets threads go on that sleep or spin."""
        self.spinning.release(self.progress, self.threads.add)

    def give_up(self) -> bool:
        """Lets lanes go on that wait for lanes of their warp that never come.

        Returns:
            Whether there are any.
        """
        released = False
        for waiting in self.warps.give_up():
            self.masks.gave_up(waiting)
            self.threads.add(waiting.block, waiting.lanes)
            released = True
        return released

    def _synchronised(self) -> bool:
        """Lets warps go on that are complete, else blocks."""
        alive = self.threads.alive
        going = self.warps.release(alive) or self.barriers.release(alive, self._tell)
        for position, lanes in going:
            self.threads.add(position, lanes)
        self._releases += bool(going)
        return bool(going)

    def _tell(self, arrivals: Arrivals) -> None:
        self.watch.synchronised(arrivals, self.team.first_block, self.threads.started)

    def _go_on(self, found: dict[int, Lanes]) -> bool:
        """Lets threads go on whose wait at an action is over."""
        for position, lanes in found.items():
            self.threads.add(position, lanes)
        self._releases += bool(found)
        return bool(found)
