"""Structures of launches, kernels and the device, which the worker's CUDA runtime uses."""

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
    """The configuration of a kernel launch.

    Attributes:
        grid: Blocks of the grid along x, y and z.
        block: Threads of a block along x, y and z.
        dynamic_shared: Dynamic shared memory of a block, in bytes.
        dynamic_shared_limit: The limit of `dynamic_shared` that cudaFuncSetAttribute has set for
            the kernel, or -1.
        stack_bytes: Size of a thread's stack (cudaLimitStackSize), in bytes.
        is_cooperative: 1 for a cooperative launch.
        overlaps: 1 if the kernel may start before the previous kernel of its stream has ended
            (programmatic dependent launch).
        cluster: Blocks of a cluster along x, y and z; zeros if the launch does not set it.
    """

    grid: _Extent
    block: _Extent
    dynamic_shared: Size
    dynamic_shared_limit: Long
    stack_bytes: Size
    is_cooperative: Int
    overlaps: Int
    cluster: _Extent


@structure("sim_kernel")
class KernelEntry(Structure):
    """The attributes of a kernel, which cudaFuncGetAttributes returns.

    Attributes:
        registers: Number of registers of a thread.
        max_threads: The most threads that a block of the kernel may have.
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
    """The properties of the simulated device, as in `cudaDeviceProp`.

    Attributes:
        name: Name of the device.
        major: Major number of the compute capability.
        minor: Minor number of the compute capability.
        multiprocessors: Number of multiprocessors.
        l2_bytes: Size of the L2 cache in bytes.
        total_memory: Size of global memory in bytes.
        shared_per_block: Most shared memory of a block without cudaFuncSetAttribute, in bytes.
        shared_per_block_optin: Most shared memory of a block with cudaFuncSetAttribute, in bytes.
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
