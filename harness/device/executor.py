"""Protocols of an executor: a device that runs kernels, together with its memory.

Two executors exist: the simulator (`simulated.py`) and a GPU (`on_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from harness.device.place import Place
from harness.device.streams import RealStreams
from harness.finding import Finding
from harness.gpu.window import Placed
from harness.simulator.counters.counters import KernelCounters
from harness.simulator.execution.chosen import AtRandom, Near
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.memory import Allocation
from harness.simulator.hardware.properties import DeviceProperties
from harness.simulator.hardware.resources import Resources
from harness.simulator.ptx.fatbinary import DeviceCode

WRITTEN = 1
"""Value of a shadow byte whose byte of memory something other than a kernel wrote."""

OTHER, KERNEL = 1, 2
"""Codes for the writer of an element, besides `UNWRITTEN`: not a kernel, or a kernel."""


class NoSuchKernel(KeyError):
    """A call names a kernel or a module that does not exist."""


@dataclass(frozen=True)
class KernelFacts:
    """A kernel's attributes as cudaFuncGetAttributes returns them.

    The fields are those of `layout.runtime.KernelEntry`. Sizes are in bytes.
    """

    registers: int
    max_threads: int
    ptx_version: int
    static_shared: int
    local_bytes: int
    const_bytes: int


@dataclass(frozen=True)
class Assembler:
    """Functions that run ptxas, which only the supervisor can start.

    Attributes:
        usage: Function that returns the resources of a module's kernels, by mangled name. The
            mapping is empty if ptxas refuses the module.
        cubin: Function that returns a module's machine code; empty if ptxas refuses the module.
    """

    usage: Callable[[DeviceCode], Mapping[str, Resources]]
    cubin: Callable[[DeviceCode], bytes]


class DeviceMemory(Protocol):
    """A device's memory: its allocations, and a record of what wrote their content.

    Methods that access a range of bytes raise `harness.simulator.hardware.memory.NotAnAllocation`
    if it is not within one live allocation.

    Attributes:
        base: First address of the range of addresses from which memory is allocated.
        size: Size of the range of addresses in bytes.
        torch_device: The torch device, CPU or GPU, whose kernels run torch's operators on this
            memory.
    """

    base: int
    size: int
    torch_device: torch.device

    @property
    def limit(self) -> int:
        """Largest number of bytes that may be allocated at the same time."""

    @property
    def live_bytes(self) -> int:
        """Number of bytes that are allocated and not freed."""

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes allocated at the same time since the last `forget_peak`."""

    def forget_peak(self) -> None:
        """Reset `peak_bytes` to the number of bytes that are allocated now."""

    def be_sparse(self, is_sparse: bool) -> None:
        """Choose whether later allocations occupy real memory only where they are accessed."""

    def leaks(self) -> list[Allocation]:
        """Return the allocations that host code made with cudaMalloc and has not freed."""

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """Allocate unwritten memory that holds a poison pattern, and return its address.

        Args:
            nbytes: Size in bytes.
            owned: Whether the submission's host code requested the memory and must free it.

        Raises:
            harness.simulator.hardware.memory.OutOfDeviceMemory: Too little memory is left.
        """

    def free(self, address: int) -> None:
        """Free the allocation that starts at an address."""

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that contains the address, or None if no allocation does.

        The simulator also finds allocations that were freed.
        """

    def require(self, address: int, nbytes: int) -> None:
        """Raise `NotAnAllocation` unless the range of bytes is within one live allocation."""

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of `nbytes` bytes at an address, whether they were written or not."""

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes of the host to an address; they count as written from now on."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes within the memory, together with the record of what wrote them."""

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set `nbytes` bytes at an address to `value`; they count as written from now on."""

    def was_written(self, address: int, nbytes: int) -> bool:
        """Return whether any of `nbytes` bytes at an address was written since their allocation."""

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """Return bytes at an address as a uint8 tensor on `torch_device`, without a copy."""

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Return a context for code whose work on `torch_device` counts towards the measured time.

        Args:
            waits: Whether the host waits for the device inside the context.
        """

    def uncounted(self) -> AbstractContextManager[None]:
        """Return a context for code whose work does not count towards the measured time."""

    def give(self, place: Place) -> None:
        """Record that a tensor's values come from the supervisor, not from the submission."""

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Record that one of torch's operators wrote a tensor.

        Args:
            place: Address and layout of the tensor.
            of_kernels: Whether a kernel wrote any of the operator's arguments. The tensor then
                counts as written by a kernel, too.
        """

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Record that a tensor was copied: the copy gets the recorded writers of the source.

        Args:
            target: Address and layout of the copy.
            source: Address and layout of the source; None for a tensor of the host.
            shape: The source's shape, which the copy may have broadcast.
        """

    def is_of_kernels(self, place: Place) -> bool:
        """Return whether a kernel has written any part of a tensor."""

    def writers(self, place: Place) -> Tensor:
        """Return codes for the writers of a tensor's elements: uint8, on `torch_device`.

        The result has the tensor's shape.

        - `UNWRITTEN`: at least one byte of the element was never written.
        - `KERNEL`: kernels wrote the whole element, or an operator made it from kernels' results.
        - `OTHER`: any other case, such as a copy from the host.
        """


