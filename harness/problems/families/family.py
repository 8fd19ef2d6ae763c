"""The base class of families, which describes any reference to the harness."""

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
from harness.problems.families.interfaces import LinearMap, Need, Sizes
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


class Family:
    """A family, which describes one kind of references to the harness; this one takes any.

    A special family derives from this class, and overrides the attributes and methods for which it
    knows more. What stands here holds for any reference, so a new family can start with few
    methods.

    In all methods, `taken` contains, by name, the reference's own constructor arguments that the
    submission also accepts. `numbers` are integers in the submission's text; `own` is the
    configuration of the reference's file.

    Attributes:
        name: Name that is unique among the families; cases store it.
        neutral: Values with which constructor parameters have no effect, by name, such as stride 1.
        rows_are_independent: True if each output row depends only on its own input row; a batch can
            then be sliced.
        forward_may_refuse: True if a submission may decline a configuration in forward, not only in
            its constructor. If the constructor does not receive the sizes, only forward can decline
            them. A submission that supports only the sizes in the reference's file is then
            legitimate.
        arrangements: Layouts of inputs in memory that are checked besides the contiguous one.
        inputs_are_made: True if only `get_inputs` makes valid inputs; False if any numbers are
            valid inputs.
        runs: The runs of each case; a run has a distribution of inputs and a set of weights. At
            least one run is plain (`Run.is_plain`) and has the set of weights called A.
        weights: Functions that draw the sets of weights of the runs, by the set's name.
        mistakes: Known mistakes of kernels, each as a change of the result of `computation`. If
            several mistakes explain an output, reports name the earlier one first.
    """

    name = "any_reference"
    neutral: Mapping[str, object] = NEUTRAL
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
        """Yield small configurations whose inputs can be extended to more than 2**32 elements.

        In such a configuration, each output position along the last axis depends only on inputs
        near that position.

        By default there are none: a kernel need only support sizes up to those in the file.
        """
        del taken
        return ()

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Return whether a `Model`, built with its own arguments, belongs to the family.

        The method may call the model.

        The default is True: every reference belongs to the family of any reference.
        """
        del model, arguments, inputs
        return True

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield configurations at the edges of the valid sizes, which are always checked.

        By default there are none: the valid values of the parameters are not known.
        """
        del taken
        return ()

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield edge configurations that only matter to kernels with shared memory.

        By default there are none: the valid values of the parameters are not known.
        """
        del taken
        return ()

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Yield configurations that together cover every `strength`-tuple of parameter values.

        By default there are none: the valid values of the parameters are not known.
        """
        del taken, strength
        return ()

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations with sizes near those of `own`, or near `numbers`.

        `own` is the configuration of the reference's file. `numbers` are integers in the
        submission's text.

        By default there are none: `sized` varies the constants alike for all submissions.
        """
        del taken, own, numbers
        return ()

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which each of two thread blocks processes several tiles.

        They are for kernels that launch one block for each multiprocessor; the simulated device has
        two multiprocessors.

        By default there are none: `sized` varies the constants alike for all submissions.
        """
        del taken, own, numbers
        return ()

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which one thread block processes very many tiles.

        There are so many tiles that the block reuses everything, such as the stages of a ring
        buffer and the parities of their barriers.

        By default there are none: `sized` varies the constants alike for all submissions.
        """
        del taken, own, numbers
        return ()

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Return a random configuration, or None if the family does not know the valid ones.

        The default is None: the valid values of the parameters are not known.
        """
        del taken, chance
        return None

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return a random configuration, made by changing the constants in the reference's file.

        The result is None if `drawn` returns a configuration, or if no valid constants are found.
        """
        return random_sizes(sizes, chance)

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return a random configuration with a few sizes other than those of `base`.

        A new size may be one of `numbers`, integers in a submission's text. The result is None if
        the family does not know the valid configurations.

        The default is None: the valid values of the parameters are not known.
        """
        del base, taken, numbers, chance
        return None

    def at_numbers(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return a configuration like `base`, with sizes among `numbers`.

        The numbers are those with which the submission's kernels compare their parameters. The
        result is None if the family does not know the valid configurations.

        The default is None: it is not known which sizes are valid.
        """
        del base, taken, numbers, chance
        return None

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Yield configurations that differ from the given one in a single, smaller size.

        The much smaller sizes come first.

        By default there are none: it is not known which smaller configurations are valid.
        """
        del configuration, taken
        return ()

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return the configuration for which `spell` returns `name`; None if there is none.

        The default is None: an id states only changed constants, and the file is not known here.
        """
        del name, taken
        return None

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Yield configurations with other values of the constants in the reference's file.

        Each test value of a constant occurs in one configuration with strength 2. With strength 3,
        it occurs in two configurations that differ in the other constants.

        The values lie near the sizes of warps, thread blocks and vectors, are small, or have more
        than 16 bits.
        """
        return other_sizes(sizes, turns=strength - 1)

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Yield the configuration of the reference's file, cut down for the simulator.

        Smaller configurations for slow kernels follow. Nothing is yielded if the harness has to cut
        the input shapes instead, in the same way for all references.

        By default, constants are cut down until a call is quick.
        """
        return own_sizes(sizes) if sizes.constants else iter(())

    def largest_exact(self, configuration: Configuration) -> int:
        """Return the largest integer that the distribution `exact` may draw; it is odd.

        float32 must compute the sums of these integers exactly.

        The default is 4095, of 12 bits: float32 sums up to 4095 such integers exactly.
        """
        del configuration
        return LARGEST_EXACT

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return the runs that are not too slow for a configuration of this size.

        The first run is always one of them.

        By default, these are all runs if the inputs have at most 2**17 elements, else those of
        `indispensable`.

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
        """Return the few runs to which a case is limited if its calls take too long.

        By default, these are the run of the reference's own inputs, and those with a few far larger
        numbers.

        One run has large numbers at the ends of tensors, and one at random places inside. If there
        is no run of the first kind, the run with normally distributed inputs is returned instead.
        """
        named = {run.distribution: run for run in runs if run.weights != "D"}
        other = named.get("spike", named.get("normal"))
        return [run for run in runs if run.name in ("own", "peaks") or run is other]

    def spell(self, configuration: Configuration) -> str:
        """Return the id of a configuration's case: short, readable, and the same in every run.

        By default, the id has the changed constants if there are any, else arguments and shapes.
        """
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
        """Return a run's exact output with the error bound of a correct submission.

        By default, the operators of the reference propagate the bounds.

        The bound is an estimate if an operator has no rule, or if tracing changes what is computed.

        Args:
            new_instance: Builds another instance of the reference.
            weights: The run's weights, by name.
            inputs: The run's inputs.
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
        """Return the number of products and elements in a call, or None if they are not known.

        The default is None: the work of a call is not known.
        """
        del configuration
        return None

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> LinearMap | None:
        """Return `Model` as a linear map on a device, or None if it is not known to be one.

        The default is None: a reference is not known to be linear.
        """
        del configuration, weights, device
        return None

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Return the two operands if every output is a sum of their products; else nothing.

        By default, they are the operands of the only matrix product or the only convolution.
        """
        del configuration
        try:
            return factors_of(new_instance().traced(weights, inputs))
        except NoRuleError:
            return ()

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Return whether a kernel may decline the configuration for lack of shared memory.

        The default is False: no configuration may be declined for lack of shared memory.
        """
        del configuration
        return False

    def work(self, configuration: Configuration) -> int:
        """Return a measure of a configuration's size, used to find the smallest failing case.

        By default, it is the number of elements of the inputs.
        """
        return sum(math.prod(shape) for shape in configuration.input_shapes)

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Return properties of a configuration that may explain a failure, by name.

        The properties are sizes and truth values.

        By default, they are the constructor's arguments.
        """
        return configuration.arguments

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """Return the correct computation of a run, for `mistakes` to change, or None if unknown.

        The default is None: there is no list of known mistakes.
        """
        del configuration, weights, inputs
        return None

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return the known mistake that explains wrong output shapes, or an empty string.

        The default is empty: there is no list of known mistakes.

        Args:
            wrong: Configurations, each with the wrong shape of the submission's output.
        """
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


FAMILY = Family()
