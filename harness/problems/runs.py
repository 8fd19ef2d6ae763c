"""Runs: the forward calls of a case, with their distributions of inputs and sets of weights."""

from dataclasses import dataclass
from typing import Literal

Distribution = Literal[
    "own",
    "uniform",
    "normal",
    "impulse",
    "small",
    "large",
    "positive",
    "tiny",
    "huge",
    "ties",
    "integers",
    "spike",
    "bump",
    "zeros",
    "first zeros",
    "later zeros",
    "peaks",
    "positive peaks",
    "low peaks",
    "exact",
    "wide",
    "far",
]
"""Names of input distributions; `own` is that of the reference's `get_inputs`.

With `zeros`, all inputs have zeros; with `first zeros` and `later zeros`, the first has, or all the
others.
"""
Weights = Literal["A", "B", "C", "D"]
"""Names of sets of weights, which a family draws; most weights of set D are 0."""
Arrangement = Literal[
    "contiguous", "strided", "expanded", "offset", "empty", "rows", "axis", "long", "wide"
]
"""Names of input layouts in memory.

- `contiguous`: the usual one.
- `strided`: the last two dimensions are swapped.
- `expanded`: all rows are the same memory.
- `offset`: one element behind the start of an allocation.
- `empty`: no rows.
- The others: a few parts of an input with very many rows or positions (`vast.VastArrangement`).
"""


@dataclass(frozen=True)
class Run:
    """One forward call of a case: a distribution of inputs and a set of weights.

    Attributes:
        name: Unique among a case's runs.
        distribution: Distribution of the inputs.
        weights: Name of the set of weights. When the set changes, the same instance of `ModelNew`
            gets the new weights.
        otherwise: Distributions to use instead, in this order, if the reference is not defined for
            inputs of `distribution`.
        elementwise: Distribution to use instead, and the run's name then, if the reference computes
            each element by itself (`separate`) and is defined for its inputs. None for no other.
        selecting: The same for a reference that only selects among its inputs.
    """

    name: str
    distribution: Distribution
    weights: Weights
    otherwise: tuple[Distribution, ...] = ()
    elementwise: Distribution | None = None
    selecting: Distribution | None = None

    @property
    def is_exact(self) -> bool:
        """True if float32 computes every output without rounding, in any order of summation."""
        return self.distribution == "exact"

    @property
    def is_beyond_half(self) -> bool:
        """True if the inputs make float16 overflow; no other precision class overflows."""
        return self.distribution in ("huge", "far")

    @property
    def is_dense(self) -> bool:
        """False for an impulse, whose elements are nearly all 0; True for all other inputs."""
        return self.distribution != "impulse"

    @property
    def is_plain(self) -> bool:
        """True if every term of a sum has a visible effect on the output.

        No term is 0, or small compared with others such as the bias.
        """
        return self.distribution in ("own", "uniform", "normal") and self.weights != "D"
