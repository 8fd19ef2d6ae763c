"""Streams of a GPU beside torch's default one, all of which one stopwatch times."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from harness.gpu.driver import Driver

# CUstream_flags
_BLOCKING, _NON_BLOCKING = 0, 1


class SideStreams:
    """They are known by numbers, as are the events that are recorded on them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._events: dict[int, torch.cuda.Event] = {}
        self._start: torch.cuda.Event | None = None

    def create(self, stream: int, *, is_blocking: bool) -> None:
        """Have another one; a blocking one and the default one wait for each other."""
        handle = ctypes.c_void_p()
        flags = ctypes.c_uint(_BLOCKING if is_blocking else _NON_BLOCKING)
        self._driver.call("cuStreamCreate", ctypes.byref(handle), flags)
        made = torch.cuda.ExternalStream(handle.value or 0)  # type: ignore[no-untyped-call]
        self._streams[stream] = made
        if self._start:
            made.wait_event(self._start)

    def destroy(self, stream: int) -> None:
        """Let one go when its work is done."""
        # What the others are timed with has to have an end that they can wait for.
        torch.cuda.default_stream().wait_stream(self._streams[stream])
        handle = self._streams.pop(stream).cuda_stream
        self._driver.call("cuStreamDestroy_v2", ctypes.c_void_p(handle))

    def on(self, stream: int) -> AbstractContextManager[None]:
        """Around work for that stream."""
        return torch.cuda.stream(self._of(stream))

    def record(self, ticket: int, stream: int) -> None:
        """Let `ticket` stand for what the stream has been asked for so far."""
        self._events[ticket] = self._of(stream).record_event()

    def wait(self, stream: int, ticket: int) -> None:
        """Let what the stream is asked for next run after that."""
        if event := self._events.get(ticket):
            self._of(stream).wait_event(event)

    def forget_tickets(self) -> None:
        """None that was given so far is asked for again."""
        self._events.clear()

    def fork(self, start: torch.cuda.Event) -> None:
        """Let what is asked for next on any of them, and on those to come, run after `start`."""
        self._start = start
        if self._streams:
            for stream in self._all():
                stream.wait_event(start)

    def join(self) -> None:
        """Let what is asked for next on torch's current stream run after all that was asked for."""
        if self._streams:
            current = torch.cuda.current_stream()
            for stream in self._all():
                current.wait_stream(stream)

    def _all(self) -> Sequence[torch.cuda.Stream]:
        return (torch.cuda.default_stream(), *self._streams.values())

    def _of(self, stream: int) -> torch.cuda.Stream:
        return self._streams.get(stream) or torch.cuda.default_stream()
