"""Branches, indirect jumps and traps at the end of a basic block."""

from __future__ import annotations

import numpy as np

from harness.simulator.execution.codegen import Compiled
from harness.simulator.execution.executor import ChunkExecutor
from harness.simulator.execution.frame import Frame
from harness.simulator.execution.prepared import JUMPED, STAYED
from harness.simulator.execution.runnable import Lanes, RunnableThreads, Turn
from harness.simulator.execution.watch import Observers
from harness.simulator.hardware.errors import KernelTrap, StackOverflow, UnsupportedCall
from harness.simulator.hardware.team import Team
from harness.simulator.lowering.program import Block, Branch, Dispatch, Program, Trap


class ControlFlow:
    """Executor of branches, jumps to a target in a register, and traps.

    One object serves one chunk (thread blocks that are simulated together).
    """

    def __init__(
        self,
        program: Program,
        outcomes: list[int],
        frame: Frame,
        executor: ChunkExecutor,
        threads: RunnableThreads,
        team: Team,
        watch: Observers,
    ) -> None:
        self._program = program
        self._outcomes = outcomes
        self._frame = frame
        self._executor = executor
        self._threads = threads
        self._team = team
        self._watch = watch

    def branch(
        self,
        end: Branch,
        target: int,
        compiled: Compiled,
        position: int,
        current: Lanes | None,
        count: int,
    ) -> Turn:
        """Execute a branch: each thread continues at basic block `target` or at the next one.

        The threads diverge if the branch's condition differs between them.

        Args:
            end: The branch.
            target: Number of the basic block that the branch jumps to.
            compiled: Compiled code of the basic block that ends with the branch.
            position: Number of that basic block.
            current: The threads at the branch, or None for all threads that are simulated together.
            count: Number of those threads.

        Returns:
            The threads that run next.
        """
        if compiled.condition_is_uniform:
            taken = bool(self._frame.uniform[compiled.condition][0]) != end.negated
            self._outcomes[position] |= JUMPED if taken else STAYED
            return self._threads.go(target if taken else position + 1, current, count)
        condition = self._frame.varying[compiled.condition]
        true = condition if current is None else condition & current
        trues = int(np.count_nonzero(true))
        if trues in (0, count):
            taken = (trues == count) != end.negated
            self._outcomes[position] |= JUMPED if taken else STAYED
            return self._threads.go(target if taken else position + 1, current, count)
        false = ~condition if current is None else current & ~condition
        taking, staying = (false, true) if end.negated else (true, false)
        self._outcomes[position] = JUMPED | STAYED
        self._watch.diverged(position, taking, staying)
        # `condition` is the branch's register, which other threads may overwrite before these run.
        self._threads.add(target, taking.copy() if taking is condition else taking)
        self._threads.add(position + 1, staying.copy() if staying is condition else staying)
        return self._threads.next()

    def dispatch(self, end: Dispatch, block: Block, current: Lanes | None, count: int) -> Turn:
        """Execute an indirect jump: each thread continues at the target that its register holds.

        Return the threads that run next.

        Raises:
            KernelTrap: The register of a thread holds a value that is not a target of the jump.
        """
        bits = self._program.register_bits[end.register]
        values = self._executor.values(end.register, f"b{bits}")
        left = self._threads.all_of(current)
        for value, target in zip(end.values, block.targets, strict=True):
            chosen = left & (values == value)
            if not chosen.any():
                continue
            left = left & ~chosen
            if not left.any() and int(np.count_nonzero(chosen)) == count:
                return self._threads.go(target, current, count)
            self._threads.add(target, chosen)
        if left.any():
            raise self.trap(Trap(end.location, "a jump to an address without code"), left)
        return self._threads.next()

    def trap(self, end: Trap, current: Lanes | None) -> KernelTrap | UnsupportedCall:
        """Return the error for a trap; it has the coordinates of the first thread of `current`."""
        if end.cause == "depth":
            return UnsupportedCall(end.reason)
        lane = 0 if current is None else int(np.argmax(current))
        block, thread = self._team.place(lane)
        kind = StackOverflow if end.cause == "stack" else KernelTrap
        return kind(self._program.name, block, thread, end.location, end.reason)
