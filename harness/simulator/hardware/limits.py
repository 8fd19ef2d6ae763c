"""The checks that CUDA makes before it launches a kernel, and the attributes of kernels.

The errors are those of CUDA 13. Its launches return "invalid argument" where older versions
returned "invalid configuration argument".

Only ptxas knows the registers of a kernel and the exact size of its static shared memory. ptxas is
slow, so it runs only if these figures can change the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.geometry import Extent
from harness.simulator.hardware.properties import DEVICE, MAX_BLOCK, MAX_GRID
from harness.simulator.hardware.resources import (
    Occupancy,
    Resources,
    max_threads_by_registers,
    occupancy,
)
from harness.simulator.ptx.ptx import Function

_THREADS_OF_ANY_KERNEL = 256
"""A block of so many threads always has enough registers: no thread has more than 255."""


class RefusedLaunch(ValueError):
    """CUDA would refuse this launch, or this setting of cudaFuncSetAttribute.

    Attributes:
        error: The error code that the CUDA call returns.
    """

    def __init__(self, error: CudaError, why: str) -> None:
        super().__init__(why)
        self.error = error


STACK_BYTES = 1024
"""Size in bytes of a thread's stack if the program does not set cudaLimitStackSize."""


@dataclass(frozen=True)
class LaunchBounds:
    """The limits on a block that `__launch_bounds__` and `__block_size__` set for a kernel.

    Attributes:
        max_threads: The most threads of a block.
        required: The only block size (x, y, z) that is allowed, or None for any.
    """

    max_threads: int = MAX_BLOCK[0]
    required: Extent | None = None

    @classmethod
    def of(cls, kernel: Function) -> LaunchBounds:
        """Return the limits on a block from a kernel's PTX directives `.maxntid` and `.reqntid`."""
        bounds = cls()
        for directive in kernel.directives:
            numbers = [int(word) for word in re.findall(r"\b\d+\b", directive)]
            extent = (*numbers, 1, 1)[:3]
            if directive.startswith(".maxntid"):
                bounds = cls(min(prod(extent), bounds.max_threads), bounds.required)
            elif directive.startswith(".reqntid"):
                bounds = cls(bounds.max_threads, (extent[0], extent[1], extent[2]))
        return bounds


@dataclass(frozen=True)
class LaunchLimits:
    """The figures of one kernel that decide whether CUDA accepts a launch of the kernel.

    Attributes:
        name: The kernel's readable name.
        bounds: The limits on a block in the kernel's PTX directives.
        resources: Function that runs ptxas and returns the kernel's resource usage; the first call
            is slow.
        shared_at_most: Function that returns an upper bound of the bytes of static shared memory,
            without running ptxas.
    """

    name: str
    bounds: LaunchBounds
    resources: Callable[[], Resources]
    shared_at_most: Callable[[], int]


@dataclass(frozen=True)
class LaunchRequest:
    """The parameters of a launch.

    Attributes:
        grid: Blocks of the grid along x, y and z.
        block: Threads of a block along x, y and z.
        dynamic_shared_bytes: Dynamic shared memory of a block, in bytes.
        dynamic_shared_limit: The limit of dynamic shared memory in bytes that cudaFuncSetAttribute
            has set, or None.
        is_cooperative: True for a cooperative launch.
        cluster: Blocks of a cluster along x, y and z; (0, 0, 0) if the launch does not set it.
        overlaps: True if the kernel may start before the previous kernel of its stream has ended.
        stack_bytes: Size of a thread's stack, in bytes, which limits recursion.
    """

    grid: Extent
    block: Extent
    dynamic_shared_bytes: int
    dynamic_shared_limit: int | None
    is_cooperative: bool
    cluster: Extent = (0, 0, 0)
    overlaps: bool = False
    stack_bytes: int = STACK_BYTES

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return prod(self.block)


def check_launch(limits: LaunchLimits, launch: LaunchRequest) -> None:
    """Check that CUDA would accept a launch.

    Raises:
        RefusedLaunch: CUDA would refuse the launch.
    """
    _check_extents(limits.name, launch)
    _check_bounds(limits, launch)
    if not _shared_memory_fits(limits, launch):
        raise RefusedLaunch(CudaError.INVALID_VALUE, _shared_memory(limits, launch))
    if launch.threads > _THREADS_OF_ANY_KERNEL and not blocks_that_fit(limits, launch):
        registers = limits.resources().registers
        raise RefusedLaunch(
            CudaError.LAUNCH_OUT_OF_RESOURCES,
            f"{limits.name}: a block of {launch.threads} threads with {registers} "
            f"registers each, more than the {DEVICE.regs_per_multiprocessor} registers of "
            "a multiprocessor",
        )
    if launch.is_cooperative:
        _check_residency(limits, launch)