class Device(Protocol):
    """A device that loads modules and launches their kernels on one memory.

    Attributes:
        properties: The device's properties, as CUDA reports them.
    """

    properties: DeviceProperties

    @property
    def broken_by(self) -> str:
        """Text of the CUDA error after which every later call fails; empty if there was none."""

    @property
    def spent(self) -> int:
        """Work done so far in the current step, in thread-instructions; `allow` sets the limit."""

    def observe(self) -> tuple[Finding, ...]:
        """Return the findings of the device's checks, such as memcheck, since the last call.

        Raises:
            BaseException: An error stopped the device in a launch, such as an instruction that the
                simulator lacks. The caller of the launch got only a CUDA error.
        """

    def reorder(self, schedule: int | None) -> None:
        """Run blocks and warps in another order from now on, if the device can choose the order.

        Args:
            schedule: Number of the order; None for the order that the device was created with.
        """

    def allow(self, work: int | None) -> None:
        """Limit the work of the next step, such as one forward call; None removes the limit.

        The unit is thread-instructions, as in `budget.work_of`.
        """

    @property
    def share_of_blocks(self) -> float:
        """Fraction of the last launch's blocks that ran; 1 unless `work_near` selects blocks."""

    def work_near(self, near: Near | AtRandom | None) -> None:
        """Run only the blocks of later launches that `near` selects; None runs all blocks."""

    def start_counting(self) -> None:
        """Start to count the instructions and memory accesses of kernels."""

    def counted(self) -> dict[str, KernelCounters]:
        """Stop counting; return each kernel's counters, summed over launches, by mangled name."""

    def start_timing(self) -> None:
        """Empty the device's cache, wait for the device, and start to time its work."""

    def timed(self) -> float:
        """Stop timing, and return how many milliseconds the device worked.

        The result is 0 if nothing was timed.
        """

    def resources(self) -> dict[str, Resources]:
        """Return what ptxas reports about all kernels, such as registers, by mangled name."""

    def lines(self, file: str) -> Lines:
        """Return which lines of the source files named `file` have run on the device so far."""

    def close(self) -> None:
        """End the helper processes of this device."""

    def load(self, image: bytes) -> int:
        """Load a fat binary, and return the module's number; numbers start at 1."""

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """Return the size in bytes of each parameter of a kernel; may raise `NoSuchKernel`."""

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Raise an error if the device would refuse the launch before it runs."""

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel.

        Args:
            module: The module's number.
            name: The kernel's mangled name.
            launch: The grid, block and shared memory of the launch.
            arguments: The bytes of the kernel's arguments, one after the other.

        Raises:
            Exception: The kernel cannot be launched, or did not run to its end.
        """

    def symbol(self, module: int, name: str) -> int:
        """Return the address of a module's device variable, or 0 if it has none of that name.

        Raises:
            NoSuchKernel: The module does not exist.
        """

    def describe(self, module: int, name: str) -> KernelFacts:
        """Return a kernel's attributes, as cudaFuncGetAttributes does."""

    def allow_shared(self, module: int, name: str, dynamic_bytes: int) -> None:
        """Allow a kernel `dynamic_bytes` of dynamic shared memory, as cudaFuncSetAttribute does."""

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """Return how many of a launch's blocks one multiprocessor can hold."""

    def unsupported(self, what: str) -> None:
        """Store the name of a feature that the device lacks, for `observe` to raise."""

    def library(self, function: str) -> None:
        """Store the name of a library function that the submission called to do a kernel's work.

        The next `observe` raises a `LibraryCall` with this name.
        """

    def refused(self, error: BaseException) -> tuple[int, str]:
        """Return the cudaError_t for a call that raised `error`, and the reason in words.

        The reason is empty if the cudaError_t says enough.
        """


class Exchange(Protocol):
    """Memory that the supervisor shares with a device, to pass large tensors."""

    def at(self, handle: str, placed: Placed) -> tuple[Tensor, ...]:
        """Return the tensors that the supervisor has put into the shared memory.

        Args:
            handle: Handle by which the device opens the memory.
            placed: The tensors.
        """

    def put(self, handle: str, tensors: Sequence[Tensor]) -> Placed:
        """Copy tensors into the shared memory, and return where each of them is.

        The supervisor has made the memory large enough.
        """


@dataclass(frozen=True)
class Executor:
    """A device together with its memory.

    Attributes:
        memory: The memory in which the device's kernels work.
        device: The simulator or the GPU.
        exchange: Shared memory for large tensors; None if all tensors travel in messages.
        streams: A GPU's streams; None for the simulator, on which work never overlaps.
    """

    memory: DeviceMemory
    device: Device
    exchange: Exchange | None = None
    streams: RealStreams | None = None
