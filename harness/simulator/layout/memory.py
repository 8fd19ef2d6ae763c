"""Structures of arena.c and of what accesses memory: allocations, spaces, instructions."""

from __future__ import annotations

import ctypes
from typing import Annotated

from harness.simulator.layout.structure import (
    I64,
    U8,
    U16,
    U32,
    U64,
    Address,
    Structure,
    array,
    pointer,
    structure,
)


@structure("sim_allocation")
class AllocationEntry(Structure):
    """One allocation, dead or alive.

    The table of them is append-only and, as addresses are never used twice, sorted by start.
    """

    start: U64
    """Device address."""
    size: U64
    """Bytes, as asked for."""
    live: U64
    """1 until it is freed."""
    serial: U64
    """0 for the first allocation of this process, then 1, 2, ..."""
    owned: U64
    """1 where host code that asked for it has to free it."""
    sparse: U64
    """1 where most of it is never there: what nothing has touched is zeros."""


@structure("sim_window")
class Window(Structure):
    """A space of which each block or thread has a part of `size` bytes of its own.

    Thread t sees the part number owner[t], or part 0 when there is no `owner`.
    """

    data: Annotated[Address, pointer("uint8_t")]
    shadow: Annotated[Address, pointer("uint8_t")]
    size: U64
    owner: Annotated[Address, pointer("const uint32_t")]


@structure("sim_spaces")
class Spaces(Structure):
    """Shared, local and param memory, where faults are noted, and who else is told."""

    window: Annotated[ctypes.Array[Window], array(Window, 3)]
    """Shared, local, param."""
    fault: Annotated[Address, pointer("uint8_t")]
    """One byte for each thread; only those of faulty accesses are written."""
    race: Annotated[Address, pointer("sim_race")]
    """NULL where races are not looked for."""
    profile: Annotated[Address, pointer("sim_profile")]
    """NULL where nothing is counted."""
    changes: U64
    """Stores and atomics that left another value than they found."""
    confined: U32
    """Whether other processes run other blocks of the launch: see `escapes` in locate.h."""
    escapes: U64
    """Accesses of global memory that race.c should know of and does not; nothing was stored."""


@structure("sim_shape")
class Shape(Structure):
    """One load or store instruction, as far as it is known before it runs."""

    space: U32
    """Number of a state space."""
    width: U32
    """Bytes of one element in memory: 1, 2, 4, 8."""
    elements: U32
    """1, 2, 4: a vector access."""
    register_width: U32
    """Bytes of the register: width or more."""
    sign_extend: U32
    """A load into a wider register."""
    address_width: U32
    """Bytes of the address register: 4 or 8."""
    offset: I64
    site: U32
    """Number of the place in the program."""
    how: U32
    """RACE_PLAIN, RACE_STRONG or RACE_ATOMIC."""
    once: U32
    """One access at one address stands for all threads."""


@structure("sim_tensor_map")
class TensorMapEntry(Structure):
    """What our tensor maps hold, in place of the undocumented 128 bytes of the driver's."""

    mark: U64
    """SIM_TENSOR_MAP_MARK."""
    address: U64
    dims: Annotated[ctypes.Array[ctypes.c_uint64], array(U64, 5)]
    """Elements; the first is the contiguous dimension."""
    strides: Annotated[ctypes.Array[ctypes.c_uint64], array(U64, 4)]
    """Bytes, of the dimensions after the first."""
    box: Annotated[ctypes.Array[ctypes.c_uint16], array(U16, 5)]
    element_strides: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, 5)]
    type: U8
    """CUtensorMapDataType."""
    rank: U8
    swizzle: U8
    """CUtensorMapSwizzle."""
    fill: U8
    """CUtensorMapFloatOOBfill."""
    promotion: U8
    """CUtensorMapL2promotion, which matters for a GPU's speed alone."""
    unused: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, 20)]
