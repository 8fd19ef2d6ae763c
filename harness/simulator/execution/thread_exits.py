"""Detection of threads that skip a barrier at which other threads wait, and then exit."""

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
    """Record of the last basic block that each thread of a chunk ran before it exited.

    A chunk is a number of thread blocks that are simulated together. A barrier does not wait for
    threads that have exited, so an early return is legal. But if a thread skips the barrier, runs
    the code after the barrier and then exits, its warp has diverged. This is a mistake.

    Attributes:
        leads_out: For each basic block, True if it may be the last one in which a thread does any
            work. All values are False if the kernel has no barrier.
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
        """Remove all records, before the next blocks are simulated."""
        self._positions[...] = -1
        self._seen.clear()

    def ran(self, position: int, lanes: Lanes | None) -> None:
        """Record that threads have run a basic block of which `leads_out` is True.

        Args:
            position: Number of the basic block.
            lanes: Mask of the threads, or None for all threads that are simulated together.
        """
        self._seen.add(position)
        if lanes is None:
            self._positions[...] = position
        else:
            self._positions[lanes] = position

    def have_passed(self, barrier: int) -> Lanes:
        """Return a mask of the threads that exited in code after a barrier.

        Code is after the barrier if it can be reached from the barrier, but does not lead back to
        the barrier.

        Args:
            barrier: Number of the basic block that ends with the barrier.
        """
        behind = self._reachable(barrier + 1)
        passed = np.zeros(len(self._positions), np.bool_)
        for position in self._seen & behind:
            if barrier not in self._reachable(position):
                passed |= self._positions == position
        return passed

    def _leads_out(self, position: int) -> bool:
        """Return True if the basic block may be the last one in which a thread does any work.

        A basic block that has only an exit does no work, so the basic block before it counts.
        """
        block = self._blocks[position]
        if isinstance(block.end, Exit):
            return bool(block.steps)
        return any(_only_ends(self._blocks[after]) for after in _successors(block, position))

    def _reachable(self, start: int) -> frozenset[int]:
        """Return the numbers of `start` and of all basic blocks that can be reached from it."""
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
