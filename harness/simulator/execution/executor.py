"""Execution of basic blocks on the threads of a chunk (blocks that are simulated together)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.codegen import Compiled, State
from harness.simulator.execution.frame import ChunkMemory, Frame
from harness.simulator.execution.prepared import Prepared
from harness.simulator.hardware.team import Array, Team
from harness.simulator.lowering.program import Block, Constant, Source

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults

Lanes = npt.NDArray[np.bool_]


class ChunkExecutor:
    """The registers of a chunk's threads, and the compiled code that runs on them.

    A chunk is a number of blocks that are simulated together.

    Attributes:
        uniform: Registers that hold one value for all threads (a bit mask).
        thread_instructions: PTX instructions executed so far, summed over threads.
        issued: PTX instructions executed so far. An instruction that many threads run together
            counts once.
    """

    def __init__(
        self,
        prepared: Prepared,
        frame: Frame,
        private: ChunkMemory,
        faults: Faults,
        team: Team,
    ) -> None:
        self._prepared = prepared
        self._frame = frame
        self._private = private
        self._faults = faults
        self._team = team
        self._lanes: Lanes | None = None
        self._indices: npt.NDArray[np.int64] | None = None
        self._first_block = 0
        self.uniform = 0
        self.thread_instructions = 0
        self.issued = 0
        team.executed = lambda: self.thread_instructions

    def begin(self, first_block: int, uniform: int) -> None:
        """Start the next chunk (blocks that are simulated together).

        Args:
            first_block: Index of the chunk's first block in the order of execution.
            uniform: Registers that hold one value for all threads (a bit mask).
        """
        self._first_block = first_block
        self.uniform = uniform

    def run(
        self, position: int, block: Block, current: Lanes | None, count: int, elsewhere: int
    ) -> Compiled:
        """Run a basic block for some threads, and return its compiled code.

        Args:
            position: Number of the basic block.
            block: The basic block.
            current: Mask of the threads that run it, or None for all simulated threads.
            count: Number of those threads.
            elsewhere: Registers that are still needed by threads that do not run this basic block
                (a bit mask).
        """
        compiled = self._compiled(
            position, block, elsewhere & block.writes, in_step=current is None
        )
        frame = self._frame
        if len(frame.varying) != len(self._prepared.compiler.slots.pairs):
            frame.extend(self._prepared.compiler.slots)
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
            self._team,
        )
        self.uniform = (self.uniform | compiled.becomes_uniform) & ~compiled.becomes_varying
        self.thread_instructions += block.instructions * count
        self.issued += block.instructions
        return compiled

    def values(self, source: Source, kind: str) -> Array:
        """Return the values of an operand, viewed as PTX type `kind`.

        The array has one element for each thread, or one for all threads. A constant is returned as
        its low 32 bits, whatever `kind` is.
        """
        if isinstance(source, Constant):
            return np.array([source.value.value & 0xFFFFFFFF], np.uint32)
        slots = self._prepared.compiler.slots
        slot = slots.number(source, kind)
        if slot >= len(self._frame.varying):
            self._frame.extend(slots)
        is_uniform = self.uniform >> source & 1
        values: Array = (self._frame.uniform if is_uniform else self._frame.varying)[slot]
        return values

    def _compiled(self, position: int, block: Block, kept: int, *, in_step: bool) -> Compiled:
        """Return a basic block's code for the present state of the threads; compile it if new.

        States that differ only in registers which the basic block neither reads nor writes use the
        same code.
        """
        prepared = self._prepared
        key = (self.uniform & prepared.touched[position], kept, in_step)
        compiled = prepared.code[position].get(key)
        if compiled is None:
            compiled = prepared.compiler.compile(block, State(*key))
            prepared.code[position][key] = compiled
        return compiled

    def _fault(self, site: int, addresses: Any, once: bool) -> None:
        active = self._lanes
        if active is None:
            active = np.ones(self._frame.lanes, np.bool_)
        self._faults.report(site, addresses, active, self._first_block, shared_access=once)
