"""The streams that a submission creates in addition to the default stream, and their events."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from harness.gpu.driver import Driver

# CUstream_flags
_BLOCKING, _NON_BLOCKING = 0, 1


class SideStreams:
    """The streams that a submission created, and the events recorded on them.

    The caller chooses a number for each stream, and a number (ticket) for each event.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._events: dict[int, torch.cuda.Event] = {}
        self._start: torch.cuda.Event | None = None

    def create(self, stream: int, *, is_blocking: bool) -> None:
        """Create stream number `stream`; a blocking one synchronizes with the default stream."""
        handle = ctypes.c_void_p()
        flags = ctypes.c_uint(_BLOCKING if is_blocking else _NON_BLOCKING)
        self._driver.call("cuStreamCreate", ctypes.byref(handle), flags)
        made = torch.cuda.ExternalStream(handle.value or 0)  # type: ignore[no-untyped-call]
        self._streams[stream] = made
        if self._start:
            made.wait_event(self._start)

    def destroy(self, stream: int) -> None:
        """Destroy a stream after its queued work has ended."""
        # The stopwatch's end event is recorded on the default stream, so that stream must wait for
        # this one's work.
        torch.cuda.default_stream().wait_stream(self._streams[stream])
        handle = self._streams.pop(stream).cuda_stream
        self._driver.call("cuStreamDestroy_v2", ctypes.c_void_p(handle))

    def on(self, stream: int) -> AbstractContextManager[None]:
        """Return a context in which torch queues its work on stream number `stream`."""
        return torch.cuda.stream(self._of(stream))

    def record(self, ticket: int, stream: int) -> None:
        """Record an event after all work queued on a stream so far, and store it under `ticket`."""
        self._events[ticket] = self._of(stream).record_event()

    def wait(self, stream: int, ticket: int) -> None:
        """Make later work of a stream wait for the event that was recorded under `ticket`."""
        if event := self._events.get(ticket):
            self._of(stream).wait_event(event)

    def forget_tickets(self) -> None:
        """Drop all recorded events; their tickets are not used again."""
        self._events.clear()

    def fork(self, start: torch.cuda.Event) -> None:
        """Make later work of every stream, even of streams created later, wait for `start`."""
        self._start = start
        if self._streams:
            for stream in self._all():
                stream.wait_event(start)

    def join(self) -> None:
        """Make later work of torch's current stream wait for all work queued on any stream."""
        if self._streams:
            current = torch.cuda.current_stream()
            for stream in self._all():
                current.wait_stream(stream)

    def _all(self) -> Sequence[torch.cuda.Stream]:
        return (torch.cuda.default_stream(), *self._streams.values())

    def _of(self, stream: int) -> torch.cuda.Stream:
        return self._streams.get(stream) or torch.cuda.default_stream()
