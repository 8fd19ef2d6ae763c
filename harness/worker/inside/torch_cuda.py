"""Replacements for functions of `torch.cuda` on a worker's device, which device.cpp registers.

A CPU-only torch has the module, but most of its functions raise. The functions that submissions and
`nn.Module.cuda()` need are replaced here. The others still raise.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch

from harness.simulator.hardware.errors import UnsupportedCall
from harness.simulator.hardware.properties import DeviceProperties

_DISABLE_TIMING, _BLOCKING_SYNC = 2, 1
"""cudaEventDisableTiming and cudaEventBlockingSync."""


def cuda_error(runtime: ctypes.CDLL, error: int, remark: str = "") -> Exception:
    """Return the exception that torch raises for a cudaError_t.

    The text includes the reason that the harness's CUDA runtime gives, and ends with `remark`.
    """
    why = runtime.sim_explanation(error).decode()
    text = f"CUDA error: {runtime.cudaGetErrorString(error).decode()}"
    return torch.AcceleratorError(f"{text}{f' ({why})' if why else ''}{remark}")


class CheckedCalls:
    """Calls of the CUDA runtime that raise the same exceptions as torch's own."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        runtime.sim_current_stream.restype = ctypes.c_void_p
        runtime.sim_set_current_stream.argtypes = [ctypes.c_void_p]
        runtime.sim_stream_from_pool.restype = ctypes.c_void_p
        runtime.cudaGetErrorString.restype = ctypes.c_char_p
        runtime.sim_explanation.restype = ctypes.c_char_p
        runtime.sim_peak_bytes.restype = ctypes.c_uint64
        runtime.sim_live_bytes.restype = ctypes.c_uint64
        runtime.sim_seed.argtypes = [ctypes.c_uint64]
        runtime.sim_seed.restype = None
        self.runtime = runtime

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function that returns a cudaError_t; pointers and handles are c_void_p.

        Raises:
            torch.AcceleratorError: The call failed.
        """
        error = getattr(self.runtime, name)(*arguments)
        if error:
            # torch also clears an error that it raises from the thread's state.
            self.runtime.cudaGetLastError()
            raise cuda_error(self.runtime, error)


class Event:
    """A CUDA event with torch's interface; the first `record` creates it, as in torch."""

    calls: ClassVar[CheckedCalls]

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        del interprocess
        self._flags = (0 if enable_timing else _DISABLE_TIMING) | blocking * _BLOCKING_SYNC
        self._handle = ctypes.c_void_p()

    def __del__(self) -> None:
        if self._handle:
            self.calls.runtime.cudaEventDestroy(self._handle)

    @property
    def cuda_event(self) -> int:
        """The event's cudaEvent_t; 0 before the first record."""
        return self._handle.value or 0

    def record(self, stream: Stream | None = None) -> None:
        """Record the event on a stream; None for the current stream."""
        if not self._handle:
            self.calls("cudaEventCreateWithFlags", ctypes.byref(self._handle), self._flags)
        self.calls("cudaEventRecord", self._handle, _handle_of(self.calls, stream))

    def wait(self, stream: Stream | None = None) -> None:
        """Make a stream's next work wait for the event; None for the current stream."""
        if self._handle:
            self.calls("cudaStreamWaitEvent", _handle_of(self.calls, stream), self._handle, 0)

    def query(self) -> bool:
        """Wait for the event, and return True; unlike torch, this never returns False."""
        if self._handle:
            self.calls("cudaEventQuery", self._handle)
        return True

    def synchronize(self) -> None:
        """Wait for the event."""
        if self._handle:
            self.calls("cudaEventSynchronize", self._handle)

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to `end`, by this machine's clock.

        Raises:
            ValueError: One of the events was not made for timing, or not recorded.
        """
        if (self._flags | end._flags) & _DISABLE_TIMING:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._handle and end._handle):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        milliseconds = ctypes.c_float()
        self.calls("cudaEventElapsedTime", ctypes.byref(milliseconds), self._handle, end._handle)
        return milliseconds.value


class Stream:
    """A CUDA stream.

    Attributes:
        cuda_stream: The stream's cudaStream_t; 0 is the default stream.
    """

    calls: ClassVar[CheckedCalls]

    def __init__(
        self,
        device: object = None,
        priority: int = 0,
        *,
        cuda_stream: int | None = None,
        **_: object,
    ) -> None:
        check_device(device)
        self.priority = priority
        self.device = torch.device("cuda", 0)
        self._outer: list[int | None] = []
        if cuda_stream is None:
            cuda_stream = self.calls.runtime.sim_stream_from_pool(priority) or 0
        self.cuda_stream = cuda_stream

    @property
    def stream_id(self) -> int:
        """The stream's number in torch."""
        return self.cuda_stream

    def __enter__(self) -> Stream:
        self._outer.append(self.calls.runtime.sim_current_stream())
        self.calls.runtime.sim_set_current_stream(self.cuda_stream)
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.runtime.sim_set_current_stream(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def query(self) -> bool:
        """Wait for the stream's work, and return True; unlike torch, this never returns False."""
        self.calls("cudaStreamQuery", ctypes.c_void_p(self.cuda_stream))
        return True

    def synchronize(self) -> None:
        """Wait for the stream's work."""
        self.calls("cudaStreamSynchronize", ctypes.c_void_p(self.cuda_stream))

    def wait_stream(self, stream: Stream) -> None:
        """Make this stream's next work wait for the work that another stream has so far."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Event) -> None:
        """Make this stream's next work wait for an event."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event on this stream, and return the event; None makes a new event."""
        event = event or cast(Any, torch.cuda).Event()
        event.record(self)
        return event


def _handle_of(calls: CheckedCalls, stream: Stream | None) -> ctypes.c_void_p:
    known = calls.runtime.sim_current_stream() if stream is None else stream.cuda_stream
    return ctypes.c_void_p(known)


class ClientCuda:
    """Replacements for functions of `torch.cuda`, which call the harness's CUDA runtime."""

    def __init__(self, runtime: ctypes.CDLL, properties: DeviceProperties) -> None:
        self._calls = CheckedCalls(runtime)
        self._runtime = runtime
        self._real = self._device = properties
        bound = {"calls": self._calls}
        self._event = type("Event", (Event,), bound)
        self._stream = type("Stream", (Stream,), bound)
        self._streams: dict[int, Stream] = {0: self._stream(cuda_stream=0)}

    def install(self) -> None:
        """Install the functions in this process's `torch.cuda`; this cannot be undone."""
        cuda = cast(Any, torch.cuda)
        for name, function in {
            **self._about_the_device(),
            **self._about_streams(),
            **self._about_memory(),
            "manual_seed": self.manual_seed,
            "manual_seed_all": self.manual_seed,
            "_lazy_init": lambda: None,
            "_lazy_call": lambda _function, **_options: None,
        }.items():
            setattr(cuda, name, function)
        for name in ("range_push", "range_pop", "mark"):
            setattr(cuda.nvtx, name, lambda *_arguments: None)
        cuda.nvtx.range = _nvtx_range
        # A plain attribute takes the place of torch's property, so that a submission's change to it
        # is seen. It has no effect: device.cpp has switched cuDNN off.
        cast(Any, type(torch.backends.cudnn)).enabled = True
        # The C++ method accepts only streams of torch's own class.
        cast(Any, torch.Tensor).record_stream = lambda _tensor, _stream: None
        # Pinned memory is not needed, because copies from any memory of the host are done at once.
        cast(Any, torch.Tensor).pin_memory = lambda tensor, _device=None: tensor.clone()

    def pretend(self, multiprocessors: int | None) -> None:
        """Set the number of multiprocessors that the device reports; None restores the default.

        It never reports more than it has, because a cooperative launch would then be refused.
        """
        real = self._real.multi_processor_count
        count = min(multiprocessors or real, real)
        self._device = replace(self._real, multi_processor_count=count)
        self._runtime.sim_pretend_multiprocessors(count)

    def properties(self, device: object = None) -> DeviceProperties:
        """Return the result of `torch.cuda.get_device_properties`."""
        check_device(device)
        return self._device

    def capability(self, device: object = None) -> tuple[int, int]:
        """Return the result of `torch.cuda.get_device_capability`."""
        found = self.properties(device)
        return found.major, found.minor

    def _about_the_device(self) -> dict[str, object]:
        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": lambda: None,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": check_device,
            "device": DeviceContext,
            "device_of": DeviceContext,
            "get_device_properties": self.properties,
            "get_device_name": lambda device=None: self.properties(device).name,
            "get_device_capability": self.capability,
            "get_arch_list": lambda: [f"sm_{self._real.architecture}"],
            "is_bf16_supported": lambda *_arguments, **_options: True,
            "can_device_access_peer": lambda _device, _peer: False,
            "synchronize": self.synchronize,
        }

    def _about_streams(self) -> dict[str, object]:
        return {
            "current_stream": self.current_stream,
            "default_stream": self.default_stream,
            "set_stream": self.set_stream,
            "stream": self.stream,
            "StreamContext": self.stream,
            "Stream": self._stream,
            "ExternalStream": self.external_stream,
            "Event": self._event,
            "is_current_stream_capturing": lambda: False,
            "CUDAGraph": _missing("torch.cuda.CUDAGraph"),
            "graph": _missing("torch.cuda.graph"),
            "make_graphed_callables": _missing("torch.cuda.make_graphed_callables"),
        }

    def _about_memory(self) -> dict[str, object]:
        return {
            "empty_cache": lambda: None,
            "ipc_collect": lambda: None,
            "memory_allocated": self.memory_allocated,
            "memory_reserved": self.memory_allocated,
            "max_memory_allocated": self.max_memory_allocated,
            "max_memory_reserved": self.max_memory_allocated,
            "reset_peak_memory_stats": self.reset_peak_memory_stats,
            "mem_get_info": self.mem_get_info,
        }

    def manual_seed(self, seed: int) -> None:
        """Seed the device's random number generator."""
        self._runtime.sim_seed(int(seed) % 2**64)

    def synchronize(self, device: object = None) -> None:
        """Wait for the device.

        Raises:
            torch.AcceleratorError: A kernel has broken the context.
        """
        check_device(device)
        self._calls("cudaDeviceSynchronize")

    def current_stream(self, device: object = None) -> Stream:
        """Return the stream that the calling thread has set, or the default stream."""
        check_device(device)
        return self.external_stream(self._runtime.sim_current_stream() or 0)

    def default_stream(self, device: object = None) -> Stream:
        """Return the default stream, on which a thread works until it sets another one."""
        check_device(device)
        return self._streams[0]

    def external_stream(self, handle: int, device: object = None) -> Stream:
        """Return the `Stream` object of a cudaStream_t."""
        check_device(device)
        if handle not in self._streams:
            self._streams[handle] = self._stream(cuda_stream=handle)
        return self._streams[handle]

    def set_stream(self, stream: Stream | None) -> None:
        """Make `stream` the calling thread's stream; None changes nothing."""
        if stream is not None:
            self._streams[stream.cuda_stream] = stream
            self._runtime.sim_set_current_stream(stream.cuda_stream)

    @contextmanager
    def stream(self, stream: Stream | None) -> Iterator[None]:
        """Make `stream` the calling thread's stream within the context; None changes nothing."""
        outer = self.current_stream()
        self.set_stream(stream)
        try:
            yield
        finally:
            self.set_stream(outer)

    def memory_allocated(self, device: object = None) -> int:
        """Return how many bytes are allocated now, by tensors or cudaMalloc."""
        check_device(device)
        return int(self._runtime.sim_live_bytes())

    def max_memory_allocated(self, device: object = None) -> int:
        """Return the most bytes that were allocated at the same time since the last reset."""
        check_device(device)
        return int(self._runtime.sim_peak_bytes())

    def reset_peak_memory_stats(self, device: object = None) -> None:
        """Reset the result of `max_memory_allocated` to the bytes that are allocated now."""
        check_device(device)
        self._runtime.sim_reset_peak()

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        """Return the free and the total bytes of the device's memory."""
        check_device(device)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._calls("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def _missing(what: str) -> object:
    """Return a function that raises `UnsupportedCall` for the part of torch that `what` names."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise UnsupportedCall(what)

    return refuse


@contextmanager
def _nvtx_range(*_arguments: object, **_options: object) -> Iterator[None]:
    yield


class DeviceContext:
    """A context that stands in for `torch.cuda.device` and `torch.cuda.device_of`.

    It has no effect, because only one device exists.
    """

    def __init__(self, device: object) -> None:
        check_device(device.device if isinstance(device, torch.Tensor) else device)

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def check_device(device: object) -> None:
    """Check that `device` is the only device that exists, or means the current device.

    None and -1 mean the current device.

    Raises:
        torch.AcceleratorError: The device does not exist.
    """
    if device is None:
        return
    index = device if isinstance(device, int) else torch.device(cast(str, device)).index
    if index is not None and index > 0:
        raise torch.AcceleratorError("CUDA error: invalid device ordinal")
