"""A submission's inputs, weights and outputs, which stay on the device.

The supervisor writes and reads them on the device. Messages contain only their addresses, shapes,
strides and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.messages.channel import DTYPES, Answer, Message
from harness.system.texts import MOST_OF_A_NAME, shortened
from harness.worker.inside.client_device import ClientDevice, place_of, places_of


class DeviceValues:
    """The inputs and outputs of a submission's calls, as tensors on the device."""

    def __init__(self, device: ClientDevice) -> None:
        self._device = device
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []

    def forget(self) -> None:
        """Drop the inputs and outputs of the last call."""
        self._inputs, self._outputs = [], []

    def told(self, tensors: Sequence[Tensor]) -> Answer:
        """Return an answer with the address, shape, strides and dtype of each tensor."""
        return {"places": places_of(tensors)}, ()

    def given(self, message: Message) -> Sequence[Tensor]:
        """Return the device tensors that a message describes by address and layout."""
        return [self._device.tensor_at(place) for place in message.header["places"]]

    def inputs(self, message: Message) -> Sequence[Tensor]:
        """Return the input tensors that a message describes by address and layout.

        They are the same objects as in the last call if none of the inputs has moved.
        """
        # The trusted side has read the last outputs. It finds an output that is returned twice by
        # the serial number of its allocation.
        self._outputs = []
        # The submission may have moved or resized the last inputs.
        if places_of(self._inputs) != message.header["places"]:
            self._inputs = list(self.given(message))
        return self._inputs

    def checked(self, output: object, inputs: Sequence[Tensor]) -> Answer:
        """Return an answer that describes the output of forward: a tensor, or a tuple or list.

        The answer has the type of the output, and the type, address and layout of each tensor.
        """
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
        # The trusted side finds an output that shares an input's memory. It does not see that the
        # output is an input object whose memory was replaced.
        is_input = bool(output.numel()) and any(output is each for each in inputs)
        return {
            "type": _kind(output),
            "device": output.device.type,
            "shares": "its input" if is_input else None,
            "place": place_of(plain) if is_here else None,
        }


def _kind(output: object) -> str:
    kind = f"{type(output).__module__}.{type(output).__qualname__}"
    return shortened(kind, MOST_OF_A_NAME)
