"""Conversion of tensor maps (TMA descriptors) from the simulator's form to a GPU's.

Workers fill in the simulator's form.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from harness.simulator.actions.tensor_map import MAP_BYTES, MARK
from harness.simulator.layout.memory import TensorMapEntry

Encode = Callable[[TensorMapEntry], bytes]
"""A function that returns a tensor map in the driver's encoding, 128 bytes."""

_MARK = MARK.to_bytes(8, "little")


def with_real_maps(data: bytes, encode: Encode) -> bytes:
    """Return bytes in which each tensor map (TMA descriptor) is encoded for a GPU.

    A map is recognised by the mark at its beginning, because bytes that come from a worker have no
    types: a map may lie in a kernel's argument, or in the middle of a copied structure.

    Raises:
        Exception: `encode` raised it.
    """
    at = data.find(_MARK)
    while at >= 0:
        if at + MAP_BYTES <= len(data):
            entry = TensorMapEntry.from_buffer_copy(data[at : at + MAP_BYTES])
            data = data[:at] + encode(entry) + data[at + MAP_BYTES :]
        at = data.find(_MARK, at + MAP_BYTES)
    return data


def arguments_of(entry: TensorMapEntry) -> tuple[object, ...]:
    """Return the arguments of cuTensorMapEncodeTiled for ctypes, except the map to fill in."""
    rank = entry.rank
    return (
        ctypes.c_int(entry.type),
        ctypes.c_uint32(rank),
        ctypes.c_uint64(entry.address),
        (ctypes.c_uint64 * 5)(*entry.dims),
        (ctypes.c_uint64 * 4)(*entry.strides),
        (ctypes.c_uint32 * 5)(*entry.box),
        (ctypes.c_uint32 * 5)(*entry.element_strides),
        ctypes.c_int(0),
        ctypes.c_int(entry.swizzle),
        ctypes.c_int(entry.promotion),
        ctypes.c_int(entry.fill),
    )
