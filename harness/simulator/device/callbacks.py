"""The questions that the CUDA runtime in cudart/ asks the machine, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from harness.simulator.hardware.geometry import Extent
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.layout.runtime import (
    ALLOW_SHARED,
    DESCRIBE,
    LAUNCH,
    NOTE,
    OCCUPANCY,
    SYMBOL,
    DeviceEntry,
    KernelEntry,
    LaunchEntry,
    MachineEntry,
    PlaceEntry,
)

Arguments = Any
"""A C array of pointers to the values of a kernel's arguments."""


@dataclass(frozen=True)
class Place:
    """A kernel or variable of a fat binary.

    Attributes:
        image: Address of the fat binary.
        module: Tells two loads of one image apart.
        name: Mangled.
    """

    image: int
    module: int
    name: str


@dataclass(frozen=True)
class KernelFacts:
    """What cudaFuncGetAttributes tells: the fields of `layout.runtime.KernelEntry`."""

    registers: int
    max_threads: int
    ptx_version: int
    static_shared: int
    local_bytes: int
    const_bytes: int


class Answers(Protocol):
    """What answers the questions; any exception may be raised."""

    def launch(self, place: Place, launch: LaunchRequest, arguments: Arguments) -> None:
        """Run a kernel."""

    def symbol(self, place: Place) -> int:
        """The device address of a variable, 0 for none."""

    def describe(self, place: Place) -> KernelFacts:
        """What cudaFuncGetAttributes tells of a kernel."""

    def allow_shared(self, place: Place, dynamic_bytes: int) -> None:
        """Raise where a kernel cannot have so much dynamic shared memory."""

    def occupancy(self, place: Place, launch: LaunchRequest) -> int:
        """How many of a launch's blocks a multiprocessor holds."""

    def unsupported(self, what: str) -> None:
        """Note what the simulator does not have."""

    def library(self, function: str) -> None:
        """Note that a library was called, which would do the work."""


def _place(entry: PlaceEntry) -> Place:
    return Place(entry.image or 0, entry.module or 0, entry.name.decode())


def _request(entry: LaunchEntry) -> LaunchRequest:
    limit = entry.dynamic_shared_limit
    return LaunchRequest(
        _extent(entry.grid),
        _extent(entry.block),
        entry.dynamic_shared,
        None if limit < 0 else limit,
        bool(entry.is_cooperative),
    )


def _extent(numbers: ctypes.Array[ctypes.c_uint]) -> Extent:
    x, y, z = numbers
    return x, y, z


def connect(
    runtime: ctypes.CDLL, answers: Answers, error_of: Callable[[BaseException], int]
) -> object:
    """Have a runtime library ask `answers`.

    Args:
        runtime: The library.
        answers: What answers.
        error_of: The cudaError_t that a call returns where the answer is an exception.

    Returns:
        What must live as long as the library is used.
    """

    def guarded(ask: Callable[[], None]) -> int:
        runtime.sim_arena_open()
        try:
            ask()
        except BaseException as error:  # an exception cannot cross the C code that called us
            return error_of(error)
        finally:
            runtime.sim_arena_shut()
        return 0

    def launch(place: PlaceEntry, launch: Any, arguments: Arguments) -> int:
        return guarded(lambda: answers.launch(_place(place), _request(launch.contents), arguments))

    def symbol(place: PlaceEntry) -> int:
        found = []
        guarded(lambda: found.append(answers.symbol(_place(place))))
        return found[0] if found else 0

    def describe(place: PlaceEntry, target: Any) -> int:
        def fill() -> None:
            facts = answers.describe(_place(place))
            for name in KernelEntry.fields:
                setattr(target.contents, name, getattr(facts, name))

        return guarded(fill)

    def allow_shared(place: PlaceEntry, dynamic_bytes: int) -> int:
        return guarded(lambda: answers.allow_shared(_place(place), dynamic_bytes))

    def occupancy(place: PlaceEntry, launch: Any, blocks: Any) -> int:
        def fill() -> None:
            blocks[0] = answers.occupancy(_place(place), _request(launch.contents))

        return guarded(fill)

    def unsupported(what: bytes) -> None:
        answers.unsupported(what.decode())

    def library(function: bytes) -> None:
        answers.library(function.decode())

    machine = MachineEntry(
        LAUNCH(launch),
        SYMBOL(symbol),
        DESCRIBE(describe),
        ALLOW_SHARED(allow_shared),
        OCCUPANCY(occupancy),
        NOTE(unsupported),
        NOTE(library),
    )
    runtime.sim_connect(ctypes.byref(machine))
    runtime.sim_set_device(ctypes.byref(_describe_device()))
    return machine


def _describe_device() -> DeviceEntry:
    return DeviceEntry(
        name=DEVICE.name.encode(),
        major=DEVICE.major,
        minor=DEVICE.minor,
        multiprocessors=DEVICE.multi_processor_count,
        l2_bytes=DEVICE.L2_cache_size,
        total_memory=DEVICE.total_memory,
        shared_per_block=DEVICE.shared_memory_per_block,
        shared_per_block_optin=DEVICE.shared_memory_per_block_optin,
        shared_per_multiprocessor=DEVICE.shared_memory_per_multiprocessor,
    )
