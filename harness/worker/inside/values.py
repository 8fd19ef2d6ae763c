"""How inputs, weights and outputs come to a submission and go: on the device.

The trusted side has put them there, and reads them there: only their places are told.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.messages.channel import DTYPES, Answer, Message
from harness.worker.inside.client_device import ClientDevice, place_of, places_of


class Values:
    """Of one submission."""

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
