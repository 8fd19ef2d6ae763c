"""Any reference at all: what can be said of one of which nothing is known."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from harness.problems.bounds import Expected, Instance, Sums
from harness.problems.configuration import Configuration, InputSpec
from harness.problems.draws import (
    LARGEST_EXACT,
    DrawWeights,
    as_initialised,
    moved,
    sparse,
    whole,
)
from harness.problems.factors import Factor
from harness.problems.families.family import Family, LinearMap, Need, Sizes
from harness.problems.mistakes import Computation, Mistake
from harness.problems.other_sizes import other_sizes, own_sizes, random_sizes
from harness.problems.rounding.expected import Propagated
from harness.problems.rounding.factored import factors_of
from harness.problems.rounding.tracked import NoRuleError
from harness.problems.runs import Arrangement, Run, Weights

NEUTRAL: Mapping[str, object] = MappingProxyType(
    {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1, "bias": False}
)
"""Values with which parameters change nothing that are called as torch's layers call them."""


# A kernel may take a block for each of them.
_MOST_NUMBERS_OF_ALL_RUNS = 1 << 17


class AnyReference:
    """All references.

    The other families derive from this one, and say what they know better. What it says is safe to
    say of anything, so that a family can be made known bit by bit.
    """

    name = "any_reference"
    neutral = NEUTRAL
    rows_are_independent = False
    forward_may_refuse = True
    # What get_inputs gives is contiguous, and may have a structure that another layout breaks.
    arrangements: tuple[Arrangement, ...] = ()
    inputs_are_made = True
    # The specification is Model, not get_inputs: where it is defined, other numbers than the
    # author's count, too. Which those are is tried out (`values.runs_for`).
    runs: tuple[Run, ...] = (
        Run("own", "own", "A"),
        Run("normal", "normal", "C"),
        Run("impulse", "impulse", "A"),
        Run("small", "small", "C"),
        Run("large", "large", "A", otherwise="positive"),
        Run("ties", "ties", "A"),
        Run("integers", "integers", "B"),
        Run("spike", "spike", "C", otherwise="bump"),
        Run("sparse", "normal", "D"),
    )
    weights: Mapping[Weights, DrawWeights] = MappingProxyType(
        {"A": as_initialised, "B": whole, "C": moved, "D": sparse}
    )
    mistakes: Sequence[Mistake[Any]] = ()

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """None: one written for a problem's own sizes counts as far as those."""
        del taken
        return ()

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Every reference is one."""
        del model, arguments, inputs
        return True

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """None: it is not known what its parameters may be."""
        del taken
        return ()

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """None."""
        del taken
        return ()

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """None."""
        del taken, strength
        return ()

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """None: its constants are varied, whatever a submission is made for."""
        del taken, own, numbers
        return ()

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """None."""
        del taken, own, numbers
        return ()

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """None."""
        del taken, own, numbers
        return ()

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """None: it is not known what its parameters may be."""
        del taken, chance
        return None

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Its constants, any that it works with."""
        return random_sizes(sizes, chance)

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """None, as of `drawn`."""
        del base, taken, numbers, chance
        return None

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """None."""
        del configuration, taken
        return ()

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """None: names tell what differs from one reference's constants."""
        del name, taken
        return None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Every constant around warps, blocks and vectors, small, and beyond 16 bits."""
        return other_sizes(sizes, turns=strength - 1)

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Its constants cut alike until a call is quick, and further; none if it states none."""
        return own_sizes(sizes) if sizes.constants else iter(())

    def largest_exact(self, configuration: Configuration) -> int:
        """Of 12 bits, for any sums of up to 4095 terms."""
        del configuration
        return LARGEST_EXACT

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """All of them for small inputs, else the author's own and one in which ends show.

        Among very many numbers what is left out at the end is less than rounding, unless it is far
        larger than the rest.
        """
        is_small = self.work(configuration) <= _MOST_NUMBERS_OF_ALL_RUNS
        return runs if is_small else self.indispensable(runs)

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """The author's own and one in which ends show."""
        named = {run.distribution: run for run in runs if run.weights != "D"}
        other = named.get("spike", named.get("normal"))
        return [run for run in runs if run.name == "own" or run is other]

    def spell(self, configuration: Configuration) -> str:
        """The constants that differ; else the arguments and the shapes, in their order."""
        if configuration.constants:
            return "-".join(f"{name}={value}" for name, value in configuration.constants.items())
        arguments = [f"{name}{value}" for name, value in configuration.arguments.items()]
        shapes = ["x".join(map(str, shape)) for shape in configuration.input_shapes]
        return "-".join([*arguments, *shapes])

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """By the bounds that its operators carry on; estimated where one has no rule."""
        instance = new_instance()
        try:
            traced = instance.traced(weights, inputs)
            right = Propagated(traced.graph, traced.tensors, instance.output_dtype)
        except NoRuleError as error:
            return _estimated(new_instance, weights, inputs, str(error))
        # A new one: what the traced one keeps of its call, such as a mask, has no numbers.
        if right.is_of(new_instance()(weights, inputs)):
            return right
        what = "an operator that torch takes to pieces otherwise than it runs it"
        return _estimated(new_instance, weights, inputs, what)

    def need(self, configuration: Configuration) -> Need | None:
        """Not known."""
        del configuration
        return None

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> LinearMap | None:
        """Not known to be one."""
        del configuration, weights, device
        return None

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Those of its only product of matrices, or of its only convolution."""
        del configuration
        try:
            return factors_of(new_instance().traced(weights, inputs))
        except NoRuleError:
            return ()

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Nothing is declined for the sizes of a configuration."""
        del configuration
        return False

    def work(self, configuration: Configuration) -> int:
        """The number of elements of its inputs."""
        return sum(math.prod(shape) for shape in configuration.input_shapes)

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Its arguments."""
        return configuration.arguments

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """Not known."""
        del configuration, weights, inputs
        return None

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Not known."""
        del wrong
        return ""


def _estimated(
    new_instance: Callable[[], Instance],
    weights: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    of_what: str,
) -> Sums:
    """Judge by the reference's own float32 error; generous, and not rigorous.

    The largest error e that the reference itself makes in float32 stands for a magnitude of
    e / u, beside each output's own. Fed to the formula of the classes with one term, that
    allows 13 times the reference's error in fp32, and roughly 3 v / u times it where operands
    are rounded to v.
    """
    instance = new_instance()
    value = instance(weights, inputs)
    # Who knows what an instance keeps of a call.
    single = new_instance()(weights, inputs, torch.float32)
    error = (single.double() - value).abs()
    largest_error = float(error[error.isfinite()].max()) if error.isfinite().any() else 0.0
    return Sums(
        value=value,
        magnitude=value.abs() + largest_error * 2.0**24,
        terms=torch.ones((), dtype=torch.float64, device=value.device),
        largest_operand=1.0,
        dtype=instance.output_dtype if single.is_floating_point() else single.dtype,
        estimated=f"the bound is an estimate: no bound is known of {of_what}",
    )


FAMILY: Family = AnyReference()
