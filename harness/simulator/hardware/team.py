"""Who belongs together: the warps and blocks of a chunk's threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.simulator.hardware.geometry import WARP, Extent, Geometry, Placement
from harness.simulator.hardware.memory import Memory
from harness.simulator.ptx.space import Space, resolved

FULL = 0xFFFFFFFF
"""The mask that names every lane of a warp."""

Lanes = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
Output = Callable[[bytes], None]


class PrivateMemory(Protocol):
    """Shared, local and param memory of the threads of a chunk."""

    def read(self, space: Space, lane: int, offset: int, nbytes: int) -> bytes:
        """Bytes of a thread's part of a space."""
        ...


@dataclass
class Team:
    """What an instruction that looks beyond its own thread may ask about a chunk of blocks.

    A "lane" here is a thread's number in the chunk; its number in its warp is `lane_id`. A block
    whose size is no multiple of 32 has a last warp of fewer lanes.
    """

    lanes: int
    placement: Placement
    memory: Memory
    private: PrivateMemory
    print_out: Output
    print_error: Output
    first_block: int = 0
    executed: Callable[[], int] = int
    """How many instructions the chunk's threads have executed together."""
    waited: int = 0
    """Cycles in which all threads slept or spun."""
    clock_reads: int = 0
    permutations: dict[tuple[str, int, int], tuple[Array, Array]] = field(default_factory=dict)
    """For shuffles of whole warps: where each lane's value comes from, and the predicate."""

    def __post_init__(self) -> None:
        self.threads = self.geometry.threads
        self.is_whole = self.threads % WARP == 0
        """Whether every warp has all of its lanes."""
        self._warps_per_block = -(-self.threads // WARP)

    @property
    def geometry(self) -> Geometry:
        """The launch's grid and block."""
        return self.placement.geometry

    def for_launch(self, private: PrivateMemory, print_out: Output, print_error: Output) -> Team:
        """The same for another launch; what is known of shuffles stays known."""
        return replace(
            self,
            private=private,
            print_out=print_out,
            print_error=print_error,
            waited=0,
            clock_reads=0,
        )

    @cached_property
    def lane_id(self) -> npt.NDArray[np.int64]:
        """For each thread, its number in its warp."""
        return np.tile(np.arange(self.threads) % WARP, self.lanes // self.threads)

    @cached_property
    def first_lane(self) -> npt.NDArray[np.int64]:
        """For each thread, where its warp starts."""
        return np.arange(self.lanes) - self.lane_id

    @cached_property
    def _warp(self) -> npt.NDArray[np.int64]:
        blocks = self.lanes // self.threads
        in_block = np.tile(np.arange(self.threads) // WARP, blocks)
        block = np.repeat(np.arange(blocks), self.threads)
        numbers: npt.NDArray[np.int64] = block * self._warps_per_block + in_block
        return numbers

    def bits(self, lanes: Lanes | None) -> npt.NDArray[np.uint32]:
        """For each warp, the mask of those of its lanes that are in `lanes` (None: all)."""
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
        """Whether every warp has all of its 32 lanes in `lanes`, or none."""
        if lanes is None:
            return self.is_whole
        masks = self.bits(lanes)
        return bool(((masks == 0) | (masks == FULL)).all())

    def mask_of_warp(self, lanes: Lanes | None) -> npt.NDArray[np.uint32]:
        """For each thread, its warp's mask of the lanes in `lanes`."""
        masks: npt.NDArray[np.uint32] = self.bits(lanes).take(self._warp)
        return masks

    def gather(self, values: Array, lane_ids: Array | int) -> Array:
        """For each thread, the value of lane `lane_ids` of its warp.

        Lanes that a block's last warp has not got give some other thread's value.
        """
        if len(values) == 1:
            return values
        gathered: Array = values.take(np.minimum(self.first_lane + lane_ids, self.lanes - 1))
        return gathered

    def clock(self) -> int:
        """Cycles since the launch, one for each instruction of each thread: the same every time."""
        self.clock_reads += 1
        return self.executed() + self.waited + self.clock_reads

    def place(self, lane: int) -> tuple[Extent, Extent]:
        """A lane's block in the grid, and its thread in the block."""
        block, thread = divmod(lane, self.threads)
        return self.placement.block(self.first_block + block), self.placement.thread(thread)

    def read(self, lane: int, address: int, nbytes: int) -> bytes:
        """What a thread sees at a generic address; shorter where its memory ends."""
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
        """The characters before the next NUL at a generic address."""
        text = b""
        while piece := self.read(lane, address + len(text), 64):
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return text
