"""Detection of threads that exit after they have gone past a barrier at which others wait."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.simulator.lowering.program import (
    Barrier,
    Block,
    Branch,
    Dispatch,
    Exit,
    Jump,
    Program,
    Trap,
)

Lanes = npt.NDArray[np.bool_]


class ThreadExits:
    """Record of the last block of code that each thread of a chunk ran before it ended.

    A barrier does not wait for threads that have returned early (in CUDA C++ it waits for all
    threads that have not exited). A thread that skips the barrier, runs the code behind it, and
    then ends is different. It took a branch that its warp should have taken together.

    Attributes:
        leads_out: For each block of code, True if threads may end after it.
    """

    def __init__(self, program: Program, lanes: int) -> None:
        self._blocks = program.blocks
        self._known: dict[int, frozenset[int]] = {}
        has_barrier = any(isinstance(block.end, Barrier) for block in program.blocks)
        self._positions = np.full(lanes, -1, np.int32)
        self._seen: set[int] = set()
        self.leads_out = tuple(
            has_barrier and self._leads_out(position) for position in range(len(program.blocks))
        )

    def begin(self) -> None:
        """Start the next chunk of blocks."""
        self._positions[...] = -1
        self._seen.clear()

    def ran(self, position: int, lanes: Lanes | None) -> None:
        """Record that threads (all if None) have run a block of code that leads out."""
        self._seen.add(position)
        if lanes is None:
            self._positions[...] = position
        else:
            self._positions[lanes] = position

    def have_passed(self, barrier: int) -> Lanes:
        """Return the threads that ended past the barrier at the end of the block of code `barrier`.

        They ended in code that the threads at the barrier reach as well, and that does not lead
        back to the barrier.
        """
        behind = self._reachable(barrier + 1)
        passed = np.zeros(len(self._positions), np.bool_)
        for position in self._seen & behind:
            if barrier not in self._reachable(position):
                passed |= self._positions == position
        return passed

    def _leads_out(self, position: int) -> bool:
        """Return whether a thread's last work may be in the block.

        An exit without steps does no work, so the block before it counts instead.
        """
        block = self._blocks[position]
        if isinstance(block.end, Exit):
            return bool(block.steps)
        return any(_only_ends(self._blocks[after]) for after in _successors(block, position))

    def _reachable(self, start: int) -> frozenset[int]:
        """Return the blocks that threads can reach from a block, that block included."""
        if start not in self._known:
            found, open_ = {start}, [start]
            while open_:
                position = open_.pop()
                for after in _successors(self._blocks[position], position):
                    if after not in found:
                        found.add(after)
                        open_.append(after)
            self._known[start] = frozenset(found)
        return self._known[start]


def _only_ends(block: Block) -> bool:
    return isinstance(block.end, Exit) and not block.steps


def _successors(block: Block, position: int) -> Iterator[int]:
    if not isinstance(block.end, Exit | Trap | Jump | Dispatch):
        yield position + 1
    if isinstance(block.end, Branch | Jump):
        yield block.target
    yield from block.targets
