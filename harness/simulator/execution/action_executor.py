"""Execution of actions; threads wait until their warp or warpgroup is complete.

An action is an instruction that needs more than its own thread's registers, such as `mma.sync`,
`wgmma`, `cp.async` or a wait at an mbarrier.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.simulator.actions.action import Action
from harness.simulator.actions.transfers import Array, Lanes
from harness.simulator.execution.action_memory import ActionMemory
from harness.simulator.execution.active_threads import ThreadsAtAction
from harness.simulator.execution.codegen import BlockCompiler, constant_array
from harness.simulator.execution.frame import Frame
from harness.simulator.hardware.errors import UnmetCondition
from harness.simulator.hardware.geometry import Placement
from harness.simulator.lowering.program import Constant, Perform, Program

Mask = npt.NDArray[np.bool_]

_MOST_EXPIRED = 200
"""Rounds in which waits only expire, after which the kernel counts as deadlocked."""


class ActionExecutor:
    """Executor of actions (such as `mma.sync`) for one chunk (blocks that are simulated together).

    Attributes:
        parked: Masks of the threads that wait at an action, by the number of the action's basic
            block. They wait for the rest of their warp or warpgroup, or for the action's condition.
    """

    def __init__(
        self,
        compiler: BlockCompiler,
        frame: Frame,
        placement: Placement,
        memory: ActionMemory,
    ) -> None:
        self._compiler = compiler
        self._frame = frame
        self._placement = placement
        self._geometry = placement.geometry
        self._memory = memory
        self.parked: dict[int, Mask] = {}
        self._expired: dict[int, Mask] = {}
        self._refused: dict[int, Mask] = {}
        self._expirations = 0

    def start(self, first_block: int) -> None:
        """Remove all waiting threads, and start the next chunk (blocks simulated together).

        Args:
            first_block: Index of the chunk's first block in the order of execution.
        """
        self.parked, self._expired, self._expirations = {}, {}, 0
        self._refused = {}
        self._memory.first_block = first_block

    def finish(self) -> None:
        """Complete all unfinished asynchronous copies; called when all threads have ended."""
        self._memory.finish()

    def arrive(self, position: int, end: Perform, lanes: Mask, uniform: int) -> tuple[Mask, int]:
        """Execute an action (such as `mma.sync`) for some threads; park those that must wait.

        Args:
            position: Number of the action's basic block.
            end: The action.
            lanes: Mask of the threads that have arrived at the action.
            uniform: Registers that hold one value for all threads (a bit mask).

        Returns:
            A mask of the threads that executed the action, and `uniform` without the registers
            that the action wrote.
        """
        parked = self.parked.pop(position, None)
        if parked is not None:
            lanes = lanes | parked
        going, _ = self._can_go(position, end, lanes, uniform)
        if not going.all():
            going = going | self._refuse(position, end, lanes & ~going)
            staying = lanes & ~going
            if staying.any():
                self.parked[position] = staying
        chosen = np.flatnonzero(going)
        if len(chosen):
            uniform = self._perform(end, chosen, uniform)
        return going, uniform

    def _refuse(self, position: int, end: Perform, lanes: Mask) -> Mask:
        """Return the threads whose test of an mbarrier fails at once instead of making them wait.

        In another schedule than 0, the first test of each thread does so, since `try_wait` may
        return false on a GPU after any time. A kernel that does not test again goes on too early.

        Args:
            position: Number of the test's basic block.
            end: The test.
            lanes: Mask of the threads that would wait.
        """
        if not self._placement.schedule or not end.is_test:
            return np.zeros_like(lanes)
        before = self._refused.get(position, np.zeros_like(lanes))
        refused = self._whole(end.action, lanes & ~before)
        self._refused[position] = before | refused
        return refused

    def satisfied(self, program: Program, uniform: int) -> dict[int, Mask]:
        """Remove and return the parked threads whose action's condition has become true.

        If the condition is true for one thread at an action (such as an mbarrier wait), all threads
        at that action are returned. The caller must let them arrive at the action again. The result
        maps the number of the action's basic block to a mask of the threads.
        """
        found = {}
        for position, lanes in list(self.parked.items()):
            end = program.blocks[position].end
            if isinstance(end, Perform) and end.action.ready:
                going, _ = self._can_go(position, end, lanes, uniform)
                if going.any():
                    found[position] = self.parked.pop(position)
        return found

    def expire(self, program: Program) -> dict[int, Mask]:
        """Stop waits whose condition is still false; remove and return the threads that waited.

        The action (the instruction that waits) then runs for these threads, and can report the
        failure, as `mbarrier.try_wait` does. The result maps the number of the action's basic block
        to a mask of the threads.

        After 200 calls in a row, the result is empty, because a loop around such a wait might never
        end. The count of calls starts again when an action can run without an expired wait.
        """
        found = {}
        # On a GPU, `mbarrier.try_wait` returns false after a time limit, and the program usually
        # tries again in a loop. No clock runs here, so waits expire when nothing else in the chunk
        # can happen. A loop around such a wait would expire forever. The number of rounds is
        # therefore limited, and the kernel then counts as deadlocked.
        self._expirations += 1
        if self._expirations <= _MOST_EXPIRED:
            for position in list(self.parked):
                end = program.blocks[position].end
                if isinstance(end, Perform) and end.action.ready:
                    lanes = self._whole(end.action, self.parked[position])
                    if lanes.any():
                        self._expired[position] = lanes
                        found[position] = self.parked.pop(position)
        return found

    def unmet_condition(self, program: Program) -> tuple[UnmetCondition, Mask]:
        """Return the error for threads that wait forever at an action (such as an mbarrier wait).

        The second result is a mask of these threads. If threads wait at several actions, both
        results describe only the action that comes first in the program.
        """
        position, lanes = min(self.parked.items())
        end = program.blocks[position].end
        assert isinstance(end, Perform)  # noqa: S101
        lane = int(np.argmax(lanes))
        block, thread = divmod(lane, self._geometry.threads)
        mine = lanes.reshape(-1, self._geometry.threads)[block]
        error = UnmetCondition(
            program.name,
            end.instruction.text,
            self._placement.block(self._memory.first_block + block),
            self._placement.thread(thread),
            int(np.count_nonzero(mine)),
            end.action.group,
            end.location,
        )
        return error, lanes

    def _whole(self, action: Action, lanes: Mask) -> Mask:
        """Return the threads whose warp or warpgroup is complete, as a mask.

        A warp or warpgroup consists of `action.group` consecutive threads of one block. It is
        complete if all of its threads are in `lanes`. If the size of a block is not a multiple of
        `action.group`, the last threads of the block do not form a warp or warpgroup. They are
        never returned.
        """
        size = action.group
        if size == 1:
            return lanes
        threads = self._geometry.threads
        whole = threads // size * size
        groups = lanes.reshape(-1, threads)[:, :whole].reshape(-1, whole // size or 0, size)
        result = np.zeros_like(lanes)
        if whole:
            complete = np.repeat(groups.all(2), size, axis=1)
            result.reshape(-1, threads)[:, :whole] = complete
        return result

    def _can_go(
        self, position: int, end: Perform, lanes: Mask, uniform: int
    ) -> tuple[Mask, list[Array]]:
        """Return the threads that can execute the action now, and the values of its inputs.

        A thread can execute the action if its warp or warpgroup is complete. If the action has a
        condition, the condition must also be true, or the thread's wait must have expired. The list
        of input values is empty if the condition was not evaluated.
        """
        going = self._whole(end.action, lanes)
        ready = end.action.ready
        chosen = np.flatnonzero(going)
        if ready is None or not len(chosen):
            if len(chosen):
                self._expirations = 0
            return going, []
        threads = self._active(end, chosen)
        inputs = self._inputs(end, chosen, uniform)
        true = ready(threads, *inputs)
        if true.any():
            self._expirations = 0
        expired = self._expired.pop(position, None)
        if expired is not None:
            true = true | expired[chosen]
        going = np.zeros_like(lanes)
        going[chosen[true]] = True
        return going, inputs

    def _perform(self, end: Perform, lanes: Lanes, uniform: int) -> int:
        inputs = self._inputs(end, lanes, uniform)
        results = end.action.run(self._active(end, lanes), *inputs)
        slots = self._compiler.slots
        for register, kind, values in zip(
            end.outputs, end.action.output_kinds, results or (), strict=True
        ):
            if register < 0:
                continue
            slot = slots.number(register, kind)
            self._frame.extend(slots)
            if uniform >> register & 1:
                # A uniform register has one value for all threads. The action writes only some
                # threads, so each thread needs its own copy first.
                plain = slots.number(register, _plain(slots.bits[register]))
                self._frame.extend(slots)
                self._frame.varying[plain][...] = self._frame.uniform[plain]
                uniform &= ~(1 << register)
            self._frame.varying[slot][lanes] = values
        return uniform

    def _active(self, end: Perform, lanes: Lanes) -> ThreadsAtAction:
        return ThreadsAtAction(self._memory, end, lanes, self._geometry.threads)

    def _inputs(self, end: Perform, lanes: Lanes, uniform: int) -> list[Array]:
        values: list[Array] = []
        slots = self._compiler.slots
        for source, offset, declared in zip(
            end.inputs, end.offsets, end.action.inputs, strict=True
        ):
            if isinstance(source, Constant):
                constant = constant_array(source.value, declared.kind or "u32")
                value = np.repeat(constant, len(lanes), axis=0)
            else:
                kind = declared.kind or _plain(slots.bits[source])
                # An address may be in a 32-bit register (shared memory).
                if kind == "u64" and slots.bits[source] == 32:
                    kind = "b32"
                slot = slots.number(source, kind)
                self._frame.extend(slots)
                if uniform >> source & 1:
                    value = np.repeat(self._frame.uniform[slot], len(lanes), axis=0)
                else:
                    value = self._frame.varying[slot][lanes]
            if offset is not None:
                value = value.astype(np.uint64) + np.uint64(offset % 2**64)
            values.append(value)
        return values


def _plain(bits: int) -> str:
    return "pred" if bits == 1 else f"b{bits}"
