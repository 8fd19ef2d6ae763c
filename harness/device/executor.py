"""What runs kernels on what memory: the protocol of which the simulator and a GPU are one each."""

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
from harness.simulator.execution.chosen import Near
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.memory import Allocation
from harness.simulator.hardware.properties import DeviceProperties
from harness.simulator.hardware.resources import Resources
from harness.simulator.ptx.fatbinary import DeviceCode

WRITTEN = 1
"""What the shadow has of bytes that something else than a kernel wrote."""

OTHER, KERNEL = 1, 2
"""Who wrote an element, where it is not `UNWRITTEN`."""


class NoSuchKernel(KeyError):
    """A module has no kernel of that name, or there is no such module."""


@dataclass(frozen=True)
class KernelFacts:
    """What cudaFuncGetAttributes tells: the fields of `layout.runtime.KernelEntry`."""

    registers: int
    max_threads: int
    ptx_version: int
    static_shared: int
    local_bytes: int
    const_bytes: int


@dataclass(frozen=True)
class Assembler:
    """What a device asks the trusted side for, which has ptxas.

    Attributes:
        usage: What the kernels of a module take, by mangled name; none of what ptxas refuses.
        cubin: The module as machine code; empty where ptxas refuses it.
    """

    usage: Callable[[DeviceCode], Mapping[str, Resources]]
    cubin: Callable[[DeviceCode], bytes]


class DeviceMemory(Protocol):
    """Allocations in one range of addresses, and who wrote what is in them.

    Calls about bytes that are not within one live allocation raise
    `harness.simulator.hardware.memory.NotAnAllocation`.
    """

    base: int
    size: int
    torch_device: torch.device
    """Whose kernels torch's operators are."""

    @property
    def limit(self) -> int:
        """Most bytes that may be allocated at a time."""

    @property
    def live_bytes(self) -> int:
        """Bytes allocated and not freed."""

    @property
    def peak_bytes(self) -> int:
        """The most that were allocated at a time."""

    def forget_peak(self) -> None:
        """Begin a new peak, with what is allocated now."""

    def be_sparse(self, is_sparse: bool) -> None:
        """Let what is allocated from now on be there only where something touches it, or not."""

    def leaks(self) -> list[Allocation]:
        """What host code asked for with cudaMalloc and has not freed."""

    def allocate(self, nbytes: int, *, owned: bool = False) -> int:
        """The address of fresh bytes, poisoned and not yet written.

        Raises:
            harness.simulator.hardware.memory.OutOfDeviceMemory: there are not so many.
        """

    def free(self, address: int) -> None:
        """Give an allocation back."""

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds the address."""

    def require(self, address: int, nbytes: int) -> None:
        """Nothing, where the bytes are within one live allocation."""

    def read(self, address: int, nbytes: int) -> bytes:
        """A copy of bytes, written or not."""

    def write(self, address: int, data: bytes) -> None:
        """Copy host bytes to the device; they count as written from now on."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes within the memory; they are as written as they were."""

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Make all bytes `value`; they count as written from now on."""

    def was_written(self, address: int, nbytes: int) -> bool:
        """Whether anything has written any of these bytes since they were allocated."""

    def bytes_at(self, address: int, nbytes: int) -> Tensor:
        """The bytes themselves, uint8, on `torch_device`."""

    def queueing(self, *, waits: bool = False) -> AbstractContextManager[None]:
        """Around work of a call on `torch_device`; `waits` where the host waits for the device."""

    def uncounted(self) -> AbstractContextManager[None]:
        """Around work on `torch_device` whose time is not the call's."""

    def give(self, place: Place) -> None:
        """Let a tensor count as written by the trusted side."""

    def mark(self, place: Place, *, of_kernels: bool) -> None:
        """Let a tensor count as written by an operator, of what kernels have written or not."""

    def mark_copy(self, target: Place, source: Place | None, shape: tuple[int, ...]) -> None:
        """Let a tensor be as written as what was copied to it: of that shape, None for the host."""

    def is_of_kernels(self, place: Place) -> bool:
        """Whether a kernel has written any of it."""

    def writers(self, place: Place) -> Tensor:
        """Who wrote each element: uint8, on `torch_device`, of the tensor's shape.

        `UNWRITTEN`, where nobody wrote some byte, `KERNEL`, where kernels wrote all of it or what
        it was made of, else `OTHER`.
        """


