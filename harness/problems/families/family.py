"""The interface of a family of references."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harness.problems.bounds import Arithmetic, Expected, Instance
from harness.problems.configuration import Configuration, InputSpec
from harness.problems.draws import DrawWeights
from harness.problems.factors import Factor
from harness.problems.mistakes import Computation, Mistake
from harness.problems.runs import Arrangement, Run, Weights


@dataclass(frozen=True)
class Need:
    """The work of one call, and the data that it reads and writes.

    Attributes:
        products: Number of multiplications whose results are summed, over all outputs.
        numbers: Number of elements in input, weight and output together.
        operands: Number of elements in input and weight.
        inputs: Number of elements in the input.
        has_terms: For each output position, whether anything besides the bias is summed; bool, in
            the shape of the output's last dimensions.
    """

    products: int
    numbers: int
    operands: int
    inputs: int
    has_terms: Tensor


class LinearMap(Protocol):
    """A `Model` with fixed weights as an affine map, y = A x + b for each row of the batch."""

    def adjoint(self, signs: Tensor) -> Tensor:
        """Return A' r for signs r, where A' is the adjoint of A.

        Args:
            signs: r, random numbers 1 and -1 in the shape of an output row; float64.

        Returns:
            A tensor in the shape of an input row; float64.
        """

    def offset(self, signs: Tensor) -> float:
        """Return <r, b>, the inner product of signs r and the offset b."""

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Return the sum of the squares of all outputs' error bounds, for one row of inputs.

        The bounds hold for inputs of at most 1 in absolute value.
        """


class Sizes(Protocol):
    """A reference whose integer constants can be given other values than those in its file."""

    @property
    def constants(self) -> Mapping[str, int]:
        """Values of the constants in the reference's file, by name."""

    @property
    def of_inputs(self) -> frozenset[str]:
        """Names of the constants that determine the inputs."""

    @property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of the constants that are 1 because a weight is broadcast along a dimension."""

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """Return the configuration for these constants; None if the reference rejects them."""

    def is_within(self, constants: Mapping[str, int], most: int) -> bool:
        """Return whether the work of a call (elements and multiplications) is at most `most`.

        The result is False if the reference does not accept these constants.
        """


class Family(Protocol):
    """The interface of a family, a class that describes one kind of references to the harness.

    In all methods, `taken` contains, by name, the reference's own constructor arguments that the
    submission also accepts. `numbers` are integers in the submission's text; `own` is the
    configuration of the reference's file.
    """

    @property
    def name(self) -> str:
        """Name that is unique among the families; cases store it."""

    @property
    def neutral(self) -> Mapping[str, object]:
        """Values with which constructor parameters have no effect, by name, such as stride 1."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of each case; a run has a distribution of inputs and a set of weights.

        At least one run is plain (`Run.is_plain`) and has the set of weights called A.
        """

    @property
    def weights(self) -> Mapping[Weights, DrawWeights]:
        """Functions that draw the sets of weights of the runs, by the set's name."""

    @property
    def rows_are_independent(self) -> bool:
        """True if each output row depends only on its own input row; a batch can then be sliced."""

    @property
    def forward_may_refuse(self) -> bool:
        """True if a submission may decline a configuration in forward, not only in its constructor.

        If the constructor does not receive the sizes, only forward can decline them. A submission
        that supports only the sizes in the reference's file is then legitimate.
        """

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Layouts of inputs in memory that are checked besides the contiguous one."""

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield small configurations whose inputs can be extended to more than 2**32 elements.

        In such a configuration, each output position along the last axis depends only on inputs
        near that position.
        """

    @property
    def inputs_are_made(self) -> bool:
        """True if only `get_inputs` makes valid inputs; False if any numbers are valid inputs."""

    @property
    def mistakes(self) -> Sequence[Mistake[Any]]:
        """Known mistakes of kernels, each as a change of the result of `computation`.

        If several mistakes explain an output, reports name the earlier one first.
        """

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Return whether a `Model`, built with its own arguments, belongs to the family.

        The method may call the model.
        """

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield configurations at the edges of the valid sizes, which are always checked."""

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield edge configurations that only matter to kernels with shared memory."""

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Yield configurations that together cover every `strength`-tuple of parameter values."""

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations with sizes near those of `own`, or near `numbers`.

        `own` is the configuration of the reference's file. `numbers` are integers in the
        submission's text.
        """

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which each of two thread blocks processes several tiles.

        They are for kernels that launch one block for each multiprocessor; the simulated device has
        two multiprocessors.
        """

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which one thread block processes very many tiles.

        There are so many tiles that the block reuses everything, such as the stages of a ring
        buffer and the parities of their barriers.
        """

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Return a random configuration, or None if the family does not know the valid ones."""

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return a random configuration, made by changing the constants in the reference's file.

        The result is None if `drawn` returns a configuration, or if no valid constants are found.
        """

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
        """

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
        """

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Yield configurations that differ from the given one in a single, smaller size.

        The much smaller sizes come first.
        """

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return the configuration for which `spell` returns `name`; None if there is none."""

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Yield configurations with other values of the constants in the reference's file.

        Each test value of a constant occurs in one configuration with strength 2. With strength 3,
        it occurs in two configurations that differ in the other constants.
        """

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Yield the configuration of the reference's file, cut down for the simulator.

        Smaller configurations for slow kernels follow. Nothing is yielded if the harness has to cut
        the input shapes instead, in the same way for all references.
        """

    def largest_exact(self, configuration: Configuration) -> int:
        """Return the largest integer that the distribution `exact` may draw; it is odd.

        float32 must compute the sums of these integers exactly.
        """

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return the runs that are not too slow for a configuration of this size.

        The first run is always one of them.
        """

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return the few runs to which a case is limited if its calls take too long."""

    def spell(self, configuration: Configuration) -> str:
        """Return the id of a configuration's case: short, readable, and the same in every run."""

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """Return a run's exact output with the error bound of a correct submission.

        Args:
            new_instance: Builds another instance of the reference.
            weights: The run's weights, by name.
            inputs: The run's inputs.
        """

    def need(self, configuration: Configuration) -> Need | None:
        """Return the number of products and elements in a call, or None if they are not known."""

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> LinearMap | None:
        """Return `Model` as a linear map on a device, or None if it is not known to be one."""

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """Return the two operands if every output is a sum of their products; else nothing."""

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Return whether a kernel may decline the configuration for lack of shared memory."""

    def work(self, configuration: Configuration) -> int:
        """Return a measure of a configuration's size, used to find the smallest failing case."""

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Return properties of a configuration that may explain a failure, by name.

        The properties are sizes and truth values.
        """

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """Return the correct computation of a run, for `mistakes` to change, or None if unknown."""

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return the known mistake that explains wrong output shapes, or an empty string.

        Args:
            wrong: Configurations, each with the wrong shape of the submission's output.
        """
