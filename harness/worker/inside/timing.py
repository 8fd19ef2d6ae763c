"""Calls on a GPU with inputs and output in memory that the trusted side has, too.

What is said here of times is a claim; the trusted side holds its own clock against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness.gpu.driver import Driver
from harness.messages.channel import Message
from harness.worker.inside.call import Called
from harness.worker.shared import Opened

Answer = tuple[dict[str, Any], Sequence[Tensor]]


class SharedTensors:
    """The inputs and the output of timed calls."""

    def __init__(self) -> None:
        self._driver = Driver()
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

    def inputs_at(self, message: Message) -> tuple[Tensor, ...]:
        """What a call gets: the inputs, where they lie this time."""
        return self._shared().at(message.header["places"])[:-1]

    def timed(self, called: Called, launched: Sequence[dict[str, Any]] = ()) -> Answer:
        """The times of a call, and its output in shared memory."""
        header = {
            "milliseconds": called.milliseconds,
            "idle": called.idle,
            "launched": list(launched),
            "findings": [],
            **_keep(called.output, self._shared().tensors[-1]),
        }
        return header, ()

    def _shared(self) -> Opened:
        assert self._opened is not None, "attach comes first"  # noqa: S101
        return self._opened


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
