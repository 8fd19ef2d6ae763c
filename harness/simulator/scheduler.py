"""Runs the threads of a chunk of blocks: who goes next, who waits, who is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.simulator.codegen import Compiled, Compiler, State
from harness.simulator.errors import BarrierDeadlock, KernelTrap
from harness.simulator.frame import Frame, Geometry, PrivateMemory, coordinates
from harness.simulator.performer import Performer
from harness.simulator.program import Barrier, Block, Branch, Exit, Jump, Perform, Trap

if TYPE_CHECKING:
    from harness.simulator.faults import Faults

Lanes = npt.NDArray[np.bool_]


@dataclass
class Prepared:
    """A program with the code that has been made for it."""

    compiler: Compiler
    code: list[dict[tuple[int, int, bool], Compiled]] = field(init=False)
    touched: list[int] = field(init=False)

    def __post_init__(self) -> None:
        blocks = self.compiler.program.blocks
        self.code = [{} for _ in blocks]
        self.touched = [b.reads | b.writes for b in blocks]


@dataclass(slots=True)
class _Waiting:
    """Threads at a barrier, and where they go on."""

    barrier: Barrier
    block: int
    lanes: Lanes


class Scheduler:
    """Threads of one chunk of blocks, with the lowest block of code first.

    So threads that have parted meet again where their paths join, because compilers lay the code
    out in that order. Threads at a barrier go on when all threads of their block that have not
    ended are at it.
    """

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: PrivateMemory,
        geometry: Geometry,
        faults: Faults,
    ) -> None:
        self._prepared = prepared
        self._blocks = prepared.compiler.program.blocks
        self._frame = frame
        self._private = private
        self._geometry = geometry
        self._faults = faults
        self._uniform = 0
        self._ready: dict[int, Lanes] = {}
        self._waiting: list[_Waiting] = []
        self._first_block = 0
        self._lanes: Lanes | None = None
        self._indices: npt.NDArray[np.int64] | None = None
        self.thread_instructions = 0
        self._performer = Performer(prepared.compiler, frame, private, geometry, faults)

    def run(self, first_block: int, blocks: int, uniform: int) -> None:
        """Runs `blocks` blocks from number `first_block` on; `uniform` as in codegen.State.

        Raises:
            KernelTrap: a thread executed `trap`.
            BarrierDeadlock, UnmetCondition: threads wait for what cannot happen.
        """
        lanes = self._frame.lanes
        live = blocks * self._geometry.threads
        self._first_block = first_block
        self._uniform = uniform
        self._ready = {}
        self._waiting = []
        self._performer.start(first_block)
        position: int | None = 0
        current: Lanes | None = None if live == lanes else np.arange(lanes) < live
        count = live
        while position is not None:
            block = self._blocks[position]
            if isinstance(block.end, Perform):
                position, current, count = self._perform(block, block.end, position, current)
                continue
            compiled = self._execute(position, block, current, count)
            end = block.end
            if isinstance(end, Branch):
                position, current, count = self._branch(block, compiled, position, current, count)
            elif isinstance(end, Jump):
                position, current, count = self._go(block.target, current, count)
            elif isinstance(end, Barrier):
                position, current, count = self._wait(end, position + 1, current, count)
            elif isinstance(end, Exit):
                position, current, count = self._next()
            else:
                raise self._trap(end, current)
        self._performer.finish()

    def _perform(
        self, block: Block, end: Perform, position: int, current: Lanes | None
    ) -> tuple[int | None, Lanes | None, int]:
        lanes = np.ones(self._frame.lanes, np.bool_) if current is None else current
        going, self._uniform = self._performer.arrive(position, end, lanes, self._uniform)
        count = int(np.count_nonzero(going))
        self.thread_instructions += block.instructions * count
        if not count:
            return self._next()
        return self._go(position + 1, None if count == self._frame.lanes else going, count)

    def _execute(self, position: int, block: Block, current: Lanes | None, count: int) -> Compiled:
        kept = 0
        if current is not None:
            for other in self._ready:
                kept |= self._blocks[other].live
            for waiting in self._waiting:
                kept |= self._blocks[waiting.block].live
            for other in self._performer.parked:
                kept |= self._blocks[other].live
            kept &= block.writes
        prepared = self._prepared
        key = (self._uniform & prepared.touched[position], kept, current is None)
        compiled = prepared.code[position].get(key)
        if compiled is None:
            compiled = prepared.compiler.compile(block, State(*key))
            prepared.code[position][key] = compiled
        frame = self._frame
        if len(frame.varying) != len(prepared.compiler.slots.pairs):
            frame.extend(prepared.compiler.slots)
        self._lanes = current
        self._indices = None
        lanes_pointer = None
        if current is not None and block.accesses_memory:
            self._indices = np.flatnonzero(current)
            lanes_pointer = self._indices.ctypes.data
        compiled.run(
            frame.varying,
            frame.uniform,
            frame.varying_pointers,
            frame.uniform_pointers,
            frame.lanes,
            current,
            lanes_pointer,
            count,
            self._private.pointer,
            self._fault,
        )
        self._uniform = (self._uniform | compiled.becomes_uniform) & ~compiled.becomes_varying
        self.thread_instructions += block.instructions * count
        return compiled

    def _fault(self, site: int, addresses: Any, once: bool) -> None:
        active = self._lanes
        if active is None:
            active = np.ones(self._frame.lanes, np.bool_)
        self._faults.report(site, addresses, active, self._first_block, shared_access=once)

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
        """The threads that run next: block of code, lanes (None for all), how many."""
        if not self._ready:
            if not self._waiting and not self._performer.parked:
                return None, None, 0
            self._stir()
        position = min(self._ready)
        lanes = self._ready.pop(position)
        count = int(np.count_nonzero(lanes))
        return position, None if count == self._frame.lanes else lanes, count

    def _wait(
        self, barrier: Barrier, after: int, current: Lanes | None, count: int
    ) -> tuple[int | None, Lanes | None, int]:
        if current is None and barrier.threads in (None, self._geometry.threads):
            return after, current, count
        lanes = np.ones(self._frame.lanes, np.bool_) if current is None else current
        self._waiting.append(_Waiting(barrier, after, lanes))
        return self._next()

    def _stir(self) -> None:
        """Lets go whoever need not wait any more; called when no thread can run."""
        program = self._prepared.compiler.program
        performer = self._performer
        if performer.parked and (found := performer.satisfied(program, self._uniform)):
            self._ready.update(found)
        elif not self._waiting or not self._release():
            self._ready.update(performer.expire(program))
            if not self._ready and performer.parked:
                raise performer.stuck(program)

    def _release(self) -> bool:
        """Lets go whoever's barrier is complete; whether anyone could go."""
        threads = self._geometry.threads
        present: dict[int, npt.NDArray[np.int64]] = {}
        needed: dict[int, int] = {}
        for waiting in self._waiting:
            arrived = waiting.lanes.reshape(-1, threads).sum(1)
            number = waiting.barrier.number
            present[number] = present.get(number, 0) + arrived
            if waiting.barrier.threads is not None:
                needed[number] = waiting.barrier.threads
        alive = sum(present.values())
        for lanes in self._performer.parked.values():
            alive = alive + lanes.reshape(-1, threads).sum(1)
        complete = {
            number: (arrived > 0) & (arrived >= needed.get(number, alive))
            for number, arrived in present.items()
        }
        if not any(blocks.any() for blocks in complete.values()):
            if self._performer.parked:
                return False
            raise self._deadlock(present)
        left = []
        for waiting in self._waiting:
            released = np.repeat(complete[waiting.barrier.number], threads)
            going = waiting.lanes & released
            if going.any():
                self._add(waiting.block, going)
            staying = waiting.lanes & ~released
            if staying.any():
                left.append(_Waiting(waiting.barrier, waiting.block, staying))
        self._waiting = left
        return True

    def _deadlock(self, present: dict[int, npt.NDArray[np.int64]]) -> BarrierDeadlock:
        stuck = int(np.flatnonzero(sum(present.values()))[0])
        waiting = tuple((n, int(a[stuck])) for n, a in sorted(present.items()) if a[stuck])
        block = coordinates(self._first_block + stuck, self._geometry.grid)
        return BarrierDeadlock(self._prepared.compiler.program.name, block, waiting)

    def _trap(self, end: Trap, current: Lanes | None) -> KernelTrap:
        lane = 0 if current is None else int(np.argmax(current))
        block, thread = divmod(lane, self._geometry.threads)
        return KernelTrap(
            self._prepared.compiler.program.name,
            coordinates(self._first_block + block, self._geometry.grid),
            coordinates(thread, self._geometry.block),
            end.location,
        )
