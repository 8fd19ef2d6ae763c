"""A submission's inputs, weights and outputs, which stay on the device.

The supervisor writes and reads them on the device. Messages contain only their addresses, shapes,
strides and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.device.place import Place
from harness.finding import Finding
from harness.messages.channel import DTYPES
from harness.system.texts import MOST_OF_A_NAME, shortened
from harness.worker.inside.client_device import ClientDevice, place_of, places_of
from harness.worker.steps import ClaimedOutput, Remark, Returned


class DeviceValues:
    """The inputs and outputs of a submission's calls, as tensors on the device."""

    def __init__(self, device: ClientDevice) -> None:
        self._device = device
        self._inputs: list[Tensor] = []
        self._outputs: list[Tensor] = []

    def forget(self) -> None:
        """Drop the inputs and outputs of the last call."""
        self._inputs, self._outputs = [], []

    def at(self, places: Sequence[Place]) -> Sequence[Tensor]:
        """Return the device tensors with these addresses and layouts."""
        return [self._device.tensor_at(place) for place in places]

    def inputs(self, places: Sequence[Place]) -> Sequence[Tensor]:
        """Return the input tensors with these addresses and layouts.

        They are the same objects as in the last call if none of the inputs has moved.
        """
        # The trusted side has read the last outputs. It finds an output that is returned twice by
        # the serial number of its allocation.
        self._outputs = []
        # The submission may have moved or resized the last inputs.
        if places_of(self._inputs) != places:
            self._inputs = list(self.at(places))
        return self._inputs

    def returned(
        self, output: object, inputs: Sequence[Tensor], findings: Sequence[Finding]
    ) -> Returned:
        """Return an answer that describes the output of forward: a tensor, or a tuple or list.

        Args:
            output: What forward has returned.
            inputs: The inputs of the call.
            findings: What was found in the call.
        """
        outputs = output if isinstance(output, tuple | list) else [output]
        told = tuple(self._claimed(each, inputs) for each in outputs)
        return Returned(_kind(output), told, tuple(map(Remark.of, findings)))

    def _claimed(self, output: object, inputs: Sequence[Tensor]) -> ClaimedOutput:
        if type(output) is not Tensor:
            return ClaimedOutput(_kind(output))
        if output.dtype not in DTYPES.values():
            return ClaimedOutput(f"a tensor of {output.dtype}")
        is_here = output.device.type == "cuda" and output.layout == torch.strided
        plain = output.resolve_conj().resolve_neg() if is_here else output
        self._outputs.append(plain)
        # The trusted side finds an output that shares an input's memory. It does not see that the
        # output is an input object whose memory was replaced.
        is_input = bool(output.numel()) and any(output is each for each in inputs)
        return ClaimedOutput(
            _kind(output),
            output.device.type,
            "its input" if is_input else None,
            place_of(plain) if is_here else None,
        )


def _kind(output: object) -> str:
    kind = f"{type(output).__module__}.{type(output).__qualname__}"
    return shortened(kind, MOST_OF_A_NAME)
