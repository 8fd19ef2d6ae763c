"""The threads of a chunk by warp and block, for instructions that involve other threads.

A chunk is a group of blocks that the simulator runs together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.geometry import WARP, Extent, Geometry, Placement
from harness.simulator.hardware.memory import Memory
from harness.simulator.ptx.ptx import Location
from harness.simulator.ptx.space import Space, resolved

FULL = 0xFFFFFFFF
"""The mask that names every lane of a warp."""

Lanes = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
Output = Callable[[bytes], None]


class PrivateMemory(Protocol):
    """The shared, local and param memory of the threads in a chunk."""

    def read(self, space: Space, lane: int, offset: int, nbytes: int) -> bytes:
        """Return bytes of the shared, local or param memory that a thread accesses.

        The result is shorter than `nbytes` if the memory ends before.

        Args:
            space: The state space: shared, local or param.
            lane: The thread's number in the chunk.
            offset: The address of the first byte within that memory.
            nbytes: The number of bytes.
        """
        ...


@dataclass(frozen=True)
class Undefined:
    """Values that threads took, in a shuffle, from lanes that did not take part in it.

    Attributes:
        lane: The lowest thread in the chunk that took such a value.
        source: The lane of that thread's warp that the value came from.
        count: How many such values all threads took together.
    """

    lane: int
    source: int
    count: int


@dataclass
class Team:
    """The threads of a chunk, as instructions such as shuffles and votes see them.

    A chunk is a group of blocks that the simulator runs together. A "lane" is a thread's number in
    the chunk; a thread's number in its warp is its `lane_id`. The last warp of a block has fewer
    lanes if the block's size is not a multiple of 32.

    Attributes:
        lanes: The number of threads in the chunk.
        placement: The order that assigns blocks and threads to lanes.
        memory: Global memory.
        private: Shared, local and param memory.
        print_out: Receives the output of `printf`.
        print_error: Receives the message of a failed `assert`.
        first_block: Position of the chunk's first block in the order of `placement`.
        executed: Function that returns how many instructions the chunk's threads have executed in
            total.
        waited: Cycles in which all threads slept or spun.
        clock_reads: How often a thread has read the clock.
        permutations: A cache for shuffles of whole warps. The key is the mode and the operands. The
            value has, for each lane, the lane that its value comes from, and the predicate.
        undefined: Undefined values that shuffles gave to threads, by the instruction's name and
            location.
        threads: The number of threads in a block.
        is_whole: True if every warp has 32 lanes.
    """

    lanes: int
    placement: Placement
    memory: Memory
    private: PrivateMemory
    print_out: Output
    print_error: Output
    first_block: int = 0
    executed: Callable[[], int] = int
    waited: int = 0
    clock_reads: int = 0
    permutations: dict[tuple[str, int, int], tuple[Array, Array]] = field(default_factory=dict)
    undefined: dict[tuple[str, Location | None], Undefined] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.threads = self.geometry.threads
        self.is_whole = self.threads % WARP == 0
        self._warps_per_block = -(-self.threads // WARP)

    @property
    def geometry(self) -> Geometry:
        """The launch's grid and block."""
        return self.placement.geometry

    def for_launch(self, private: PrivateMemory, print_out: Output, print_error: Output) -> Team:
        """Return a copy of this team for another launch of the kernel.

        The copy keeps the cache `permutations`.
        """
        return replace(
            self,
            private=private,
            print_out=print_out,
            print_error=print_error,
            waited=0,
            clock_reads=0,
            undefined={},
        )

    @cached_property
    def lane_id(self) -> npt.NDArray[np.int64]:
        """The number of each thread in its warp."""
        return np.tile(np.arange(self.threads) % WARP, self.lanes // self.threads)

    @cached_property
    def first_lane(self) -> npt.NDArray[np.int64]:
        """The lane in the chunk of the first thread of each thread's warp."""
        return np.arange(self.lanes) - self.lane_id

    @cached_property
    def _warp(self) -> npt.NDArray[np.int64]:
        blocks = self.lanes // self.threads
        in_block = np.tile(np.arange(self.threads) // WARP, blocks)
        block = np.repeat(np.arange(blocks), self.threads)
        numbers: npt.NDArray[np.int64] = block * self._warps_per_block + in_block
        return numbers

    def bits(self, lanes: Lanes | None) -> npt.NDArray[np.uint32]:
        """Return, for each warp, the 32-bit mask of its threads that are in `lanes` (None: all)."""
        if lanes is None:
            lanes = np.ones(self.lanes, np.bool_)
        if not self.is_whole:
            rows = lanes.reshape(-1, self.threads)
            padded = np.zeros((len(rows), self._warps_per_block * WARP), np.bool_)
            padded[:, : self.threads] = rows
            lanes = padded
        packed: npt.NDArray[np.uint8] = np.packbits(lanes, bitorder="little")
        return packed.view(np.uint32)

    def are_whole_warps(self, lanes: Lanes | None) -> bool:
        """Return whether every warp has either all of its 32 lanes in `lanes`, or none."""
        if lanes is None:
            return self.is_whole
        masks = self.bits(lanes)
        return bool(((masks == 0) | (masks == FULL)).all())

    def mask_of_warp(self, lanes: Lanes | None) -> npt.NDArray[np.uint32]:
        """Return, for each thread, the 32-bit mask of its warp's threads that are in `lanes`."""
        masks: npt.NDArray[np.uint32] = self.bits(lanes).take(self._warp)
        return masks

    def gather(self, values: Array, lane_ids: Array | int) -> Array:
        """Return, for each thread, the value of the thread in its warp with number `lane_ids`.

        The last warp of a block may have no thread with this number. The result is then the value
        of an arbitrary thread.
        """
        if len(values) == 1:
            return values
        gathered: Array = values.take(np.minimum(self.first_lane + lane_ids, self.lanes - 1))
        return gathered

    def take_undefined(
        self, name: str, location: Location | None, takers: Lanes, sources: Array
    ) -> None:
        """Record the threads that took a value from a lane which did not take part in a shuffle.

        Args:
            name: Name of the instruction.
            location: Source location of the instruction.
            takers: The threads that took such a value.
            sources: For each thread, the lane of its warp that its value came from.
        """
        count = int(np.count_nonzero(takers))
        if count:
            lane = int(np.argmax(takers))
            key = name, location
            known = self.undefined.get(key) or Undefined(lane, int(sources[lane]), 0)
            self.undefined[key] = replace(known, count=known.count + count)

    def clock(self) -> int:
        """Return the cycles since the launch: one for each instruction of each thread.

        The count does not depend on the machine's speed, so a run can be reproduced. Each read
        advances the clock, so that two reads differ.
        """
        self.clock_reads += 1
        return self.executed() + self.waited + self.clock_reads

    def place(self, lane: int) -> tuple[Extent, Extent]:
        """Return the coordinates of a lane's block in the grid, and of its thread in the block."""
        block, thread = divmod(lane, self.threads)
        return self.placement.block(self.first_block + block), self.placement.thread(thread)

    def read(self, lane: int, address: int, nbytes: int) -> bytes:
        """Return the bytes that the thread `lane` sees at a generic address.

        The result is shorter than `nbytes` if the memory ends before, and empty if the address is
        invalid.
        """
        space, offset = resolved(address)
        if space is None:
            return b""
        if space is not Space.GLOBAL:
            return self.private.read(space, lane, offset, nbytes)
        found = self.memory.find(address)
        if found is None or not found.is_live:
            return b""
        return self.memory.read(address, min(nbytes, found.end - address))

    def read_string(self, lane: int, address: int) -> bytes:
        """Return the NUL-terminated string that a thread sees at a generic address, without NUL."""
        text = b""
        while piece := self.read(lane, address + len(text), 64):
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return text
