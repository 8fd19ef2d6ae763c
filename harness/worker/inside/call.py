"""The one place where a model's forward is called, checked or timed.

Who looks up the stack from a forward sees the same functions and lines in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from harness.gpu.driver import Driver
from harness.gpu.hold import Hold

Forward = Callable[..., object]

# The whole device is kept busy for so long before a call that the host has launched everything by
# then: what is measured is the device's work, not Python's, and no stream can begin its work before
# the clock runs.
_HEAD_START_CYCLES = 400_000


@dataclass(frozen=True)
class Called:
    """What came of a call.

    Attributes:
        output: The last call's.
        milliseconds: From the device's start to its end of all calls; NaN where nothing measures.
        idle: How much later the device had nothing to do; little, unless other streams than the
            call's own still worked.
    """

    output: object
    milliseconds: float
    idle: float


class Clock:
    """The device's clock around calls."""

    def __init__(self) -> None:
        # The first call makes it: a worker that only builds so far needs no device.
        self._hold: Hold | None = None
        self._start, self._end, self._idle = (_event() for _ in range(3))

    def start(self) -> None:
        """The device is idle; from now on it counts."""
        torch.cuda.synchronize()
        self._hold = self._hold or Hold(Driver())
        self._hold.launch(_HEAD_START_CYCLES)
        self._start.record()

    def stop(self) -> tuple[float, float]:
        """Milliseconds of the work, and until the device was idle after it."""
        self._end.record()
        torch.cuda.synchronize()
        self._idle.record()
        torch.cuda.synchronize()
        return self._start.elapsed_time(self._end), self._end.elapsed_time(self._idle)


class NoClock(Clock):
    """The simulated device has no time."""

    def __init__(self) -> None:
        """Nothing is needed."""

    def start(self) -> None:
        """Nothing starts."""

    def stop(self) -> tuple[float, float]:
        """Wait for the device, which raises what a kernel has broken."""
        torch.cuda.synchronize()
        return float("nan"), 0.0


def call(forward: Forward, inputs: Sequence[object], count: int, clock: Clock) -> Called:
    """Call so many times in a row with the same inputs."""
    clock.start()
    with torch.no_grad():
        for _ in range(count):
            output = forward(*inputs)
    return Called(output, *clock.stop())


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
