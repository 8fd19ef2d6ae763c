"""Structures of memory and of the C functions that access it: allocations, spaces, instructions."""

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
    """A live or freed allocation.

    The table of allocations is append-only. It is sorted by start, because addresses are never used
    twice.

    Attributes:
        start: Device address of the first byte.
        size: Bytes, as requested.
        live: 1 until it is freed.
        serial: 0 for the first allocation of this process, then 1, 2, ...
        owned: 1 if host code requested it and has to free it.
        sparse: 1 if only touched parts have pages; untouched bytes read as zero.
    """

    start: U64
    size: U64
    live: U64
    serial: U64
    owned: U64
    sparse: U64


@structure("sim_window")
class Window(Structure):
    """A state space in which each block or thread has a part of its own.

    Attributes:
        data: The bytes of all parts.
        shadow: One byte for each of them, which says whether it is written; see access.h.
        size: Bytes of one part.
        owner: The number of the part that each thread sees; NULL if all threads see part 0.
    """

    data: Annotated[Address, pointer("uint8_t")]
    shadow: Annotated[Address, pointer("uint8_t")]
    size: U64
    owner: Annotated[Address, pointer("const uint32_t")]


@structure("sim_spaces")
class Spaces(Structure):
    """The memory of a chunk of blocks, and the state of the checks on its accesses.

    Attributes:
        window: Shared, local and param memory.
        fault: One byte for each thread; only the bytes of faulty accesses are written.
        race: The state of race detection, or NULL without it.
        profile: The counters, or NULL without them.
        changes: How many stores and atomics have changed a value.
        confined: 1 if other processes run other blocks of the launch; see `escapes` in locate.h.
        escapes: How many accesses of global memory race detection would need to see but cannot;
            their stores were not executed.
    """

    window: Annotated[ctypes.Array[Window], array(Window, 3)]
    fault: Annotated[Address, pointer("uint8_t")]
    race: Annotated[Address, pointer("sim_race")]
    profile: Annotated[Address, pointer("sim_profile")]
    changes: U64
    confined: U32
    escapes: U64


@structure("sim_shape")
class Shape(Structure):
    """The static properties of a load, store or atomic instruction.

    Attributes:
        space: Number of the state space.
        width: Bytes of one element in memory: 1, 2, 4, 8.
        elements: 1, or 2 or 4 for a vector access.
        register_width: Bytes of a register: `width` or more.
        sign_extend: 1 if a load into a wider register extends the sign.
        address_width: Bytes of the address register: 4 or 8.
        offset: Bytes that are added to the address register.
        site: Number of the place in the program.
        how: RACE_PLAIN, RACE_STRONG or RACE_ATOMIC.
        once: 1 if all threads load from one address, so that one access stands for all.
    """

    space: U32
    width: U32
    elements: U32
    register_width: U32
    sign_extend: U32
    address_width: U32
    offset: I64
    site: U32
    how: U32
    once: U32


@structure("sim_tensor_map")
class TensorMapEntry(Structure):
    """A tensor map of the simulator, in place of the driver's undocumented 128 bytes.

    Attributes:
        mark: SIM_TENSOR_MAP_MARK.
        address: Address of the tensor's first element.
        dims: Elements of the tensor in each dimension; the contiguous dimension comes first.
        strides: Strides in bytes of the dimensions after the first.
        box: Size of the box in each dimension, in elements of the tensor.
        element_strides: The box takes every how many-th element in each dimension.
        type: CUtensorMapDataType.
        rank: The number of dimensions.
        swizzle: CUtensorMapSwizzle.
        fill: CUtensorMapFloatOOBfill.
        promotion: CUtensorMapL2promotion, which only changes a GPU's speed.
        unused: Padding to 128 bytes.
    """

    mark: U64
    address: U64
    dims: Annotated[ctypes.Array[ctypes.c_uint64], array(U64, 5)]
    strides: Annotated[ctypes.Array[ctypes.c_uint64], array(U64, 4)]
    box: Annotated[ctypes.Array[ctypes.c_uint16], array(U16, 5)]
    element_strides: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, 5)]
    type: U8
    rank: U8
    swizzle: U8
    fill: U8
    promotion: U8
    unused: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, 20)]
