"""What CUDA checks before it launches a kernel, and what it tells about one.

The errors are those of CUDA 13, whose launches say "invalid argument" where older ones said
"invalid configuration argument".

Registers and the exact size of static shared memory are ptxas's to say, which takes its time: it is
asked only where the answer can matter.
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
"""A block of so many fits whatever its registers: no thread has more than 255."""


class RefusedLaunch(ValueError):
    """CUDA would refuse to do this.

    Attributes:
        error: what the call returns.
    """

    def __init__(self, error: CudaError, why: str) -> None:
        super().__init__(why)
        self.error = error


@dataclass(frozen=True)
class LaunchBounds:
    """What `__launch_bounds__` and `__block_size__` say of a block."""

    max_threads: int = MAX_BLOCK[0]
    required: Extent | None = None

    @classmethod
    def of(cls, kernel: Function) -> LaunchBounds:
        """Those of a kernel's directives."""
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
class Limits:
    """What limits the launches of one kernel.

    Attributes:
        name: Readable name.
        bounds: The kernel's own.
        resources: Asks ptxas.
        shared_at_most: Asks for a bound on the bytes of static shared memory, at little cost.
    """

    name: str
    bounds: LaunchBounds
    resources: Callable[[], Resources]
    shared_at_most: Callable[[], int]


@dataclass(frozen=True)
class LaunchRequest:
    """A launch as it is asked for.

    The limit is None where cudaFuncSetAttribute has set none; a cluster of (0, 0, 0) is none.
    """

    grid: Extent
    block: Extent
    dynamic_shared_bytes: int
    dynamic_shared_limit: int | None
    is_cooperative: bool
    cluster: Extent = (0, 0, 0)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.block)


def check_launch(limits: Limits, launch: LaunchRequest) -> None:
    """Let a launch pass that CUDA lets pass.

    Raises:
        RefusedLaunch: It does not.
    """
    _check_extents(limits.name, launch)
    _check_bounds(limits, launch)
    if not _shared_memory_fits(limits, launch):
        raise RefusedLaunch(CudaError.INVALID_VALUE, _shared_memory(limits, launch))
    if launch.threads > _THREADS_OF_ANY_KERNEL and not blocks_that_fit(limits, launch):
        registers = limits.resources().registers
        raise RefusedLaunch(
            CudaError.LAUNCH_OUT_OF_RESOURCES,
            f"{limits.name}: {launch.threads} threads of {registers} registers each in a block, "
            f"of {DEVICE.regs_per_multiprocessor} registers",
        )
    if launch.is_cooperative:
        _check_residency(limits, launch)


def blocks_that_fit(limits: Limits, launch: LaunchRequest) -> int:
    """How many of the launch's blocks a multiprocessor holds."""
    if launch.threads > MAX_BLOCK[0] or not _shared_memory_fits(limits, launch):
        return 0
    resources = limits.resources()
    return _occupancy(resources, launch).blocks


def check_shared_memory(limits: Limits, dynamic_bytes: int) -> None:
    """Whether cudaFuncSetAttribute may allow a kernel so much.

    Raises:
        RefusedLaunch: It is more than there is beside the static part.
    """
    most = DEVICE.shared_memory_per_block_optin
    if dynamic_bytes + limits.shared_at_most() <= most:
        return
    static = limits.resources().shared_bytes
    if dynamic_bytes + static > most:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: {static} + {dynamic_bytes} bytes of shared memory, of {most}",
        )


def max_threads(limits: Limits) -> int:
    """The largest block that can be launched, as cudaFuncGetAttributes tells it."""
    registers = limits.resources().registers
    return min(limits.bounds.max_threads, max_threads_by_registers(registers))


def _check_extents(name: str, launch: LaunchRequest) -> None:
    for what, extent, most in (("grid", launch.grid, MAX_GRID), ("block", launch.block, MAX_BLOCK)):
        if min(extent) < 1 or any(n > limit for n, limit in zip(extent, most, strict=True)):
            raise RefusedLaunch(
                CudaError.INVALID_VALUE,
                f"{name}: a {what} of {_times(extent)}, of 1 to {_times(most)}",
            )
    if launch.threads > MAX_BLOCK[0]:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{name}: {launch.threads} threads in a block, of at most {MAX_BLOCK[0]}",
        )


def _check_bounds(limits: Limits, launch: LaunchRequest) -> None:
    bounds = limits.bounds
    if bounds.required and launch.block != bounds.required:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: a block of {_times(launch.block)}, where it is compiled for "
            f"{_times(bounds.required)} alone",
        )
    if launch.threads > bounds.max_threads:
        raise RefusedLaunch(
            CudaError.INVALID_VALUE,
            f"{limits.name}: {launch.threads} threads in a block, where its __launch_bounds__ say "
            f"{bounds.max_threads}",
        )


def _shared_memory_fits(limits: Limits, launch: LaunchRequest) -> bool:
    asked = launch.dynamic_shared_bytes
    if launch.dynamic_shared_limit is not None:
        return asked <= launch.dynamic_shared_limit
    most = DEVICE.shared_memory_per_block
    if not asked or asked + limits.shared_at_most() <= most:
        return True
    return asked + limits.resources().shared_bytes <= most


def _shared_memory(limits: Limits, launch: LaunchRequest) -> str:
    asked = launch.dynamic_shared_bytes
    if launch.dynamic_shared_limit is not None:
        return (
            f"{limits.name}: {asked} bytes of dynamic shared memory, where cudaFuncSetAttribute "
            f"has allowed {launch.dynamic_shared_limit}"
        )
    return (
        f"{limits.name}: {asked} bytes of dynamic shared memory and "
        f"{limits.resources().shared_bytes} of static, of {DEVICE.shared_memory_per_block}; more "
        "needs cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)"
    )


def _check_residency(limits: Limits, launch: LaunchRequest) -> None:
    blocks = prod(launch.grid)
    if blocks <= DEVICE.multi_processor_count and launch.threads <= _THREADS_OF_ANY_KERNEL:
        return
    resident = DEVICE.multi_processor_count * blocks_that_fit(limits, launch)
    if blocks > resident:
        raise RefusedLaunch(
            CudaError.COOPERATIVE_LAUNCH_TOO_LARGE,
            f"{limits.name}: {blocks} blocks in a cooperative launch, of which the device holds "
            f"{resident} at a time",
        )


def _occupancy(resources: Resources, launch: LaunchRequest) -> Occupancy:
    shared = resources.shared_bytes + launch.dynamic_shared_bytes
    return occupancy(resources.registers, shared, launch.threads, DEVICE.architecture)


def _times(extent: Extent) -> str:
    return " x ".join(map(str, extent))
