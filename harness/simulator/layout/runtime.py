"""Structures of launches, kernels and the device, as the CUDA runtime in cudart/ has them."""

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
    """How a kernel is launched."""

    grid: _Extent
    block: _Extent
    dynamic_shared: Size
    dynamic_shared_limit: Long
    """As cudaFuncSetAttribute has set it, else -1."""
    is_cooperative: Int
    cluster: _Extent
    """In blocks; of nothing where the launch does not say."""


@structure("sim_kernel")
class KernelEntry(Structure):
    """What cudaFuncGetAttributes tells; bytes of a block, of a thread and of the module."""

    registers: Int
    max_threads: Int
    ptx_version: Int
    static_shared: Size
    local_bytes: Size
    const_bytes: Size


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
