"""The family of references that are one `nn.ConvTranspose1d` and nothing else.

An output of such a reference is a sum of products, and each of the layer's sizes can be varied. The
class `ConvTranspose1d` derives from `Family`; each other file computes one kind of result.
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
from harness.problems.families.family import Family
from harness.problems.families.interfaces import Need, Sizes
from harness.problems.runs import Run

# Bytes of shared memory that a thread block can ask for on the H200. Since the A100, no GPU has
# more.
_MOST_SHARED_MEMORY = 227 << 10
_NUMBER_BYTES = 4

# Rows are so long that fewer than 65,536 of them exceed what 32 bits count, since a host may launch
# a kernel for each row.
_VAST = Convolution(1, 1, 3, 1, 3 << 15)
_VAST_STRIDED = replace(_VAST, stride=4, length=_VAST.length // 4)
_VAST_CHANNELS = replace(_VAST, in_channels=17, out_channels=17, length=1024)


class ConvTranspose1d(Family):
    """The family of references that are one transposed convolution."""

    name = "conv_transpose1d"
    rows_are_independent = True
    # The constructor receives all sizes that matter; any batch and length are valid inputs.
    forward_may_refuse = False
    arrangements = ("strided", "expanded", "offset", "empty")
    inputs_are_made = False
    # Weights A return after others, and new inputs are written to the same storage. That finds a
    # submission that still uses values from an earlier run.
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
        """Return whether `Model` returns, bit for bit, the output of its only layer.

        The layer must be an `nn.ConvTranspose1d`.
        """
        return is_transposed_convolution(model, arguments, inputs)

    def vast(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """Yield configurations with long rows: of one channel, with a stride, and of 17 channels.

        With one channel, a very large input takes up little of the address space, and several
        blocks share each of its rows. With a stride, the output is longer than the input: a kernel
        may count outputs in 32 bits although it checks the input's length. With 17 channels, a
        single channel has fewer than 2**32 elements, although the whole input has more.
        """
        varied = grid.variable(taken)
        sizes = [_VAST]
        if "stride" in varied:
            sizes.append(_VAST_STRIDED)
        if {"in_channels", "out_channels"} <= {*varied}:
            sizes.append(_VAST_CHANNELS)
        return _configurations(sizes, taken)

    def corners(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """Yield edge configurations, such as a kernel smaller than the stride, or a length of 1."""
        return _configurations(grid.corners(grid.variable(taken)), taken)

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterator[Configuration]:
        """Yield configurations in which an output channel's weights overfill shared memory."""
        return _configurations(grid.shared_memory_corners(grid.variable(taken)), taken)

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterator[Configuration]:
        """Yield configurations that together cover every `strength`-tuple of parameter values."""
        return _configurations(grid.covering(grid.variable(taken), strength), taken)

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """Yield configurations with a size one above or below that of `own`, or near `numbers`.

        `own` is the configuration of the reference's file. `numbers` are integers in the
        submission's text.
        """
        sizes, varied = Convolution.of(own), grid.variable(taken)
        yield from _configurations(aimed.neighbours(sizes, varied), taken)
        yield from _configurations(aimed.around(numbers, sizes, varied), taken)

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """Yield `own` with a batch of 1 and a length of several tiles on each of 2 multiprocessors.

        `numbers` are integers in the submission's text. The largest multiple of 32 among them, up
        to 128, is taken as the width of a tile.
        """
        return _configurations(aimed.many_tiles(numbers, Convolution.of(own)), taken)

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterator[Configuration]:
        """Yield `own` with a batch of 1 and a length of many tiles on one multiprocessor.

        `numbers` are integers in the submission's text. The largest multiple of 32 among them, up
        to 256, is taken as the width of a tile.
        """
        return _configurations(aimed.many_turns(numbers, Convolution.of(own)), taken)

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration:
        """Return a configuration of random sizes, which the grid of cases need not contain."""
        sizes = drawn.any_convolution(grid.variable(taken), chance)
        return next(_configurations([sizes], taken))

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return None, since `drawn` knows the valid sizes."""
        del sizes, chance
        return None

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration:
        """Return a random configuration that differs from `base` in at most three sizes."""
        sizes = drawn.near(Convolution.of(base), grid.variable(taken), numbers, chance)
        return next(_configurations([sizes], taken))

    def at_numbers(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration:
        """Return a configuration with sizes among `numbers`; other sizes are those of `base`."""
        sizes = drawn.at_numbers(Convolution.of(base), grid.variable(taken), numbers, chance)
        return next(_configurations([sizes], taken))

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterator[Configuration]:
        """Yield configurations in which one size is smaller, or one parameter has no effect."""
        sizes = Convolution.of(configuration)
        return _configurations(drawn.simpler(sizes, grid.variable(taken)), taken)

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return the configuration with the id `name`, which may have any valid sizes.

        The result is None if the sizes are not valid, or if the submission lacks a parameter.
        """
        sizes = grid.spelled(name)
        if sizes is None:
            return None
        configuration = next(_configurations([sizes], taken))
        return configuration if self.spell(configuration) == name else None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Return nothing: other methods vary the sizes, whose meaning this family knows."""
        del sizes, strength
        return ()

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Return nothing: instead, the input shape is cut to a small batch and length."""
        del sizes
        return iter(())

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return all runs, whatever the sizes."""
        del configuration
        return runs

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return all runs: each of them is needed."""
        return runs

    def spell(self, configuration: Configuration) -> str:
        """Return an id: kernel size, stride, other parameters that have an effect, and shapes."""
        return grid.spell(Convolution.of(configuration))

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """Return a run's exact output, with Higham's rigorous error bound of each element."""
        # A transposed convolution keeps nothing of a call, so one model serves all of them.
        return rigorous(new_instance(), weights, inputs)

    def need(self, configuration: Configuration) -> Need:
        """Return the number of products and elements in a call, counted from the sizes."""
        return need_of(Convolution.of(configuration))

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> ConvolutionMap:
        """Return the convolution as a linear map, whatever its sizes."""
        weight, bias = weight_and_bias({name: value.to(device) for name, value in weights.items()})
        return ConvolutionMap(Convolution.of(configuration), weight, bias)

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Return the weight and the input, the operands of the products.

        The bias is left out because lost bits of the bias prove nothing: a correct sum may lose
        single bits of the bias too.
        """
        del new_instance
        weight, _ = weight_and_bias(weights)
        return factors_of(Convolution.of(configuration), weight, inputs[0])

    def largest_exact(self, configuration: Configuration) -> int:
        """Return the largest integer input of exact sums; it is larger if a sum has fewer terms."""
        return largest_exact_input(Convolution.of(configuration))

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Return whether the weights of one output channel exceed a block's shared memory."""
        sizes = Convolution.of(configuration)
        channels = sizes.in_channels // sizes.groups
        return _NUMBER_BYTES * channels * sizes.kernel_size > _MOST_SHARED_MEMORY

    def work(self, configuration: Configuration) -> int:
        """Return the number of multiply-adds of a kernel that tries every tap for every output."""
        return Convolution.of(configuration).work

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Return, by name, the layer's parameters, the other sizes, and relations between sizes."""
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
        """Return the correct computation by gathering: an output sums the inputs that reach it."""
        (x,) = inputs
        return Gather.of(Convolution.of(configuration), x, *weight_and_bias(weights))

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return the mistake in the output length or in the channels that explains wrong shapes.

        The result is one sentence, or empty if no known mistake explains all shapes.
        """
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
