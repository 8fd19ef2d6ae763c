"""The family of any reference: what holds without further knowledge of it."""

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
"""Values with which parameters of torch's layers change nothing, by the parameters' names."""


# Above this many inputs a case has only the indispensable runs: a kernel may use a block for each
# number, which takes long on the simulator.
_MOST_NUMBERS_OF_ALL_RUNS = 1 << 17


class AnyReference:
    """The family of all references, which the other families derive from.

    They override what they know better. All that this class says holds for any reference, so that a
    new family can start with few methods.
    """

    name = "any_reference"
    neutral = NEUTRAL
    rows_are_independent = False
    forward_may_refuse = True
    # The inputs of get_inputs are contiguous, and may have a structure that another layout breaks.
    arrangements: tuple[Arrangement, ...] = ()
    inputs_are_made = True
    # The specification is Model, not get_inputs: it also has to hold for numbers other than the
    # author's, wherever it is defined. `values.runs_for` finds out where that is, by trying.
    runs: tuple[Run, ...] = (
        Run("own", "own", "A"),
        Run("normal", "normal", "C"),
        Run("impulse", "impulse", "A"),
        Run("small", "small", "C"),
        Run("large", "large", "A", otherwise=("positive",)),
        Run("ties", "ties", "A"),
        Run("integers", "integers", "B"),
        Run("spike", "spike", "C", otherwise=("zeros", "first zeros", "later zeros", "bump")),
        Run("sparse", "normal", "D"),
    )
    weights: Mapping[Weights, DrawWeights] = MappingProxyType(
        {"A": as_initialised, "B": whole, "C": moved, "D": sparse}
    )
    mistakes: Sequence[Mistake[Any]] = ()

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing: a kernel for a problem's own sizes only has to count as far as those."""
        del taken
        return ()

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Return True: every reference belongs to this family."""
        del model, arguments, inputs
        return True

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing: the valid values of the parameters are not known."""
        del taken
        return ()

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing, as `corners` does."""
        del taken
        return ()

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Return nothing, as `corners` does."""
        del taken, strength
        return ()

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing: the constants are varied, whatever a submission is made for."""
        del taken, own, numbers
        return ()

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing, as `aimed` does."""
        del taken, own, numbers
        return ()

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing, as `aimed` does."""
        del taken, own, numbers
        return ()

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Return None: the valid values of the parameters are not known."""
        del taken, chance
        return None

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return a random configuration that the reference works with."""
        return random_sizes(sizes, chance)

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return None, as `drawn` does."""
        del base, taken, numbers, chance
        return None

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Return nothing: the order of valid configurations is not known."""
        del configuration, taken
        return ()

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return None: an id only names what differs from one reference's own constants."""
        del name, taken
        return None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Yield configurations in which the constants have values around warps, blocks and vectors.

        Other values are small, or beyond 16 bits.
        """
        return other_sizes(sizes, turns=strength - 1)

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Yield the problem's own configuration with its constants cut down until a call is quick.

        Smaller ones follow. There are none if the file states no constants.
        """
        return own_sizes(sizes) if sizes.constants else iter(())

    def largest_exact(self, configuration: Configuration) -> int:
        """Return a number of 12 bits, which suits sums of up to 4095 terms."""
        del configuration
        return LARGEST_EXACT

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return all runs for small inputs, else only the indispensable ones.

        A run with far larger numbers at the ends is one of these. Among very many numbers of one
        size, a kernel that leaves out the last one errs by less than rounding.
        """
        is_small = self.work(configuration) <= _MOST_NUMBERS_OF_ALL_RUNS
        return runs if is_small else self.indispensable(runs)

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return the run of the author's own inputs, and one whose ends are far larger numbers."""
        named = {run.distribution: run for run in runs if run.weights != "D"}
        other = named.get("spike", named.get("normal"))
        return [run for run in runs if run.name == "own" or run is other]

    def spell(self, configuration: Configuration) -> str:
        """Return the constants that differ, or else the arguments and shapes in their order."""
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
        """Return an output with the bounds that its operators propagate.

        The bound is an estimate if an operator has no rule.
        """
        instance = new_instance()
        # A rigorous bound needs a rule for each operator, and a trace that computes the same as the
        # reference. Without either, the reference's own float32 error stands in for it.
        try:
            traced = instance.traced(weights, inputs)
            right = Propagated(traced.graph, traced.tensors, instance.output_dtype)
        except NoRuleError as error:
            return _estimated(new_instance, weights, inputs, str(error))
        # Use a new instance: a mask that the traced one keeps from its call has no values.
        if right.is_of(new_instance()(weights, inputs)):
            return right
        what = "an operator that torch decomposes differently than it runs it"
        return _estimated(new_instance, weights, inputs, what)

    def need(self, configuration: Configuration) -> Need | None:
        """Return None: the work of a call is not known."""
        del configuration
        return None

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> LinearMap | None:
        """Return None: the reference is not known to be linear."""
        del configuration, weights, device
        return None

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Return the operands of the reference's only matrix product or only convolution."""
        del configuration
        try:
            return factors_of(new_instance().traced(weights, inputs))
        except NoRuleError:
            return ()

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Return False: no configuration may be declined for that."""
        del configuration
        return False

    def work(self, configuration: Configuration) -> int:
        """Return the number of elements of the inputs."""
        return sum(math.prod(shape) for shape in configuration.input_shapes)

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Return the constructor's arguments."""
        return configuration.arguments

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """Return None: no mistakes are known."""
        del configuration, weights, inputs
        return None

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return an empty string: no mistakes are known."""
        del wrong
        return ""


def _estimated(
    new_instance: Callable[[], Instance],
    weights: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    of_what: str,
) -> Sums:
    """Return an output with a bound that is estimated from the reference's own float32 error.

    The bound is generous, but not rigorous. With e the largest error that the reference makes in
    float32, each output's magnitude is its own plus e / u. The formula of the classes is then used
    with one term. In fp32 it allows 25 times the reference's error. Where operands are rounded to
    unit roundoff v, it allows about 3 v / u times that error.
    """
    instance = new_instance()
    value = instance(weights, inputs)
    # Use a new instance, since the first may keep something from its call.
    single = new_instance()(weights, inputs, torch.float32)
    error = (single.double() - value).abs()
    largest_error = float(error[error.isfinite()].max()) if error.isfinite().any() else 0.0
    return Sums(
        value=value,
        magnitude=value.abs() + largest_error * 2.0**24,
        terms=torch.ones((), dtype=torch.float64, device=value.device),
        largest_operand=1.0,
        dtype=instance.output_dtype if single.is_floating_point() else single.dtype,
        estimated=f"the error bound is an estimate: no exact bound is known for {of_what}",
    )


FAMILY: Family = AnyReference()
