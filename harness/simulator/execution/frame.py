"""Registers, shared and local memory of the threads that are simulated together."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.simulator.execution.codegen import Slots
from harness.simulator.hardware.geometry import WARP, Placement, coordinates_of
from harness.simulator.hardware.memory import POISON
from harness.simulator.instructions.operation import DTYPES, Array
from harness.simulator.layout.memory import Spaces
from harness.simulator.ptx.space import Space


class Frame:
    """Registers of `lanes` threads as arrays.

    A slot is a register that is viewed as one PTX type. Compiled code adds slots as it needs them.

    Attributes:
        lanes: Number of threads.
        varying: For each slot, an array with one element for each thread.
        uniform: For each slot, an array with one element, for a value that all threads share.
        varying_pointers: For each slot, the address of the data of `varying`.
        uniform_pointers: For each slot, the address of the data of `uniform`.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.varying: list[Array] = []
        self.uniform: list[Array] = []
        self.varying_pointers: list[int] = []
        self.uniform_pointers: list[int] = []
        self._storage: dict[int, tuple[Array, Array]] = {}

    def extend(self, slots: Slots) -> None:
        """Add arrays for the slots of `slots` that this frame does not have yet."""
        for register, kind in slots.pairs[len(self.varying) :]:
            bits = slots.bits[register]
            if register not in self._storage:
                self._storage[register] = _storage(bits, self.lanes), _storage(bits, 1)
            many, one = self._storage[register]
            self.varying.append(_view(many, kind))
            self.uniform.append(_view(one, kind))
            self.varying_pointers.append(many.ctypes.data)
            self.uniform_pointers.append(one.ctypes.data)


def _storage(bits: int, length: int) -> Array:
    return np.zeros(length, np.bool_ if bits == 1 else f"u{bits // 8}")


