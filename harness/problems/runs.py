"""The forward calls that a case is made of: which inputs, and with which weights."""

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
    "exact",
]
"""`own` is the reference's: what its `get_inputs` draws."""
Weights = Literal["A", "B", "C", "D"]
"""Sets of weights, which a family draws; of D most are 0."""
Arrangement = Literal[
    "contiguous", "strided", "expanded", "offset", "empty", "rows", "axis", "long", "wide"
]
"""How an input lies in memory: its last two dimensions swapped, all its rows one, one element
behind the start of an allocation, or nowhere, since it has no rows; or as a few parts of one with
very many rows or positions (`vast.VastArrangement`)."""


@dataclass(frozen=True)
class Run:
    """One forward call.

    Attributes:
        name: Unique among a case's runs.
        distribution: What the inputs are drawn from.
        weights: Which set of weights; a change of set means new weights in the same instance.
        otherwise: What the inputs are drawn from where a reference is not defined for that.
    """

    name: str
    distribution: Distribution
    weights: Weights
    otherwise: Distribution | None = None

    @property
    def is_exact(self) -> bool:
        """Whether float32 computes every output without rounding, in any order of summation."""
        return self.distribution == "exact"

    @property
    def is_beyond_half(self) -> bool:
        """Whether float16 overflows to infinities; no other class does."""
        return self.distribution == "huge"

    @property
    def is_dense(self) -> bool:
        """Whether every input matters: nearly all of an impulse's are 0."""
        return self.distribution != "impulse"

    @property
    def is_plain(self) -> bool:
        """Whether every term of a sum shows: none is 0, or small beside others such as the bias."""
        return self.distribution in ("own", "uniform", "normal") and self.weights != "D"