def blocks_that_fit(limits: LaunchLimits, launch: LaunchRequest) -> int:
    """Return how many of the launch's blocks can be resident on a multiprocessor."""
    if launch.threads > MAX_BLOCK[0] or not _shared_memory_fits(limits, launch):
        return 0
    resources = limits.resources()
    return _occupancy(resources, launch).blocks


def check_shared_memory(limits: LaunchLimits, dynamic_bytes: int) -> None:
    """Check that cudaFuncSetAttribute may allow a kernel `dynamic_bytes` of dynamic shared memory.

    Raises:
        RefusedLaunch: Static and dynamic shared memory together exceed the device's limit.
    """
    most = DEVICE.shared_memory_per_block_optin
    if dynamic_bytes + limits.shared_at_most() <= most:
        return
    static = limits.resources().shared_bytes
    if dynamic_bytes + static > most:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: {static} + {dynamic_bytes} bytes of shared memory, more than "
            f"the {most} that are allowed",
        )


def max_threads(limits: LaunchLimits) -> int:
    """Return the most threads that a block of the kernel can have.

    cudaFuncGetAttributes reports this number as maxThreadsPerBlock.
    """
    registers = limits.resources().registers
    return min(limits.bounds.max_threads, max_threads_by_registers(registers))


def _check_extents(name: str, launch: LaunchRequest) -> None:
    """Check the sizes of grid and block against the device's limits."""
    for what, extent, most in (("grid", launch.grid, MAX_GRID), ("block", launch.block, MAX_BLOCK)):
        if min(extent) < 1 or any(n > limit for n, limit in zip(extent, most, strict=True)):
            raise RefusedLaunch(
                CudaError.INVALID_VALUE,
                f"{name}: a {what} of {_times(extent)}; allowed are 1 to {_times(most)}",
            )
    if launch.threads > MAX_BLOCK[0]:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{name}: {launch.threads} threads in a block; at most {MAX_BLOCK[0]} are allowed",
        )


def _check_bounds(limits: LaunchLimits, launch: LaunchRequest) -> None:
    """Check the block's size against the kernel's `__launch_bounds__` and `__block_size__`."""
    bounds = limits.bounds
    if bounds.required and launch.block != bounds.required:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: a block of {_times(launch.block)}, but it is compiled only "
            f"for blocks of {_times(bounds.required)}",
        )
    if launch.threads > bounds.max_threads:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: {launch.threads} threads in a block, but its "
            f"__launch_bounds__ allow {bounds.max_threads}",
        )


def _shared_memory_fits(limits: LaunchLimits, launch: LaunchRequest) -> bool:
    """Return whether the shared memory of a block is within the limit for the launch.

    If cudaFuncSetAttribute has set a limit, only dynamic shared memory is compared with it.
    Otherwise, static and dynamic shared memory together are compared with the device's limit. ptxas
    runs only if the upper bound of static shared memory does not fit.
    """
    asked = launch.dynamic_shared_bytes
    if launch.dynamic_shared_limit is not None:
        return asked <= launch.dynamic_shared_limit
    most = DEVICE.shared_memory_per_block
    if not asked or asked + limits.shared_at_most() <= most:
        return True
    return asked + limits.resources().shared_bytes <= most


def _shared_memory(limits: LaunchLimits, launch: LaunchRequest) -> str:
    """Return the error message for a launch that needs too much shared memory."""
    asked = launch.dynamic_shared_bytes
    if launch.dynamic_shared_limit is not None:
        return (
            f"{limits.name}: {asked} bytes of dynamic shared memory, but "
            f"cudaFuncSetAttribute has allowed {launch.dynamic_shared_limit}"
        )
    return (
        f"{limits.name}: {asked} bytes of dynamic shared memory and "
        f"{limits.resources().shared_bytes} of static, more than "
        f"{DEVICE.shared_memory_per_block}; allow more with "
        "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)"
    )


def _check_residency(limits: LaunchLimits, launch: LaunchRequest) -> None:
    """Check that all blocks of a cooperative launch can be resident at the same time."""
    blocks = prod(launch.grid)
    if blocks <= DEVICE.multi_processor_count and launch.threads <= _THREADS_OF_ANY_KERNEL:
        return
    resident = DEVICE.multi_processor_count * blocks_that_fit(limits, launch)
    if blocks > resident:
        raise RefusedLaunch(
            CudaError.COOPERATIVE_LAUNCH_TOO_LARGE,
            f"{limits.name}: {blocks} blocks in a cooperative launch, but the device "
            f"holds only {resident} at a time",
        )


def _occupancy(resources: Resources, launch: LaunchRequest) -> Occupancy:
    shared = resources.shared_bytes + launch.dynamic_shared_bytes
    return occupancy(resources.registers, shared, launch.threads, DEVICE.architecture)


def _times(extent: Extent) -> str:
    return " x ".join(map(str, extent))
