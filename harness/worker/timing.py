"""Timed calls on a GPU, in the worker: events on the device, inputs and output in shared memory.

What is said here of times is a claim; the trusted side holds its own clock against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.gpu.driver import Driver
from harness.gpu.hold import Hold
from harness.gpu.shared import Opened
from harness.worker.protocol import Message

Answer = tuple[dict[str, Any], Sequence[Tensor]]
Forward = Callable[..., object]

# The whole device is kept busy for so long before a timed call that the host has launched
# everything by then: what is measured is the device's work, not Python's, and no stream can begin
# its work before the clock runs.
_HEAD_START_CYCLES = 400_000


class TimedCalls:
    """Calls of one or several models with the same inputs."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._hold = Hold(self._driver)
        self._opened: Opened | None = None

    def attach(self, message: Message) -> Answer:
        """See the shared inputs and the output, which is the last tensor."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None
        # What an earlier shape took is of no use any more.
        torch.cuda.empty_cache()
        if message.header["shared"]:
            self._opened = Opened(self._driver, message.header["shared"])
        return {}, ()

    def time(self, forward: Forward) -> Answer:
        """One call: its device time, and its output in shared memory.

        The device is idle before the call. `idle` tells how long it went on to work after the
        last thing on the call's own stream was done: little, unless other streams still worked.
        """
        *inputs, shared_output = self._tensors()
        start, end, idle = (_event() for _ in range(3))
        torch.cuda.synchronize()
        self._hold.launch(_HEAD_START_CYCLES)
        start.record()
        with torch.no_grad():
            output = forward(*inputs)
        end.record()
        torch.cuda.synchronize()
        idle.record()
        torch.cuda.synchronize()
        header = {
            "milliseconds": start.elapsed_time(end),
            "idle": end.elapsed_time(idle),
            **_keep(output, shared_output),
        }
        return header, ()

    def repeat(self, forward: Forward, count: int) -> Answer:
        """As many calls in a row, for the trusted side's clock; nothing is measured here."""
        inputs = self._tensors()[:-1]
        with torch.no_grad():
            for _ in range(count):
                forward(*inputs)
        torch.cuda.synchronize()
        return {}, ()

    def _tensors(self) -> tuple[Tensor, ...]:
        assert self._opened is not None, "attach comes first"  # noqa: S101
        return self._opened.tensors


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _keep(output: object, target: Tensor) -> dict[str, Any]:
    """Copy an output of the right kind to where the trusted side sees it."""
    if type(output) is not Tensor:
        return {"type": f"{type(output).__module__}.{type(output).__qualname__}"}
    described = {
        "type": "torch.Tensor",
        "device": output.device.type,
        "shape": list(output.shape),
        "dtype": str(output.dtype).removeprefix("torch."),
    }
    if output.shape == target.shape and output.dtype == target.dtype:
        target.copy_(output)
        torch.cuda.synchronize()
    return described
