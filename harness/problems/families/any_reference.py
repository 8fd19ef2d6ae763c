"""The family of any reference: methods that need no further knowledge of the reference."""

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
# In a sum of fewer numbers, the worst-case error of rounding is smaller than that of leaving out
# any considerable part.
_LEAST_NUMBERS_OF_PEAKS = 1 << 14


class AnyReference:
    """The family of all references, from which the other families derive.

    A special family overrides the methods for which it knows more. All methods here hold for any
    reference, so a new family can start with few methods.
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
        Run("small", "small", "C", elementwise="wide", selecting="far"),
        Run("large", "large", "A", otherwise=("positive",)),
        Run("ties", "ties", "A"),
        Run("integers", "integers", "B"),
        Run("spike", "spike", "C", otherwise=("zeros", "first zeros", "later zeros", "bump")),
        Run("sparse", "normal", "D"),
        Run("peaks", "peaks", "A", otherwise=("positive peaks", "low peaks")),
    )
    weights: Mapping[Weights, DrawWeights] = MappingProxyType(
        {"A": as_initialised, "B": whole, "C": moved, "D": sparse}
    )
    mistakes: Sequence[Mistake[Any]] = ()

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing: a kernel need only support sizes up to those in the reference's file."""
        del taken
        return ()

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Return True: every reference belongs to this family."""
        del model, arguments, inputs
        return True

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing: the valid values of the constructor parameters are not known."""
        del taken
        return ()

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Return nothing: the valid values of the constructor parameters are not known."""
        del taken
        return ()

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Return nothing: the valid values of the constructor parameters are not known."""
        del taken, strength
        return ()

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing: `sized` varies the constants in the same way for all submissions."""
        del taken, own, numbers
        return ()

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing: `sized` varies the constants in the same way for all submissions."""
        del taken, own, numbers
        return ()

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Return nothing: `sized` varies the constants in the same way for all submissions."""
        del taken, own, numbers
        return ()

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Return None: the valid values of the constructor parameters are not known."""
        del taken, chance
        return None

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return a random configuration that the reference accepts; None if none was found."""
        return random_sizes(sizes, chance)

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return None: the valid values of the constructor parameters are not known."""
        del base, taken, numbers, chance
        return None

    def at_numbers(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return None: it is not known which sizes are valid."""
        del base, taken, numbers, chance
        return None

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Return nothing: it is not known which smaller configurations are valid."""
        del configuration, taken
        return ()

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return None: an id states only changed constants, and the file is not known here."""
        del name, taken
        return None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Yield configurations with other values of the constants in the reference's file.

        The values lie near the sizes of warps, thread blocks and vectors, are small, or have more
        than 16 bits.
        """
        return other_sizes(sizes, turns=strength - 1)

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Yield the reference's configuration, with constants cut down until a call is quick.

        Smaller configurations follow. Nothing is yielded if the file states no constants.
        """
        return own_sizes(sizes) if sizes.constants else iter(())

    def largest_exact(self, configuration: Configuration) -> int:
        """Return 4095, an integer of 12 bits; float32 sums up to 4095 such integers exactly."""
        del configuration
        return LARGEST_EXACT

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return all runs if the inputs have at most 2**17 elements, else those of `indispensable`.

        Two runs of `indispensable` have numbers far larger than the others: at the ends of tensors,
        and at random places inside. These runs find kernels that leave out a part of very many
        elements. With other inputs, such a kernel could change the output by less than rounding
        does. The run with large numbers inside is left out below 2**14 elements, where every run
        shows such a kernel.
        """
        numbers = self.work(configuration)
        if numbers > _MOST_NUMBERS_OF_ALL_RUNS:
            return self.indispensable(runs)
        has_peaks = numbers >= _LEAST_NUMBERS_OF_PEAKS
        return [run for run in runs if has_peaks or run.name != "peaks"]

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return the run of the reference's own inputs, and those with a few far larger numbers.

        One run has large numbers at the ends of tensors, and one at random places inside. If there
        is no run of the first kind, the run with normally distributed inputs is returned instead.
        """
        named = {run.distribution: run for run in runs if run.weights != "D"}
        other = named.get("spike", named.get("normal"))
        return [run for run in runs if run.name in ("own", "peaks") or run is other]

    def spell(self, configuration: Configuration) -> str:
        """Return an id: the changed constants if there are any, else arguments and shapes."""
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
        """Return a run's exact output, with error bounds that its operators propagate.

        The bound is an estimate if an operator has no rule, or if tracing changes what is computed.
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
        """Return False: no configuration may be declined for lack of shared memory."""
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
        """Return None: this family has no list of known mistakes."""
        del configuration, weights, inputs
        return None

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return an empty string: this family has no list of known mistakes."""
        del wrong
        return ""


def _estimated(
    new_instance: Callable[[], Instance],
    weights: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    of_what: str,
) -> Sums:
    """Return an output with a bound that is estimated from the reference's own float32 error.

    The bound is generous, but not rigorous. Let e be the largest error of the reference in float32,
    and u the unit roundoff of float32. The formula of `bounds.Sums` is applied to one term with a
    magnitude of |output| + e / u. For fp32, the bound is then at least 25 e. For a precision class
    that rounds operands to unit roundoff v, it is at least about 3 v / u times e.
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