class Device(Protocol):
    """Kernels of loaded modules on one memory."""

    properties: DeviceProperties

    @property
    def broken_by(self) -> str:
        """The error, in CUDA's words, that no call recovers from; empty while there is none."""

    @property
    def spent(self) -> int:
        """What the call has taken of its budget."""

    def observe(self) -> tuple[Finding, ...]:
        """What was found on the device since the last call.

        Raises:
            BaseException: what stopped the machine in a launch, such as an instruction that it has
                not got; the launch itself could only return a CUDA error to its caller.
        """

    def reorder(self, schedule: int | None) -> None:
        """Run blocks and warps in another order from now on, where that can be had.

        None stands for the order that it was made with.
        """

    def allow(self, work: int | None) -> None:
        """Let the next call do so much work; None for any."""

    @property
    def has_left_out_blocks(self) -> bool:
        """Whether some have not run since it was last told where to work."""

    def work_near(self, near: Near | None) -> None:
        """Run of each launch the blocks that may work there, from now on; None for all."""

    def start_counting(self) -> None:
        """Count what kernels do from now on."""

    def counted(self) -> dict[str, KernelCounters]:
        """Each kernel's launches since the counting started, by mangled name; ends the counting."""

    def start_timing(self) -> None:
        """Take the time of what is done from now on, from an idle device with a cold cache."""

    def timed(self) -> float:
        """Milliseconds that the device worked since the timing started; ends the timing.

        0 where nothing was timed.
        """

    def resources(self) -> dict[str, Resources]:
        """What ptxas says of the kernels of all modules that were loaded, by mangled name."""

    def lines(self, file: str) -> Lines:
        """Which lines of the source files of that name have run so far."""

    def close(self) -> None:
        """End what runs beside this process."""

    def load(self, image: bytes) -> int:
        """Take a fat binary in; answers the module's number, from 1."""

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """How many bytes each of a kernel's parameters has; may raise `NoSuchKernel`."""

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Raise what a launch would be refused for, so far as that is known before it runs."""

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel on the bytes of its arguments, one after the other.

        Raises:
            Exception: it cannot be launched, or did not come to its end.
        """

    def symbol(self, module: int, name: str) -> int:
        """The device address of a variable, 0 for none; may raise `NoSuchKernel`."""

    def describe(self, module: int, name: str) -> KernelFacts:
        """What cudaFuncGetAttributes tells of a kernel."""

    def allow_shared(self, module: int, name: str, dynamic_bytes: int) -> None:
        """Allow a kernel dynamic shared memory, as cudaFuncSetAttribute does."""

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """How many of a launch's blocks a multiprocessor holds."""

    def unsupported(self, what: str) -> None:
        """Note what is not here, for `observe` to raise."""

    def library(self, function: str) -> None:
        """Note that a library was called, which would do the work, for `observe` to raise."""

    def refused(self, error: BaseException) -> tuple[int, str]:
        """The cudaError_t that a call returns which raised `error`, and why, in words."""


class Exchange(Protocol):
    """Memory that the trusted side has in common with a device, for large tensors."""

    def at(self, handle: str, placed: list[dict[str, Any]]) -> tuple[Tensor, ...]:
        """What the trusted side has put there."""

    def put(self, handle: str, tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
        """Put tensors there, for which there is room; answers where they are."""


@dataclass(frozen=True)
class Executor:
    """A device and its memory.

    Attributes:
        memory: The memory.
        device: The device.
        exchange: None where tensors come and go in messages.
        streams: Of a GPU; None where nothing runs side by side.
    """

    memory: DeviceMemory
    device: Device
    exchange: Exchange | None = None
    streams: RealStreams | None = None
