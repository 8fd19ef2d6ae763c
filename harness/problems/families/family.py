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
    """Amount of work and data of a call.

    Attributes:
        products: Number of products that are summed in all outputs.
        numbers: Numbers in input, weight and output together.
        operands: Numbers in input and weight.
        inputs: Numbers in the input.
        has_terms: For each output position, whether anything besides the bias is summed there;
            bool, in the shape of the output's last dimensions.
    """

    products: int
    numbers: int
    operands: int
    inputs: int
    has_terms: Tensor


class LinearMap(Protocol):
    """A `Model` with its weights as an affine map, y = A x + b for each row of the batch."""

    def adjoint(self, signs: Tensor) -> Tensor:
        """Return A' r for signs r.

        Args:
            signs: r, in the shape of an output row; float64.

        Returns:
            A tensor in the shape of an input row; float64.
        """

    def offset(self, signs: Tensor) -> float:
        """Return <r, b>, the product of signs r and the bias."""

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Return the sum of the squares of all outputs' error bounds.

        It is for one row of inputs up to 1 in absolute value.
        """


class Sizes(Protocol):
    """A reference with other values for the integer constants that its file states."""

    @property
    def constants(self) -> Mapping[str, int]:
        """The file's own values of the constants, by name."""

    @property
    def of_inputs(self) -> frozenset[str]:
        """Names of the constants that the inputs are made from."""

    @property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of the constants that are 1 because a weight is the same along a dimension."""

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """Return the configuration for some values of the constants.

        It is None if the reference does not work with them.
        """

    def is_within(self, constants: Mapping[str, int], most: int) -> bool:
        """Return whether a call reads, makes, multiplies or keeps at most so many numbers.

        It is False if the reference does not work with these values.
        """


class Family(Protocol):
    """The interface of one kind of references.

    `taken` are those of the problem's own constructor arguments that the submission takes as well.
    """

    @property
    def name(self) -> str:
        """Name that is unique among the families; cases store it."""

    @property
    def neutral(self) -> Mapping[str, object]:
        """Values with which constructor parameters change nothing, by name."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of each case; at least one is plain and has weights A."""

    @property
    def weights(self) -> Mapping[Weights, DrawWeights]:
        """Functions that draw each set of weights in its runs."""

    @property
    def rows_are_independent(self) -> bool:
        """True if each row of a batch is computed by itself, so that a batch can be sliced."""

    @property
    def forward_may_refuse(self) -> bool:
        """True if a submission may decline a configuration in forward, not only in its constructor.

        Where no constructor receives the sizes, only forward can decline them, and a submission for
        the problem's own sizes is fair.
        """

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Layouts of inputs in memory that are checked besides the contiguous one."""

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield small configurations whose inputs can be extended beyond what 32 bits count.

        Along the last axis, each output position has to depend on inputs near that position.
        """

    @property
    def inputs_are_made(self) -> bool:
        """True if `get_inputs` has to make the inputs; False if any numbers will do."""

    @property
    def mistakes(self) -> Sequence[Mistake[Any]]:
        """Known mistakes, as changes of `computation`.

        If several fit an output, the earlier is named first.
        """

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Return whether a `Model`, built with its own arguments, belongs to the family.

        The method may call the model.
        """

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield edge configurations, which are always cases."""

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Yield edge configurations that only matter to kernels with shared memory."""

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Yield configurations that cover every combination of `strength` parameter values."""

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations around the problem's own sizes and a submission's numbers."""

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which each of two blocks processes several tiles.

        They are for kernels that launch a block for each multiprocessor, of which there are two.
        """

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Yield configurations in which one block processes very many tiles.

        They are so many that whatever the block reuses comes round, such as the stages of a ring
        and the parity of their barriers.
        """

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Return a random configuration, or None if the valid ones are not known."""

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """Return a random configuration of a reference that is known by its constants alone.

        It is None where `drawn` returns one.
        """

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """Return a configuration with a few sizes other than `base`'s, or None as `drawn` does.

        A new size may be one of a submission's numbers.
        """

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Yield configurations with one size smaller, the much smaller ones first."""

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """Return the configuration whose id a name is, or None if it is not such an id."""

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Yield configurations with other values of the constants.

        Each value occurs once with strength 2, and once more beside other values for each further
        one.
        """

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """Yield the problem's own configuration cut down for the simulator, then smaller ones.

        The smaller ones are for slow kernels. There are none at all if shapes are cut down in the
        way that is the same for all references.
        """

    def largest_exact(self, configuration: Configuration) -> int:
        """Return the largest odd number among inputs with exact sums, as in `draws.exact`."""

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Return the runs that a configuration is small enough for.

        The first run is always one of them.
        """

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Return the runs that remain if the calls of a case take too long."""

    def spell(self, configuration: Configuration) -> str:
        """Return the id of a case: short, readable, and the same in every run."""

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """Return a run's exact output with the error bound of a right one.

        Args:
            new_instance: Builds another instance of the reference.
            weights: Its weights, by name.
            inputs: Its inputs.
        """

    def need(self, configuration: Configuration) -> Need | None:
        """Return the work and data of a call, or None if that is not known."""

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
        """Return the operands of the summed products, or nothing for other references."""

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Return whether a kernel may decline the configuration for lack of shared memory."""

    def work(self, configuration: Configuration) -> int:
        """Return the size of a configuration, by which the smallest failing case is found."""

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """Return properties that may explain a failure: sizes and truth values, by name."""

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """Return the right computation of a run, for `mistakes` to change, or None if unknown."""

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Return why outputs have wrong shapes, or an empty string if that is not known.

        Args:
            wrong: Configurations, and the shape that each output has.
        """