def _view(storage: Array, kind: str) -> Array:
    """Return a view of a register's array as PTX type `kind`.

    If the type is narrower than the register, the view has the low part of each element. For a
    packed pair (f16x2, bf16x2), the view has shape (lanes, 2).
    """
    dtype = np.dtype(DTYPES[kind])
    if kind.endswith("x2"):
        return storage.view(dtype).reshape(-1, 2)
    return storage.view(dtype)[:: storage.dtype.itemsize // dtype.itemsize]


class ChunkMemory:
    """Shared memory, local memory and kernel arguments of the blocks that are simulated together.

    Each of these three state spaces has a shadow, with one byte for each byte of the space. The
    shadow records which bytes have been written.
    """

    def __init__(
        self, lanes: int, threads: int, shared_bytes: int, local_bytes: int, arguments: bytes
    ) -> None:
        blocks = lanes // threads
        self._shared = _padded(blocks * shared_bytes)
        self._shared_shadow = np.zeros_like(self._shared)
        self._local = _padded(lanes * local_bytes)
        self._local_shadow = np.zeros_like(self._local)
        self._arguments = np.frombuffer(arguments.ljust(8, b"\0"), np.uint8).copy()
        self._arguments_shadow = np.ones_like(self._arguments)
        self._block_of = np.repeat(np.arange(blocks, dtype=np.uint32), threads)
        self._thread_of = np.arange(lanes, dtype=np.uint32)
        self.fault = np.zeros(lanes, np.uint8)
        self.spaces = Spaces()
        rows = {
            Space.SHARED: (self._shared, self._shared_shadow, shared_bytes, self._block_of),
            Space.LOCAL: (self._local, self._local_shadow, local_bytes, self._thread_of),
            Space.PARAM: (self._arguments, self._arguments_shadow, len(arguments), None),
        }
        for space, (data, shadow, size, owner) in rows.items():
            window = self.spaces.window[space.number - Space.SHARED.number]
            window.data = data.ctypes.data
            window.shadow = shadow.ctypes.data
            window.size = size
            window.owner = None if owner is None else owner.ctypes.data
        self.spaces.fault = self.fault.ctypes.data
        self.pointer = ctypes.addressof(self.spaces)
        self._rows = rows
        self.sizes = {space: size for space, (_, _, size, _) in rows.items()}

    def read(self, space: Space, lane: int, offset: int, nbytes: int) -> bytes:
        """Return `nbytes` bytes that a thread sees at an offset of a state space.

        Each block has its own shared memory, and each thread its own local memory. Fewer bytes are
        returned if the block's or thread's memory ends earlier.
        """
        data, _, size, owner = self._rows[space]
        start = int(owner[lane]) * size if owner is not None else 0
        return data[start + min(offset, size) : start + min(offset + nbytes, size)].tobytes()

    def reset(self) -> None:
        """Prepare shared and local memory for the next blocks.

        Fill both memories with poison (a NaN as float32), and mark all bytes as unwritten.
        """
        for data, shadow in (
            (self._shared, self._shared_shadow),
            (self._local, self._local_shadow),
        ):
            data.view(np.uint32)[...] = POISON
            shadow[...] = 0


def _padded(nbytes: int) -> npt.NDArray[np.uint8]:
    return np.empty(-(-nbytes // 8) * 8, np.uint8)


def special_registers(
    placement: Placement, first_block: int, lanes: int, dynamic_bytes: int, total_bytes: int
) -> dict[str, Callable[[], Array]]:
    """Return a function for each special register such as `%tid.x`, by the register's name.

    The function returns an array of the register's values. It has one element for all threads, or
    one for each thread of a chunk (blocks that are simulated together). The last chunk of a launch
    may have fewer threads than elements; the elements without a thread get an arbitrary value.

    Args:
        placement: Order of blocks and threads.
        first_block: Index of the chunk's first block in the order of execution.
        lanes: Number of threads that the chunk has room for.
        dynamic_bytes: Bytes of a block's dynamic shared memory.
        total_bytes: Bytes of a block's static and dynamic shared memory.
    """
    geometry = placement.geometry
    threads = geometry.threads
    count = lanes // threads
    thread = placement.thread_numbers

    def per_thread(values: Array) -> Array:
        return np.tile(_shortest(values), count if len(_shortest(values)) > 1 else 1)

    def per_block(axis: int) -> Array:
        index = placement.block_numbers(first_block, count)
        values = _shortest(coordinates_of(index, geometry.grid)[axis].astype(np.uint32))
        return np.repeat(values, threads) if len(values) > 1 else values

    def constant(value: int) -> Array:
        return np.array([value], np.uint32)

    lane = thread % WARP
    bit = np.left_shift(np.uint32(1), lane)
    makers: dict[str, Callable[[], Array]] = {
        "%laneid": lambda: per_thread(lane),
        "%warpid": lambda: per_thread(thread // WARP),
        "%nwarpid": lambda: constant(-(-threads // WARP)),
        "%lanemask_eq": lambda: per_thread(bit),
        "%lanemask_lt": lambda: per_thread(bit - 1),
        "%lanemask_le": lambda: per_thread(bit | (bit - 1)),
        "%lanemask_gt": lambda: per_thread(~(bit | (bit - 1))),
        "%lanemask_ge": lambda: per_thread(~(bit - 1)),
        "%smid": lambda: constant(0),
        "%nsmid": lambda: constant(1),
        "%gridid": lambda: constant(0).astype(np.uint64),
        "%dynamic_smem_size": lambda: constant(dynamic_bytes),
        "%total_smem_size": lambda: constant(total_bytes),
    }
    for axis, name in enumerate("xyz"):
        tid = coordinates_of(thread, geometry.block)[axis]
        makers[f"%tid.{name}"] = lambda tid=tid: per_thread(tid)  # type: ignore[misc]
        makers[f"%ctaid.{name}"] = lambda axis=axis: per_block(axis)  # type: ignore[misc]
        makers[f"%ntid.{name}"] = lambda n=geometry.block[axis]: constant(n)  # type: ignore[misc]
        makers[f"%nctaid.{name}"] = lambda n=geometry.grid[axis]: constant(n)  # type: ignore[misc]
        # Every block is a cluster of its own.
        makers[f"%clusterid.{name}"] = makers[f"%ctaid.{name}"]
        makers[f"%nclusterid.{name}"] = makers[f"%nctaid.{name}"]
        makers[f"%cluster_ctaid.{name}"] = lambda: constant(0)
        makers[f"%cluster_nctaid.{name}"] = lambda: constant(1)
    makers["%cluster_ctarank"] = lambda: constant(0)
    makers["%cluster_nctarank"] = lambda: constant(1)
    return makers


def _shortest(values: Array) -> Array:
    """Return only the first element if all values are equal, else all values."""
    return values[:1] if (values == values[0]).all() else values
