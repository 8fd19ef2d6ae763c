"""The questions that the CUDA runtime in cudart/ asks the machine, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.properties import DEVICE

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
    """`struct sim_kernel` of cudart.h."""

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


class _Place(ctypes.Structure):
    _fields_ = (
        ("image", ctypes.c_void_p),
        ("module", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    )

    def read(self) -> Place:
        return Place(self.image, self.module, self.name.decode())


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_shared", ctypes.c_size_t),
        ("dynamic_shared_limit", ctypes.c_long),
        ("is_cooperative", ctypes.c_int),
    )

    def read(self) -> LaunchRequest:
        limit = self.dynamic_shared_limit
        return LaunchRequest(
            tuple(self.grid),
            tuple(self.block),
            self.dynamic_shared,
            None if limit < 0 else limit,
            bool(self.is_cooperative),
        )


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("registers", ctypes.c_int),
        ("max_threads", ctypes.c_int),
        ("ptx_version", ctypes.c_int),
        ("static_shared", ctypes.c_size_t),
        ("local_bytes", ctypes.c_size_t),
        ("const_bytes", ctypes.c_size_t),
    )


_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, _Place, ctypes.POINTER(_Launch), ctypes.POINTER(ctypes.c_void_p)
)
_SYMBOL = ctypes.CFUNCTYPE(ctypes.c_size_t, _Place)
_DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int, _Place, ctypes.POINTER(_Kernel))
_ALLOW_SHARED = ctypes.CFUNCTYPE(ctypes.c_int, _Place, ctypes.c_size_t)
_OCCUPANCY = ctypes.CFUNCTYPE(
    ctypes.c_int, _Place, ctypes.POINTER(_Launch), ctypes.POINTER(ctypes.c_int)
)
_NOTE = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


class _Machine(ctypes.Structure):
    """`struct sim_machine` of cudart.h."""

    _fields_ = (
        ("launch", _LAUNCH),
        ("symbol", _SYMBOL),
        ("describe", _DESCRIBE),
        ("allow_shared", _ALLOW_SHARED),
        ("occupancy", _OCCUPANCY),
        ("unsupported", _NOTE),
        ("library", _NOTE),
    )


class _Device(ctypes.Structure):
    """`struct sim_device` of cudart.h."""

    _fields_ = (
        ("name", ctypes.c_char * 64),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("l2_bytes", ctypes.c_int),
        ("total_memory", ctypes.c_size_t),
        ("shared_per_block", ctypes.c_size_t),
        ("shared_per_block_optin", ctypes.c_size_t),
        ("shared_per_multiprocessor", ctypes.c_size_t),
    )


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

    def launch(place: _Place, launch: Any, arguments: Arguments) -> int:
        return guarded(lambda: answers.launch(place.read(), launch.contents.read(), arguments))

    def symbol(place: _Place) -> int:
        found = []
        guarded(lambda: found.append(answers.symbol(place.read())))
        return found[0] if found else 0

    def describe(place: _Place, target: Any) -> int:
        def fill() -> None:
            facts = answers.describe(place.read())
            for name, _ in _Kernel._fields_:
                setattr(target.contents, name, getattr(facts, name))

        return guarded(fill)

    def allow_shared(place: _Place, dynamic_bytes: int) -> int:
        return guarded(lambda: answers.allow_shared(place.read(), dynamic_bytes))

    def occupancy(place: _Place, launch: Any, blocks: Any) -> int:
        def fill() -> None:
            blocks[0] = answers.occupancy(place.read(), launch.contents.read())

        return guarded(fill)

    def unsupported(what: bytes) -> None:
        answers.unsupported(what.decode())

    def library(function: bytes) -> None:
        answers.library(function.decode())

    machine = _Machine(
        _LAUNCH(launch),
        _SYMBOL(symbol),
        _DESCRIBE(describe),
        _ALLOW_SHARED(allow_shared),
        _OCCUPANCY(occupancy),
        _NOTE(unsupported),
        _NOTE(library),
    )
    runtime.sim_connect(ctypes.byref(machine))
    runtime.sim_set_device(ctypes.byref(_describe_device()))
    return machine


def _describe_device() -> _Device:
    return _Device(
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
