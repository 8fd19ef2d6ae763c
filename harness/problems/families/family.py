"""What is asked of a family of references."""

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
    """What a call takes.

    Attributes:
        products: That are summed in all outputs.
        numbers: In input, weight and output together.
        operands: In input and weight; `inputs` in the input alone.
        has_terms: For each output position, whether anything is summed there but the bias; bool,
            of the shape of the output's last dimensions.
    """

    products: int
    numbers: int
    operands: int
    inputs: int
    has_terms: Tensor


class LinearMap(Protocol):
    """A `Model` with its weights, as y = A x + b for each row of the batch."""

    def adjoint(self, signs: Tensor) -> Tensor:
        """Give A' r, of an input row's shape, for r of an output row's shape; both float64."""

    def offset(self, signs: Tensor) -> float:
        """Give <r, b>."""

    def squared_bounds(self, arithmetic: Arithmetic) -> float:
        """Sum the squares of every output's bound, for one row of inputs up to 1."""


class Sizes(Protocol):
    """A reference as it is with other values for the constants that its file states."""

    @property
    def constants(self) -> Mapping[str, int]:
        """Its own, by name."""

    @property
    def of_inputs(self) -> frozenset[str]:
        """Names of those that its inputs are made from."""

    @property
    def of_broadcasts(self) -> frozenset[str]:
        """Names of those that say, being 1, along which dimensions a weight is the same."""

    def configuration(self, constants: Mapping[str, int]) -> Configuration | None:
        """What some values give; None where the reference does not work with them."""

    def work(self, constants: Mapping[str, int]) -> float:
        """Numbers that a call reads, makes and multiplies; infinite where it does not work."""


class Family(Protocol):
    """What a kind of reference means.

    `taken` are the problem's own constructor arguments that the submission takes, too.
    """

    @property
    def name(self) -> str:
        """Unique among the families; cases keep it."""

    @property
    def neutral(self) -> Mapping[str, object]:
        """Values with which constructor parameters change nothing."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of each case; at least one is plain and has weights A."""

    @property
    def weights(self) -> Mapping[Weights, DrawWeights]:
        """How each set of weights that its runs have is drawn."""

    @property
    def rows_are_independent(self) -> bool:
        """Whether each row of a batch is computed for itself, so that a batch can be sliced."""

    @property
    def forward_may_refuse(self) -> bool:
        """Whether only forward sees some sizes, so that a submission can decline them only there.

        One that was written for the problem's own sizes is fair where no constructor is told them.
        """

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """How inputs may lie in memory beside being contiguous."""

    def vast(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Small sizes of which an input can have so many that 32 bits do not count them.

        Along the last axis, each output position is to depend on inputs of about that position.
        """

    @property
    def inputs_are_made(self) -> bool:
        """Whether inputs are what `get_inputs` makes of numbers, and not any of their shapes."""

    @property
    def mistakes(self) -> Sequence[Mistake[Any]]:
        """Known mistakes of `computation`'s; where several fit, the earlier is named first."""

    def recognises(
        self, model: nn.Module, arguments: Mapping[str, object], inputs: Sequence[InputSpec]
    ) -> bool:
        """Whether a `Model`, built with its own arguments, is one; it may be called."""

    def corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Edge configurations, which are always cases."""

    def shared_memory_corners(self, taken: Mapping[str, object]) -> Iterable[Configuration]:
        """Those that only tell something of kernels that use shared memory."""

    def covering(self, taken: Mapping[str, object], strength: int) -> Iterable[Configuration]:
        """Configurations with every combination of `strength` values of what can be varied."""

    def aimed(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Configurations around the problem's own sizes and around numbers of a submission."""

    def many_tiles(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Those in which a block for each of two multiprocessors does several blocks' work."""

    def many_turns(
        self, taken: Mapping[str, object], own: Configuration, numbers: Sequence[int]
    ) -> Iterable[Configuration]:
        """Those in which one block does the work of so many that whatever it reuses comes round.

        Such as the stages of a ring, and the parity of their barriers.
        """

    def drawn(self, taken: Mapping[str, object], chance: random.Random) -> Configuration | None:
        """Any configuration at all; None where it is not known which there are."""

    def drawn_sizes(self, sizes: Sizes, chance: random.Random) -> Configuration | None:
        """The same of what is only known by its constants; None where `drawn` knows better."""

    def near(
        self,
        base: Configuration,
        taken: Mapping[str, object],
        numbers: Sequence[int],
        chance: random.Random,
    ) -> Configuration | None:
        """One with some other sizes than `base`, perhaps numbers of a submission; None as above."""

    def simpler(
        self, configuration: Configuration, taken: Mapping[str, object]
    ) -> Iterable[Configuration]:
        """Those with one size smaller, the much smaller ones first."""

    def spelled(self, name: str, taken: Mapping[str, object]) -> Configuration | None:
        """What `spell` gives a name to; None for what is no such name."""

    def sized(self, sizes: Sizes, strength: int) -> Iterable[Configuration]:
        """Configurations with other constants: each value once, or in more company."""

    def cut_down(self, sizes: Sizes) -> Iterator[Configuration]:
        """The problem's own configuration for the simulator, and smaller ones for slow kernels.

        None where every size is cut alike.
        """

    def largest_exact(self, configuration: Configuration) -> int:
        """The largest odd number that inputs of exact sums may have, as in `draws.exact`."""

    def bearable(self, runs: Sequence[Run], configuration: Configuration) -> Sequence[Run]:
        """Those of the runs that a configuration is small enough for; the first is one of them."""

    def indispensable(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Those of the runs that are left where a case's calls turn out to take long."""

    def spell(self, configuration: Configuration) -> str:
        """The id of a case: short, readable, and the same in every run."""

    def expected(
        self,
        new_instance: Callable[[], Instance],
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Expected:
        """A run's exact output, and what bounds the error of a right one."""

    def need(self, configuration: Configuration) -> Need | None:
        """The products that a call takes, and where; None where that is not known."""

    def linear_map(
        self, configuration: Configuration, weights: Mapping[str, Tensor], device: torch.device
    ) -> LinearMap | None:
        """What `Model` is as a linear map, on a device; None where it is none."""

    def factors(
        self,
        new_instance: Callable[[], Instance],
        configuration: Configuration,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
    ) -> Sequence[Factor]:
        """The operands of the products that are summed; none where it does more than that."""

    def overfills_shared_memory(self, configuration: Configuration) -> bool:
        """Whether a kernel may ask for more shared memory than there is, and decline so."""

    def work(self, configuration: Configuration) -> int:
        """How hard a configuration is to follow by hand."""

    def facts(self, configuration: Configuration) -> Mapping[str, object]:
        """What may be behind a failure, by the words that say it: numbers, and what is true."""

    def computation(
        self, configuration: Configuration, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Computation | None:
        """The right computation of a run, for `mistakes` to change; None where none are known."""

    def explain_shapes(self, wrong: Sequence[tuple[Configuration, tuple[int, ...]]]) -> str:
        """Why outputs have the wrong shape, given what each got; empty where that is not known."""
