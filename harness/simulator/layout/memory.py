"""Structures for simulated memory and for the C functions that access it."""

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
    """A live or freed allocation of device memory.

    The table of allocations is append-only. It is sorted by start address, because addresses are
    never used twice.

    Attributes:
        start: Device address of the first byte.
        size: Size in bytes, as requested.
        live: 1 until the allocation is freed, then 0.
        serial: Number of earlier allocations in this process.
        owned: 1 if the submission's host code requested the memory and must free it, else 0.
        sparse: 1 if only the touched parts of the memory have pages. Untouched bytes read as zero.
    """

    start: U64
    size: U64
    live: U64
    serial: U64
    owned: U64
    sparse: U64


@structure("sim_window")
class Window(Structure):
    """The memory of a state space in which each block or thread sees only its own part.

    Attributes:
        data: The bytes of all parts, one part after the other.
        shadow: One byte for each byte of `data`, which says whether that byte has been written; see
            access.h.
        size: Size of one part in bytes.
        owner: For each thread, the number of the part that it sees; NULL if all threads see part 0.
    """

    data: Annotated[Address, pointer("uint8_t")]
    shadow: Annotated[Address, pointer("uint8_t")]
    size: U64
    owner: Annotated[Address, pointer("const uint32_t")]


@structure("sim_spaces")
class Spaces(Structure):
    """The memory of a chunk, with the state of the checks and counters of memory accesses.

    A chunk is a number of blocks that are simulated together.

    Attributes:
        window: Shared, local and param memory, in this order.
        fault: One byte for each thread, which receives a fault code if the thread's access is
            faulty.
        race: The state of race detection, or NULL if it is switched off.
        profile: The counters, or NULL if they are switched off.
        changes: Number of stores and atomics that have changed a value in memory.
        confined: 1 if other processes run other blocks of the same launch, else 0.
        escapes: Number of accesses to global memory that race detection cannot watch, counted only
            while `confined` is 1. Stores that race detection cannot watch are not executed, and the
            launch runs again on one core.
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
    """The static properties of a load, store or atomic instruction, for access.c and atomic.c.

    Attributes:
        space: Number of the state space.
        width: Bytes of one element in memory: 1, 2, 4 or 8.
        elements: Number of elements: 1, or 2 or 4 for a vector access.
        register_width: Bytes of each register that is loaded or stored: `width` or more.
        sign_extend: 1 if a load into a wider register extends the sign.
        address_width: Bytes of the address register: 4 or 8.
        offset: Bytes that are added to the address register.
        site: Index of the instruction in `BlockCompiler.sites`.
        how: RACE_PLAIN, RACE_STRONG or RACE_ATOMIC of race.h, with or without RACE_WIDE.
        once: 1 if all threads load from one address, so that one load serves all threads.
        constant: 1 for a load that is not coherent (`ld.global.nc`): no thread of the launch may
            have written its bytes.
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
    constant: U32


@structure("sim_tensor_map")
class TensorMapEntry(Structure):
    """The simulator's form of a `CUtensorMap` (TMA), whose 128 bytes CUDA does not document.

    Attributes:
        mark: SIM_TENSOR_MAP_MARK, by which the simulator recognises its tensor maps.
        address: Device address of the tensor's first element.
        dims: Elements of the tensor in each dimension; the contiguous dimension comes first.
        strides: Strides in bytes of the dimensions after the first.
        box: Size of the box in each dimension, in elements of the tensor.
        element_strides: For each dimension, the step between the elements that a copy takes: 1 if
            it takes every element. The first dimension's step is ignored.
        type: A value of CUtensorMapDataType.
        rank: Number of dimensions.
        swizzle: A value of CUtensorMapSwizzle.
        fill: A value of CUtensorMapFloatOOBfill.
        promotion: A value of CUtensorMapL2promotion, which only changes a GPU's speed.
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
