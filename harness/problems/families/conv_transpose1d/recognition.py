"""Recognition of references that are one `nn.ConvTranspose1d` and nothing else."""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import nn

from harness.problems.configuration import InputSpec
from harness.problems.families.family import NEUTRAL

_REQUIRED = {"in_channels", "out_channels", "kernel_size"}
_PROBE_LENGTH = 4


def is_transposed_convolution(
    model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
) -> bool:
    """Return whether `Model` only calls a ConvTranspose1d, its only module with parameters.

    The model and the convolution are called, and their outputs compared. The list of modules is not
    enough: a reference may apply an activation after the convolution. The error bound of a plain
    sum does not hold then.

    Raises:
        Exception: Any exception that `Model` raises on a small input.
    """
    owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    if len(owners) != 1 or type(owners[0]) is not nn.ConvTranspose1d:
        return False
    if len(inputs) != 1 or len(inputs[0].shape) != 3 or inputs[0].dtype != "float32":
        return False
    sizes = (_REQUIRED | NEUTRAL.keys()) & arguments.keys()
    if not sizes >= _REQUIRED or not all(isinstance(arguments[n], int) for n in sizes):
        return False
    return _same_as(model, owners[0])


def _same_as(model: nn.Module, convolution: nn.ConvTranspose1d) -> bool:
    """Return whether model and convolution return the same bits for a short random input."""
    generator = torch.Generator().manual_seed(0)
    length = _PROBE_LENGTH + 2 * cast("int", convolution.padding[0])
    x = torch.randn(1, convolution.in_channels, length, generator=generator)
    with torch.no_grad():
        return torch.equal(model(x), convolution(x))
