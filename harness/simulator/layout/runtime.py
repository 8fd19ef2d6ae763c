"""Structures of launches, kernels and the device, which the CUDA runtime in cudart/ uses."""

from __future__ import annotations

import ctypes
from typing import Annotated

from harness.simulator.layout.structure import (
    Field,
    Int,
    Long,
    Size,
    Structure,
    characters,
    structure,
)

_Extent = Annotated[ctypes.Array[ctypes.c_uint], Field(ctypes.c_uint * 3, "unsigned {}[3]")]


@structure("sim_launch")
class LaunchEntry(Structure):
    """The parameters of a launch.

    Attributes:
        grid: Blocks of the grid along x, y and z.
        block: Threads of a block along x, y and z.
        dynamic_shared: Dynamic shared memory of a block, in bytes.
        dynamic_shared_limit: The limit that cudaFuncSetAttribute has set, or -1.
        is_cooperative: 1 for a cooperative launch.
        cluster: Blocks of a cluster along x, y and z; zeros if the launch does not set it.
    """

    grid: _Extent
    block: _Extent
    dynamic_shared: Size
    dynamic_shared_limit: Long
    is_cooperative: Int
    cluster: _Extent


@structure("sim_kernel")
class KernelEntry(Structure):
    """The attributes of a kernel, which cudaFuncGetAttributes returns.

    Attributes:
        registers: Registers of a thread.
        max_threads: The most threads of a block.
        ptx_version: The PTX virtual architecture, such as 90.
        static_shared: Static shared memory of a block, in bytes.
        local_bytes: Local memory of a thread, in bytes.
        const_bytes: Constant memory of the module, in bytes.
    """

    registers: Int
    max_threads: Int
    ptx_version: Int
    static_shared: Size
    local_bytes: Size
    const_bytes: Size


@structure("sim_device")
class DeviceEntry(Structure):
    """The properties of the device, which the runtime returns.

    Attributes:
        name: The name of the device.
        major: Major number of the compute capability.
        minor: Minor number of the compute capability.
        multiprocessors: The number of multiprocessors.
        l2_bytes: L2 cache, in bytes.
        total_memory: Global memory, in bytes.
        shared_per_block: Shared memory of a block without cudaFuncSetAttribute, in bytes.
        shared_per_block_optin: Shared memory of a block with cudaFuncSetAttribute, in bytes.
        shared_per_multiprocessor: Shared memory of a multiprocessor, in bytes.
    """

    name: Annotated[bytes, characters(64)]
    major: Int
    minor: Int
    multiprocessors: Int
    l2_bytes: Int
    total_memory: Size
    shared_per_block: Size
    shared_per_block_optin: Size
    shared_per_multiprocessor: Size
