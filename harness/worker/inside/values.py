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
        self._outputs: list[Tensor] = []

    def forget(self) -> None:
        """Let inputs and outputs go."""
        self._inputs, self._outputs = [], []

    def told(self, tensors: Sequence[Tensor]) -> Answer:
        """Where the tensors are."""
        return {"places": places_of(tensors)}, ()

    def given(self, message: Message) -> Sequence[Tensor]:
        """What lies at the message's places."""
        return [self._device.tensor_at(place) for place in message.header["places"]]

    def inputs(self, message: Message) -> Sequence[Tensor]:
        """What lies at the message's places: the same tensors where they are the same places."""
        # They have been read; and one that comes twice the trusted side knows by its allocation.
        self._outputs = []
        # A submission may have moved or resized the last ones.
        if places_of(self._inputs) != message.header["places"]:
            self._inputs = list(self.given(message))
        return self._inputs

    def checked(self, output: object, inputs: Sequence[Tensor]) -> Answer:
        """Where the output is, or each of several in a tuple or a list."""
        outputs = output if isinstance(output, tuple | list) else [output]
        told = [self._told_of(each, inputs) for each in outputs]
        return {"type": _kind(output), "outputs": told}, ()

    def _told_of(self, output: object, inputs: Sequence[Tensor]) -> dict[str, object]:
        nowhere = {"device": "", "shares": None, "place": None}
        if type(output) is not Tensor:
            return {"type": _kind(output), **nowhere}
        if output.dtype not in DTYPES.values():
            return {"type": f"a tensor of {output.dtype}", **nowhere}
        is_here = output.device.type == "cuda" and output.layout == torch.strided
        plain = output.resolve_conj().resolve_neg() if is_here else output
        self._outputs.append(plain)
        # Its memory the trusted side sees; not that it is an input which has got other memory.
        is_input = bool(output.numel()) and any(output is each for each in inputs)
        return {
            "type": _kind(output),
            "device": output.device.type,
            "shares": "its input" if is_input else None,
            "place": place_of(plain) if is_here else None,
        }


def _kind(output: object) -> str:
    return f"{type(output).__module__}.{type(output).__qualname__}"
