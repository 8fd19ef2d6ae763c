"""One `nn.ConvTranspose1d` and nothing else: a sum of products, whose every size can be varied.

The class answers what `families/family.py` asks; each file here has one kind of answer.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from harness.problems.bounds import Expected, Instance
from harness.problems.configuration import Configuration, InputSpec
from harness.problems.draws import as_initialised
from harness.problems.factors import Factor
from harness.problems.families.any_reference import AnyReference
from harness.problems.families.conv_transpose1d import aimed, drawn, grid
from harness.problems.families.conv_transpose1d.computation import Gather
from harness.problems.families.conv_transpose1d.factors import factors_of
from harness.problems.families.conv_transpose1d.lengths import explain_shapes
from harness.problems.families.conv_transpose1d.linear import (
    ConvolutionMap,
    rigorous,
    weight_and_bias,
)
from harness.problems.families.conv_transpose1d.mistakes import MISTAKES
from harness.problems.families.conv_transpose1d.need import need_of
from harness.problems.families.conv_transpose1d.recognition import is_transposed_convolution
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.conv_transpose1d.weights import (
    exact_weights,
    largest_exact_input,
    lone_weights,
)
from harness.problems.families.family import Family, Need, Sizes
from harness.problems.runs import Run

# Bytes that a thread block can ask for on the H200, and on every GPU since the A100 at most.
_MOST_SHARED_MEMORY = 227 << 10
_NUMBER_BYTES = 4

# Of so long rows fewer than 65,536 are more than 32 bits count: there may be a launch for each.
_VAST = Convolution(1, 1, 3, 1, 3 << 15)
_VAST_STRIDED = replace(_VAST, stride=4, length=_VAST.length // 4)
_VAST_CHANNELS = replace(_VAST, in_channels=17, out_channels=17, length=1024)


class ConvTranspose1d(AnyReference):
    """The family of references that are one transposed convolution."""

    name = "conv_transpose1d"
    rows_are_independent = True
    # Its constructor is told all that matters; any batch and any length are inputs of it.
    forward_may_refuse = False
    arrangements = ("strided", "expanded", "offset", "empty")
    inputs_are_made = False
    # Weights that come back, and new inputs in the same storage, find a submission that still uses
    # what it made of an earlier run's.
    runs = (
        Run("uniform", "uniform", "A"),
        Run("normal", "normal", "A"),
        Run("impulse", "impulse", "A"),
        Run("small", "tiny", "A"),
        Run("large", "huge", "A"),
        Run("exact", "exact", "B"),
        Run("changed", "uniform", "C"),
    )
    weights = MappingProxyType({"A": as_initialised, "B": exact_weights, "C": lone_weights})
    mistakes = MISTAKES

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Whether it gives, bit for bit, what its only layer gives."""
        return is_transposed_convolution(model, arguments, inputs)

    def vast(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """One channel, so that few addresses are taken; of blocks that share a row, several.

        With a stride the output is longer than its input: who counts the one in 32 bits may look
        at the length of the other alone. And a few channels, whose numbers are too many together.
        """
        varied = grid.variable(taken)
        sizes = [_VAST]
        if "stride" in varied:
            sizes.append(_VAST_STRIDED)
        if {"in_channels", "out_channels"} <= {*varied}:
            sizes.append(_VAST_CHANNELS)
        return _configurations(sizes, taken)

    def corners(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """Edges of the sizes, such as a kernel smaller than the stride, or one position."""
        return _configurations(grid.corners(grid.variable(taken)), taken)

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """Weights of one output channel that a block's shared memory cannot hold."""
        return _configurations(grid.shared_memory_corners(grid.variable(taken)), taken)

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterator[Configuration]:
        """A covering array over the sizes that can be varied."""
        return _configurations(grid.covering(grid.variable(taken), strength), taken)

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """One beside the problem's own sizes, and around the numbers."""
        sizes, varied = Convolution.of(own), grid.variable(taken)
        yield from _configurations(aimed.neighbours(sizes, varied), taken)
        yield from _configurations(aimed.around(numbers, sizes, varied), taken)

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """The own sizes, with tiles of the largest block among the numbers."""
        return _configurations(aimed.many_tiles(numbers, Convolution.of(own)), taken)

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """The own sizes, with more tiles of a larger block."""
        return _configurations(aimed.many_turns(numbers, Convolution.of(own)), taken)

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration:
        """Sizes between the grid's and beyond."""
        sizes = drawn.any_convolution(grid.variable(taken), chance)
        return next(_configurations([sizes], taken))

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """None: see `drawn`."""
        del sizes, chance
        return None

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration:
        """Up to three sizes are others."""
        sizes = drawn.near(Convolution.of(base), grid.variable(taken), numbers, chance)
        return next(_configurations([sizes], taken))

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterator[Configuration]:
        """Towards what is neutral, and towards 1."""
        sizes = Convolution.of(configuration)
        return _configurations(drawn.simpler(sizes, grid.variable(taken)), taken)

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Of any valid sizes that a submission with these parameters can be asked for."""
        sizes = grid.spelled(name)
        if sizes is None:
            return None
        configuration = next(_configurations([sizes], taken))
        return configuration if self.spell(configuration) == name else None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """None: its sizes are varied by what they mean."""
        del sizes, strength
        return ()

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """None: its shapes are cut, to a small batch and length."""
        del sizes
        return iter(())

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """All of them."""
        del configuration
        return runs

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """All of them."""
        return runs

    def spell(self, configuration: Configuration) -> str:
        """Kernel and stride, then what is not neutral, then the shapes."""
        return grid.spell(Convolution.of(configuration))

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """Higham's bound, element by element; rigorous."""
        # It keeps nothing of a call: one model serves them all.
        return rigorous(new_instance(), weights, inputs)

    def need(self, configuration: Configuration) -> Need:
        """Counted from the sizes."""
        return need_of(Convolution.of(configuration))

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> ConvolutionMap:
        """It is one, whatever its sizes."""
        weight, bias = weight_and_bias({name: value.to(device) for name, value in weights.items()})
        return ConvolutionMap(Convolution.of(configuration), weight, bias)

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Its weight and its input; of a bias, single bits are lost in honest sums, too."""
        del new_instance
        weight, _ = weight_and_bias(weights)
        return factors_of(Convolution.of(configuration), weight, inputs[0])

    def largest_exact(self, configuration: Configuration) -> int:
        """The fewer terms its sums have, the more bits."""
        return largest_exact_input(Convolution.of(configuration))

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Whether the weights of one output channel are more than a thread block can keep."""
        sizes = Convolution.of(configuration)
        channels = sizes.in_channels // sizes.groups
        return _NUMBER_BYTES * channels * sizes.kernel_size > _MOST_SHARED_MEMORY

    def work(self, configuration: Configuration) -> int:
        """Multiply-adds."""
        return Convolution.of(configuration).work

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Parameters, then the other sizes, then what relates them."""
        c = Convolution.of(configuration)
        sizes = asdict(c)
        parameters = {name: sizes[name] for name in self.neutral}
        others = {name: value for name, value in sizes.items() if name not in self.neutral}
        taps = c.dilation * (c.kernel_size - 1)
        return {
            **parameters,
            **others,
            "output_length": c.output_length,
            "a kernel smaller than the stride": c.kernel_size < c.stride,
            "padding beyond dilation * (kernel_size - 1)": c.padding > taps,
            "as many groups as input channels": c.groups == c.in_channels,
            "more output than input channels": c.out_channels > c.in_channels,
        }

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Gather:
        """Gathering: every output looks for the inputs that reach it."""
        (x,) = inputs
        return Gather.of(Convolution.of(configuration), x, *weight_and_bias(weights))

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """By the known mistakes in the formula of the length, or by another number of channels."""
        return explain_shapes([(Convolution.of(one), shape) for one, shape in wrong])


def _configurations(
    convolutions: Iterable[Convolution], taken: Mapping[str, object]
) -> Iterator[Configuration]:
    for each in convolutions:
        yield Configuration(
            arguments={name: getattr(each, name, value) for name, value in taken.items()},
            input_shapes=((each.batch, each.in_channels, each.length),),
            input_dtypes=("float32",),
        )


FAMILY: Family = ConvTranspose1d()
