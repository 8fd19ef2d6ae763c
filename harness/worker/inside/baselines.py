"""The reference as it is timed: a worker of its own, in which nothing untrusted runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from harness.messages.channel import Message
from harness.messages.kinds import BASELINE_PRECISIONS, BaselineKind
from harness.problems.problem import load
from harness.worker.inside.call import Clock, call
from harness.worker.inside.timing import Answer, SharedTensors


class BaselineSession:
    """One kind of baseline, with TF32 and without."""

    def __init__(self, reference: Path, kind: BaselineKind) -> None:
        self._problem = load(reference)
        self._kind = kind
        self._calls = SharedTensors()
        self._clock = Clock()
        self._model: nn.Module | None = None
        self._forwards: dict[str, Callable[..., object]] = {}

    def steps(self) -> dict[str, Callable[[Message], Answer]]:
        """By the name that the trusted side asks for."""
        return {
            "construct": self._construct,
            "weights": self._set_weights,
            "attach": self._calls.attach,
            "time": self._time,
            "repeat": self._repeat,
        }

    def _construct(self, message: Message) -> Answer:
        header = message.header
        self._model = self._problem.model(*header["positional"], **header["named"]).cuda()
        # What torch compiles depends on whether TF32 is allowed.
        self._forwards = {
            precision: torch.compile(self._model) if self._kind == "torch.compile" else self._model
            for precision in BASELINE_PRECISIONS
        }
        # Its parameters have the names that the trusted side knows.
        return {"names": [], "findings": []}, ()

    def _set_weights(self, message: Message) -> Answer:
        assert self._model is not None, "construct comes first"  # noqa: S101
        names: Sequence[str] = message.header["names"]
        given = dict(zip(names, message.tensors, strict=True))
        self._model.load_state_dict({**self._model.state_dict(), **given})
        return {}, ()

    def _time(self, message: Message) -> Answer:
        forward = self._forward(message.header["precision"])
        return self._calls.timed(call(forward, self._arguments(message), 1, self._clock))

    def _repeat(self, message: Message) -> Answer:
        forward = self._forward(message.header["precision"])
        call(forward, self._arguments(message), message.header["count"], self._clock)
        return {}, ()

    def _arguments(self, message: Message) -> list[Any]:
        return self._problem.forward_arguments(self._calls.inputs_at(message))

    def _forward(self, precision: str) -> Callable[..., object]:
        """The model, once torch is set to that precision."""
        torch.backends.cudnn.benchmark = self._kind == "cudnn.benchmark"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        return self._forwards[precision]
