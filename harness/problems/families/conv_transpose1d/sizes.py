"""The sizes of a transposed convolution, with its output length, work and number of terms."""

import math
from dataclasses import dataclass, fields
from typing import Any, Self

from harness.problems.configuration import Configuration


@dataclass(frozen=True)
class Convolution:
    """The sizes of one transposed convolution of x (batch, in_channels, length).

    The fields that are not listed here are the arguments of `nn.ConvTranspose1d`.

    Attributes:
        batch: Number of rows of the input.
        length: Number of positions of the input.
    """

    in_channels: int
    out_channels: int
    kernel_size: int
    batch: int
    length: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    dilation: int = 1
    groups: int = 1
    bias: bool = False

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """Return the sizes of a configuration; parameters missing from it have no effect."""
        batch, _, length = configuration.input_shapes[0]
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {k: v for k, v in configuration.arguments.items() if k in known}
        return cls(batch=batch, length=length, **given)

    @property
    def output_length(self) -> int:
        """Number of output positions, as `nn.ConvTranspose1d` documents it."""
        taps = self.dilation * (self.kernel_size - 1)
        return (self.length - 1) * self.stride - 2 * self.padding + taps + self.output_padding + 1

    @property
    def work(self) -> int:
        """Multiply-adds of a kernel that tries every tap for every output position."""
        outputs = self.batch * self.out_channels * self.output_length
        return outputs * (self.in_channels // self.groups) * self.kernel_size

    @property
    def products(self) -> int:
        """Multiply-adds of a kernel that skips the taps whose input position does not exist."""
        terms = 0
        for tap in range(self.kernel_size):
            # Input i meets output i * stride - padding + tap * dilation.
            shift = tap * self.dilation - self.padding
            first = max(0, math.ceil(-shift / self.stride))
            last = min(self.length - 1, (self.output_length - 1 - shift) // self.stride)
            terms += max(0, last - first + 1)
        return self.batch * self.out_channels * (self.in_channels // self.groups) * terms

    @property
    def most_terms(self) -> int:
        """The largest number of products in one output's sum.

        Taps contribute to the same sum if their offsets (tap * dilation) differ by a multiple of
        the stride.

        >>> Convolution(8, 1, 5, 1, 9, stride=4, dilation=2).most_terms
        24
        """
        # Taps this many apart reach the same output from different input positions.
        apart = self.stride // math.gcd(self.stride, self.dilation)
        return self.in_channels // self.groups * math.ceil(self.kernel_size / apart)

    @property
    def is_valid(self) -> bool:
        """True if PyTorch accepts these sizes and the output is not empty."""
        return (
            self.output_length >= 1
            and self.output_padding < max(self.stride, self.dilation)
            and self.in_channels % self.groups == 0
            and self.out_channels % self.groups == 0
        )
