"""`torch.cuda` of the simulated device: the Python half of what device.cpp registers.

A CPU-only torch has the module but raises in most of its functions. What submissions and
`nn.Module.cuda()` need is replaced; the rest goes on raising.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import torch


@dataclass(frozen=True)
class DeviceProperties:
    """The simulated device, with the names of `torch.cuda.get_device_properties()`.

    The figures are those of an H200; bytes, and threads or blocks for one multiprocessor.
    """

    name: str = "Simulated sm_90 device"
    major: int = 9
    minor: int = 0
    total_memory: int = 8 << 30
    multi_processor_count: int = 132
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32
    L2_cache_size: int = 60 << 20
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 227 << 10
    shared_memory_per_multiprocessor: int = 228 << 10
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""  # noqa: N815 - torch's name


DEVICE: Final = DeviceProperties()


class Event:
    """The time at which it was recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        del blocking, interprocess
        self._timing = enable_timing
        self._recorded: float | None = None

    def record(self, stream: object = None) -> None:
        """Take the time."""
        del stream
        self._recorded = time.perf_counter()

    def wait(self, stream: object = None) -> None:
        """The event has happened."""

    def query(self) -> bool:
        """The event has happened."""
        return True

    def synchronize(self) -> None:
        """The event has happened."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`, by this machine's clock.

        Raises:
            ValueError: one of them was not made for timing, or not recorded.
        """
        if not (self._timing and end._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end._recorded is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end._recorded - self._recorded)


class Stream:
    """A stream on which everything is already done.

    Attributes:
        cuda_stream: what C++ calls cudaStream_t; 0 is the default stream.
    """

    def __init__(
        self, device: object = None, priority: int = 0, *, cuda_stream: int | None = None
    ) -> None:
        del device
        self.priority = priority
        self.device = torch.device("cuda", 0)
        self._storage = ctypes.create_string_buffer(1)
        self.cuda_stream = ctypes.addressof(self._storage) if cuda_stream is None else cuda_stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def query(self) -> bool:
        """Everything is done."""
        return True

    def synchronize(self) -> None:
        """Everything is done."""

    def wait_stream(self, stream: Stream) -> None:
        """Everything on the other stream is done."""

    def wait_event(self, event: Event) -> None:
        """The event has happened."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event here."""
        event = event or Event()
        event.record(self)
        return event


class SimulatedCuda:
    """The functions of `torch.cuda`, over the simulator's runtime library."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        runtime.sim_current_stream.restype = ctypes.c_void_p
        runtime.sim_set_current_stream.argtypes = [ctypes.c_void_p]
        self._runtime = runtime
        self._streams = {0: Stream(cuda_stream=0)}

    def install(self) -> None:
        """Put them into `torch.cuda` of this process, which cannot be undone."""
        cuda = cast(Any, torch.cuda)
        for name, function in (
            ("current_stream", self.current_stream),
            ("default_stream", self.default_stream),
            ("set_stream", self.set_stream),
            ("stream", self.stream),
            ("StreamContext", self.stream),
            ("Stream", Stream),
            ("Event", Event),
            ("get_device_properties", lambda _device=None: DEVICE),
            ("get_device_name", lambda _device=None: DEVICE.name),
            ("get_device_capability", lambda _device=None: (DEVICE.major, DEVICE.minor)),
            ("is_available", lambda: True),
            ("is_initialized", lambda: True),
            ("device_count", lambda: 1),
            ("current_device", lambda: 0),
            ("set_device", _check_device),
            ("device", _device_context),
            ("synchronize", lambda _device=None: None),
            ("empty_cache", lambda: None),
            ("manual_seed", torch.default_generator.manual_seed),
            ("manual_seed_all", torch.default_generator.manual_seed),
            ("_lazy_init", lambda: None),
            ("_lazy_call", lambda _function, **_options: None),
        ):
            setattr(cuda, name, function)
        # The C++ method accepts streams of torch's own class alone.
        cast(Any, torch.Tensor).record_stream = lambda _tensor, _stream: None

    def current_stream(self, device: object = None) -> Stream:
        """The calling thread's stream."""
        del device
        handle = self._runtime.sim_current_stream() or 0
        return self._streams.setdefault(handle, Stream(cuda_stream=handle))

    def default_stream(self, device: object = None) -> Stream:
        """The stream of a thread that has chosen none."""
        del device
        return self._streams[0]

    def set_stream(self, stream: Stream | None) -> None:
        """Make `stream` the calling thread's."""
        if stream is not None:
            self._streams[stream.cuda_stream] = stream
            self._runtime.sim_set_current_stream(stream.cuda_stream)

    @contextmanager
    def stream(self, stream: Stream | None) -> Iterator[None]:
        """Make `stream` the calling thread's for a while."""
        outer = self.current_stream()
        self.set_stream(stream)
        try:
            yield
        finally:
            self.set_stream(outer)


@contextmanager
def _device_context(device: object) -> Iterator[None]:
    _check_device(device)
    yield


def _check_device(device: object) -> None:
    index = device if isinstance(device, int) else torch.device(cast(str, device)).index
    if index is not None and index > 0:
        raise RuntimeError("CUDA error: invalid device ordinal")
