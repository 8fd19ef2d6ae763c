"""The protocols of an executor, a device that runs kernels on its memory.

There are two executors: the simulator (`simulated.py`) and a GPU (`on_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from harness.device.place import Place
from harness.device.streams import RealStreams
from harness.finding import Finding
from harness.simulator.counters.counters import KernelCounters
from harness.simulator.execution.chosen import AtRandom, Near
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.memory import Allocation
from harness.simulator.hardware.properties import DeviceProperties
from harness.simulator.hardware.resources import Resources
from harness.simulator.ptx.fatbinary import DeviceCode

WRITTEN = 1
"""Shadow of a byte that something other than a kernel wrote."""

OTHER, KERNEL = 1, 2
"""Writers of an element, besides `UNWRITTEN`: a kernel, or something other than a kernel."""


class NoSuchKernel(KeyError):
    """A kernel or a module that does not exist."""


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
    """Access to ptxas, which only the trusted side has.

    Attributes:
        usage: Returns the resources of a module's kernels, by mangled name. The mapping is empty if
            ptxas refuses the module.
        cubin: Returns a module as machine code; empty if ptxas refuses the module.
    """

    usage: Callable[[DeviceCode], Mapping[str, Resources]]
    cubin: Callable[[DeviceCode], bytes]


class DeviceMemory(Protocol):
    """Allocations in one range of addresses, with a record of who wrote their content.

    Methods that take bytes raise `harness.simulator.hardware.memory.NotAnAllocation` if the bytes
    are not within one live allocation.

    Attributes:
        base: First address of the range.
        size: Size of the range in bytes.
        torch_device: Device of torch whose kernels execute torch's operators on this memory.
    """

    base: int
    size: int
    torch_device: torch.device

    @property
    def limit(self) -> int:
        """Limit of the bytes that are allocated at a time."""

    @property
    def live_bytes(self) -> int:
        """Bytes that are allocated and not freed."""

    @property
    def peak_bytes(self) -> int:
        """Most bytes that were allocated at a time since the last `forget_peak`."""

    def forget_peak(self) -> None:
        """Restart the peak at the bytes that are allocated now."""

    def be_sparse(self, is_sparse: bool) -> None:
        """Choose whether later allocations have memory only where something touches them."""

    def leaks(self) -> list[Allocation]:
        """Return the allocations that host code made with cudaMalloc and has not freed."""

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """Allocate bytes that are poisoned and count as unwritten, and return their address.

        Args:
            nbytes: Size in bytes.
            owned: Whether host code requested the memory and must free it.

        Raises:
            harness.simulator.hardware.memory.OutOfDeviceMemory: Too little memory is left.
        """

    def free(self, address: int) -> None:
        """Free an allocation."""

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that contains the address, or None."""

    def require(self, address: int, nbytes: int) -> None:
        """Raise `NotAnAllocation` unless the bytes are within one live allocation."""

    def read(self, address: int, nbytes: int) -> bytes:
        """Return a copy of bytes, written or not."""

    def write(self, address: int, data: bytes) -> None:
        """Copy host bytes to the device; they count as written from now on."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes within the memory, and with them the record of who wrote them."""

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Set all bytes to `value`; they count as written from now on."""

    def was_written(self, address: int, nbytes: int) -> bool:
        """Return whether any of these bytes was written since the allocation."""

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """Return a tensor over the bytes themselves: uint8, on `torch_device`."""

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Enclose code that queues a call's work on `torch_device`.

        Args:
            waits: Whether the host waits for the device in that code.
        """

    def uncounted(self) -> AbstractContextManager[None]:
        """Enclose code that queues work on `torch_device` whose time is not the call's."""

    def give(self, place: Place) -> None:
        """Record that the trusted side wrote a tensor."""

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Record that an operator wrote a tensor.

        Args:
            place: The tensor's place.
            of_kernels: Whether a kernel had written any of the operator's arguments. The tensor
                then counts as a kernel's, too.
        """

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Record that a tensor was copied, so that the copy has the source's writers.

        Args:
            target: Place of the copy.
            source: Place of what was copied; None for a tensor of the host.
            shape: The source's shape, which the copy may have broadcast.
        """

    def is_of_kernels(self, place: Place) -> bool:
        """Return whether a kernel has written any of a tensor."""

    def writers(self, place: Place) -> Tensor:
        """Return who wrote each element: uint8, on `torch_device`, of the tensor's shape.

        - `UNWRITTEN`: nothing wrote some byte of the element.
        - `KERNEL`: kernels wrote all of the element, or of the values that it was made from.
        - `OTHER`: anything else.
        """


