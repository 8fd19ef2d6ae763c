"""How inputs, weights and outputs come to a submission and go: in messages, or on the device.

Beside a GPU they are in the messages. Where a device process has the memory, the trusted side has
put them there, and reads them there: only their places are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from harness.messages.channel import DTYPES, Message
from harness.messages.digests import digest
from harness.problems.arrange import arrange
from harness.problems.runs import Arrangement
from harness.worker.inside.client_device import ClientDevice, place_of, places_of
from harness.worker.inside.timing import Answer

# Enough to notice an output that is handed out twice, without keeping all of them alive.
_REMEMBERED_OUTPUTS = 2


class Values(Protocol):
    """Of one submission."""

    def forget(self) -> None:
        """Let inputs and outputs go."""

    def told(self, tensors: Sequence[Tensor]) -> Answer:
        """What is told of the model's parameters and buffers."""

    def given(self, message: Message) -> Sequence[Tensor]:
        """The weights of a message."""

    def keep_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Remember what shall not be changed."""

    def inputs(self, message: Message) -> Sequence[Tensor]:
        """The inputs of a message, where the last ones of their shapes were."""

    def checked(self, output: object, inputs: Sequence[Tensor]) -> Answer:
        """What is told of an output."""


class MessageValues:
    """In the messages themselves."""

    def __init__(self) -> None:
        self._inputs: list[Tensor] = []
        self._arrangement: Arrangement = "contiguous"
        self._outputs: list[Tensor] = []
        # The same memory as inputs and weights, whatever becomes of those.
        self._inputs_kept: list[Tensor] = []
        self._weights_kept: Mapping[str, Tensor] = {}

    def forget(self) -> None:
        """Let inputs and outputs go."""
        self._inputs, self._outputs, self._inputs_kept = [], [], []
        self._weights_kept = {}

    def told(self, tensors: Sequence[Tensor]) -> Answer:
        """The tensors."""
        return {}, tensors

    def given(self, message: Message) -> Sequence[Tensor]:
        """The message's tensors."""
        return message.tensors

    def keep_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Remember what shall not be changed."""
        self._weights_kept = weights

    def inputs(self, message: Message) -> Sequence[Tensor]:
        """The message's tensors, in the storage of the last ones where they fit."""
        values = message.tensors
        fits = len(self._inputs) == len(values) and all(
            kept.shape == value.shape and kept.dtype == value.dtype
            for kept, value in zip(self._inputs, values, strict=True)
        )
        arrangement = message.header.get("arrangement", "contiguous")
        fits = fits and arrangement == self._arrangement == "contiguous"
        self._arrangement = arrangement
        if fits and not message.header.get("in_new_memory"):
            for kept, value in zip(self._inputs_kept, values, strict=True):
                # Values come into shared memory in the same way: no counter of versions moves.
                kept.copy_(value)
        else:
            self._inputs = [arrange(value.cuda(), arrangement) for value in values]
            self._inputs_kept = [value.data for value in self._inputs]
        return self._inputs

    def checked(self, output: object, inputs: Sequence[Tensor]) -> Answer:
        """The output itself, and what inputs and weights have become."""
        header: dict[str, Any] = {
            "inputs": [digest(kept) for kept in self._inputs_kept],
            "weights": {name: digest(kept) for name, kept in self._weights_kept.items()},
        }
        if type(output) is not Tensor:
            return {**header, "type": _kind(output)}, ()
        header |= {
            "type": "torch.Tensor",
            "device": output.device.type,
            "shares": self._shares_storage_with(output, inputs),
        }
        self._outputs = [*self._outputs, output][-_REMEMBERED_OUTPUTS:]
        if output.dtype not in DTYPES.values():
            return {**header, "type": f"a tensor of {output.dtype}"}, ()
        return header, (output,)

    def _shares_storage_with(self, output: Tensor, inputs: Sequence[Tensor]) -> str | None:
        def storage(tensor: Tensor) -> int:
            return tensor.untyped_storage().data_ptr()

        if not output.numel():
            return None
        if any(storage(output) == storage(tensor) for tensor in inputs):
            return "its input"
        if any(storage(output) == storage(tensor) for tensor in self._outputs):
            return "an earlier output"
        return None


class DeviceValues:
    """In the device process's memory."""

    def __init__(self, device: ClientDevice) -> None:
        self._device = device
        self._inputs: list[Tensor] = []
        self._output: Tensor | None = None

    def forget(self) -> None:
        """Let inputs and output go."""
        self._inputs, self._output = [], None

    def told(self, tensors: Sequence[Tensor]) -> Answer:
        """Where the tensors are."""
        return {"places": places_of(tensors)}, ()

    def given(self, message: Message) -> Sequence[Tensor]:
        """What lies at the message's places."""
        return [self._device.tensor_at(place) for place in message.header["places"]]

    def keep_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Nothing: the trusted side sees them."""

    def inputs(self, message: Message) -> Sequence[Tensor]:
        """What lies at the message's places: the same tensors where they are the same places."""
        # It has been read; and an output that comes twice the trusted side knows by its allocation.
        self._output = None
        # A submission may have moved or resized the last ones.
        if places_of(self._inputs) != message.header["places"]:
            self._inputs = list(self.given(message))
        return self._inputs

    def checked(self, output: object, inputs: Sequence[Tensor]) -> Answer:
        """Where the output is."""
        if type(output) is not Tensor:
            return {"type": _kind(output)}, ()
        if output.dtype not in DTYPES.values():
            return {"type": f"a tensor of {output.dtype}"}, ()
        is_here = output.device.type == "cuda" and output.layout == torch.strided
        plain = output.resolve_conj().resolve_neg() if is_here else output
        self._output = plain
        # Its memory the trusted side sees; not that it is an input which has got other memory.
        is_input = bool(output.numel()) and any(output is each for each in inputs)
        header = {
            "type": "torch.Tensor",
            "device": output.device.type,
            "shares": "its input" if is_input else None,
            "place": place_of(plain) if is_here else None,
        }
        return header, ()


def _kind(output: object) -> str:
    return f"{type(output).__module__}.{type(output).__qualname__}"
