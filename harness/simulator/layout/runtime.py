"""Structures of cudart/: what the CUDA runtime asks the machine, and is told of the device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Annotated, Any

from harness.simulator.layout.structure import (
    Address,
    Field,
    Int,
    Long,
    Size,
    Structure,
    Text,
    characters,
    pointer,
    structure,
)

_Extent = Annotated[ctypes.Array[ctypes.c_uint], Field(ctypes.c_uint * 3, "unsigned {}[3]")]


@structure("sim_place")
class PlaceEntry(Structure):
    """A kernel or variable `name` of the fat binary `image`.

    `module` tells two loads of one image apart.
    """

    image: Annotated[Address, pointer("const void")]
    module: Annotated[Address, pointer("const void")]
    name: Text


@structure("sim_launch")
class LaunchEntry(Structure):
    """How a kernel is launched."""

    grid: _Extent
    block: _Extent
    dynamic_shared: Size
    dynamic_shared_limit: Long
    """As cudaFuncSetAttribute has set it, else -1."""
    is_cooperative: Int


@structure("sim_kernel")
class KernelEntry(Structure):
    """What cudaFuncGetAttributes tells; bytes of a block, of a thread and of the module."""

    registers: Int
    max_threads: Int
    ptx_version: Int
    static_shared: Size
    local_bytes: Size
    const_bytes: Size


LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, PlaceEntry, ctypes.POINTER(LaunchEntry), ctypes.POINTER(ctypes.c_void_p)
)
SYMBOL = ctypes.CFUNCTYPE(ctypes.c_size_t, PlaceEntry)
DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int, PlaceEntry, ctypes.POINTER(KernelEntry))
ALLOW_SHARED = ctypes.CFUNCTYPE(ctypes.c_int, PlaceEntry, ctypes.c_size_t)
OCCUPANCY = ctypes.CFUNCTYPE(
    ctypes.c_int, PlaceEntry, ctypes.POINTER(LaunchEntry), ctypes.POINTER(ctypes.c_int)
)
NOTE = ctypes.CFUNCTYPE(None, ctypes.c_char_p)

_Function = Callable[..., Any]


@structure("sim_machine")
class MachineEntry(Structure):
    """What the machine answers. Those that return int return a cudaError_t."""

    launch: Annotated[
        _Function,
        Field(LAUNCH, "int (*{})(sim_place, const sim_launch *, void **arguments)"),
    ]
    """Run a kernel; `arguments` are pointers to the values, in the order of its parameters."""
    symbol: Annotated[_Function, Field(SYMBOL, "size_t (*{})(sim_place)")]
    """The device address of a variable, or 0 where the image has none of that name."""
    describe: Annotated[_Function, Field(DESCRIBE, "int (*{})(sim_place, sim_kernel *)")]
    allow_shared: Annotated[
        _Function, Field(ALLOW_SHARED, "int (*{})(sim_place, size_t dynamic_shared)")
    ]
    """Whether a block may have so much dynamic shared memory beside the kernel's static one."""
    occupancy: Annotated[
        _Function, Field(OCCUPANCY, "int (*{})(sim_place, const sim_launch *, int *blocks)")
    ]
    """How many blocks of so many threads a multiprocessor holds."""
    unsupported: Annotated[_Function, Field(NOTE, "void (*{})(const char *what)")]
    """The submission has asked for something that is not here."""
    library: Annotated[_Function, Field(NOTE, "void (*{})(const char *function)")]
    """The submission has called a function of a library that would do its work."""


@structure("sim_device")
class DeviceEntry(Structure):
    """What the runtime tells of the device."""

    name: Annotated[bytes, characters(64)]
    major: Int
    minor: Int
    multiprocessors: Int
    l2_bytes: Int
    total_memory: Size
    shared_per_block: Size
    shared_per_block_optin: Size
    shared_per_multiprocessor: Size