class Device(Protocol):
    """Loaded modules and launches of their kernels, on one memory.

    Attributes:
        properties: The device's properties, as CUDA reports them.
    """

    properties: DeviceProperties

    @property
    def broken_by(self) -> str:
        """Text of the CUDA error that no later call recovers from; empty if there is none."""

    @property
    def spent(self) -> int:
        """Work that the current call has taken from its budget."""

    def observe(self) -> tuple[Finding, ...]:
        """Return the findings since the last call.

        Raises:
            BaseException: An error stopped the device in a launch, such as an instruction that the
                simulator lacks. The launch itself could only return a CUDA error to its caller.
        """

    def reorder(self, schedule: int | None) -> None:
        """Run blocks and warps in another order from now on, if the device can choose it.

        Args:
            schedule: The order; None for the one that the device was made with.
        """

    def allow(self, work: int | None) -> None:
        """Limit the work of the next call; None for no limit."""

    @property
    def share_of_blocks(self) -> float:
        """Share of the blocks of a launch that have run; 1 unless `work_near` chooses some."""

    def work_near(self, near: Near | AtRandom | None) -> None:
        """Run only those blocks of later launches that are chosen so; None for all blocks."""

    def start_counting(self) -> None:
        """Start to count what kernels do."""

    def counted(self) -> dict[str, KernelCounters]:
        """End the counting, and return the sums over each kernel's launches, by mangled name."""

    def start_timing(self) -> None:
        """Start to time the device's work, from an idle device with a cold cache."""

    def timed(self) -> float:
        """End the timing, and return the milliseconds that the device worked.

        The result is 0 if nothing was timed.
        """

    def resources(self) -> dict[str, Resources]:
        """Return the resources that ptxas gives the kernels of all modules, by mangled name."""

    def lines(self, file: str) -> Lines:
        """Return which lines of the source files with that name have run so far."""

    def close(self) -> None:
        """End the processes that work for this one."""

    def load(self, image: bytes) -> int:
        """Load a fat binary, and return the module's number; numbers start at 1."""

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """Return the size in bytes of each of a kernel's parameters; may raise `NoSuchKernel`."""

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Raise the error of a launch that can be refused before it runs."""

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel.

        Args:
            module: The module's number.
            name: The kernel's mangled name.
            launch: Its grid, block and shared memory.
            arguments: The bytes of its arguments, one after the other.

        Raises:
            Exception: The kernel cannot be launched, or did not run to its end.
        """

    def symbol(self, module: int, name: str) -> int:
        """Return the device address of a variable, or 0 for none; may raise `NoSuchKernel`."""

    def describe(self, module: int, name: str) -> KernelFacts:
        """Return a kernel's attributes, as cudaFuncGetAttributes does."""

    def allow_shared(self, module: int, name: str, dynamic_bytes: int) -> None:
        """Allow a kernel that much dynamic shared memory, as cudaFuncSetAttribute does."""

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """Return how many of a launch's blocks one multiprocessor can hold."""

    def unsupported(self, what: str) -> None:
        """Store the name of something that the device lacks, for `observe` to raise."""

    def library(self, function: str) -> None:
        """Store a call of a library, which would do the work, for `observe` to raise."""

    def refused(self, error: BaseException) -> tuple[int, str]:
        """Return the cudaError_t for a call that raised `error`, and the reason in words."""


class Exchange(Protocol):
    """Memory that the trusted side shares with a device, for large tensors."""

    def at(self, handle: str, placed: list[dict[str, Any]]) -> tuple[Tensor, ...]:
        """Return the tensors that the trusted side has put there."""

    def put(self, handle: str, tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
        """Copy tensors there, and return where they are; the trusted side has made room."""


@dataclass(frozen=True)
class Executor:
    """A device and its memory.

    Attributes:
        memory: The memory.
        device: The device.
        exchange: Shared memory for large tensors; None if all tensors travel in messages.
        streams: A GPU's streams; None for a device on which nothing runs side by side.
    """

    memory: DeviceMemory
    device: Device
    exchange: Exchange | None = None
    streams: RealStreams | None = None
