"""The warps and blocks of the threads in a chunk, for instructions that look beyond one thread."""

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
    """The shared, local and param memory of a chunk's threads."""

    def read(self, space: Space, lane: int, offset: int, nbytes: int) -> bytes:
        """Return bytes of a thread's part of a state space."""
        ...


@dataclass(frozen=True)
class Undefined:
    """Values that threads took from lanes which did not take part in an exchange.

    Attributes:
        lane: The first of these threads.
        source: The lane of its warp that it took a value from.
        count: The number of such values.
    """

    lane: int
    source: int
    count: int


@dataclass
class Team:
    """The chunk of blocks that run together, as instructions such as shuffles and votes see it.

    A "lane" is a thread's number in the chunk; its number in its warp is `lane_id`. The last warp
    of a block has fewer lanes if the block's size is not a multiple of 32.

    Attributes:
        lanes: Threads of the chunk.
        placement: The blocks and threads that the lanes stand for.
        memory: Global memory.
        private: Shared, local and param memory.
        print_out: Receives the output of `printf`.
        print_error: Receives the message of a failed `assert`.
        first_block: Position of the chunk's first block in the order of blocks.
        executed: Returns how many instructions the chunk's threads have executed in total.
        waited: Cycles in which all threads slept or spun.
        clock_reads: How often a thread has read the clock.
        permutations: A cache for shuffles of whole warps: the source lane of each lane's value, and
            the predicate.
        undefined: The undefined values that were taken, by the name and place of the instruction.
        threads: Threads of a block.
        is_whole: True if every warp has all of its 32 lanes.
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
        """Return a copy for another launch, which keeps the cache of shuffles."""
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
        """Each thread's number in its warp."""
        return np.tile(np.arange(self.threads) % WARP, self.lanes // self.threads)

    @cached_property
    def first_lane(self) -> npt.NDArray[np.int64]:
        """The first lane of each thread's warp."""
        return np.arange(self.lanes) - self.lane_id

    @cached_property
    def _warp(self) -> npt.NDArray[np.int64]:
        blocks = self.lanes // self.threads
        in_block = np.tile(np.arange(self.threads) // WARP, blocks)
        block = np.repeat(np.arange(blocks), self.threads)
        numbers: npt.NDArray[np.int64] = block * self._warps_per_block + in_block
        return numbers

    def bits(self, lanes: Lanes | None) -> npt.NDArray[np.uint32]:
        """Return, for each warp, the mask of its lanes that are in `lanes` (None: all)."""
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
        """Return, for each thread, its warp's mask of the lanes in `lanes`."""
        masks: npt.NDArray[np.uint32] = self.bits(lanes).take(self._warp)
        return masks

    def gather(self, values: Array, lane_ids: Array | int) -> Array:
        """Return, for each thread, the value of lane `lane_ids` of its warp.

        A lane that the block's last warp does not have gives some other thread's value.
        """
        if len(values) == 1:
            return values
        gathered: Array = values.take(np.minimum(self.first_lane + lane_ids, self.lanes - 1))
        return gathered

    def take_undefined(
        self, name: str, location: Location | None, takers: Lanes, sources: Array
    ) -> None:
        """Record the threads that took a value from a lane which did not take part.

        Args:
            name: Name of the instruction.
            location: Its place in the source.
            takers: The threads.
            sources: The lane that each thread took its value from.
        """
        count = int(np.count_nonzero(takers))
        if count:
            lane = int(np.argmax(takers))
            key = name, location
            known = self.undefined.get(key) or Undefined(lane, int(sources[lane]), 0)
            self.undefined[key] = replace(known, count=known.count + count)

    def clock(self) -> int:
        """Return the cycles since the launch: one for each instruction of each thread.

        This clock does not depend on the machine's speed, so a run can be reproduced. Each read
        advances it, so that two reads differ.
        """
        self.clock_reads += 1
        return self.executed() + self.waited + self.clock_reads

    def place(self, lane: int) -> tuple[Extent, Extent]:
        """Return the coordinates of a lane's block in the grid and of its thread in the block."""
        block, thread = divmod(lane, self.threads)
        return self.placement.block(self.first_block + block), self.placement.thread(thread)

    def read(self, lane: int, address: int, nbytes: int) -> bytes:
        """Return the bytes that a thread sees at a generic address.

        There are fewer than `nbytes` if the memory ends before, and none if the address is invalid.
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
        """Return the bytes before the next NUL at a generic address."""
        text = b""
        while piece := self.read(lane, address + len(text), 64):
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return text
