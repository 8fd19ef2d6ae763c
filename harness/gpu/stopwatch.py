"""Measurement of the time that a GPU needs for queued work, without the host's time to queue it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from harness.gpu.driver import Driver
from harness.gpu.hold import Hold
from harness.gpu.side_streams import SideStreams

_Span = tuple[torch.cuda.Event, torch.cuda.Event]


class Stopwatch:
    """Measures the device time of one call's work on all streams.

    A `Hold` kernel occupies the device while the host queues work, so the work then runs without
    gaps. Without this kernel, events around the work would also measure the host, because the
    device would wait for each launch.

    If the host waits for the device within a call, the work before and the work after the wait are
    timed separately. Nothing is timed before `begin` or after `stop`.
    """

    def __init__(self, driver: Driver, beside: SideStreams) -> None:
        self._driver = driver
        self._beside = beside
        # The first timed call creates it, since most devices time nothing.
        self._hold: Hold | None = None
        self._is_running = self._is_waiting = False
        self._open: torch.cuda.Event | None = None
        self._counted: list[_Span] = []
        self._uncounted: list[_Span] = []

    def begin(self) -> None:
        """Begin to time all work that is queued from now on."""
        torch.cuda.synchronize()
        self._hold = self._hold or Hold(self._driver)
        self._counted, self._uncounted = [], []
        self._is_running = True

    @contextmanager
    def queueing(self, *, waits: bool = False) -> Iterator[None]:
        """Enclose code that queues timed work; set `waits` if the code waits for the device."""
        if not self._is_running:
            yield
            return
        if not waits:
            self._start()
            yield
            return
        self._pause()
        start = _now()
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False
            self._counted.append((start, _now()))

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Enclose code that queues the harness's own work; the work's device time is subtracted."""
        if self._open is None and not self._is_waiting:
            yield
            return
        # All streams wait for each other here. Otherwise time of the call's own work that runs at
        # the same moment would be subtracted too.
        self._beside.join()
        start = _now()
        try:
            yield
        finally:
            end = _now()
            self._uncounted.append((start, end))
            self._beside.fork(end)

    def stop(self) -> float:
        """Wait for the device; return the milliseconds of work since `begin` (0 without work).

        Raises:
            torch.AcceleratorError: A kernel has broken the context.
        """
        self._pause()
        self._is_running = False
        torch.cuda.synchronize()
        return _sum(self._counted) - _sum(self._uncounted)

    def _start(self) -> None:
        """Occupy the device with the `Hold` kernel, unless it is occupied already."""
        if self._open is None and self._hold:
            with torch.cuda.stream(torch.cuda.default_stream()):
                self._hold.begin()
                self._open = _now()
            self._beside.fork(self._open)

    def _pause(self) -> None:
        """Let the device run the queued work, and record the end of that work as a timed part."""
        if self._open is not None and self._hold:
            with torch.cuda.stream(torch.cuda.default_stream()):
                self._beside.join()
                end = _now()
            self._counted.append((self._open, end))
            self._beside.fork(end)
            self._open = None
            self._hold.end()


def _now() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _sum(spans: list[_Span]) -> float:
    return float(sum(start.elapsed_time(end) for start, end in spans))
