"""Results of comparing an output with the oracle (the reference in float64)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""Names of the precision classes, the tightest first."""


@dataclass(frozen=True)
class Mismatch:
    """The elements of an output that are wrong in every precision class (fp32, tf32, fp16, bf16).

    Attributes:
        message: What is wrong, in one line.
        index: Index of the first wrong element; None if the whole tensor has a wrong shape, dtype
            or device.
        expected: The oracle's value at `index`; text if it is not finite, as JSON has no number for
            it.
        actual: The submission's value at `index`; text if it is not finite.
        count: Number of wrong elements.
        total: Number of elements.
    """

    message: str
    index: tuple[int, ...] | None = None
    expected: float | str | None = None
    actual: float | str | None = None
    count: int = 0
    total: int = 0


@dataclass(frozen=True)
class Comparison:
    """The result of comparing one output with the oracle (the reference in float64).

    Attributes:
        precision: The tightest precision class (fp32, tf32, fp16, bf16) whose error bound holds for
            every element; None for a mismatch.
        worst: The largest error as a fraction of the fp32 class's bound; at most 1 for class fp32.
            None if the output is not finite or has a wrong shape, dtype or device.
        mismatch: What is wrong; None if nothing is.
        estimated: Why the bounds are not rigorous; empty if they are.
        limits: The other classes' bounds as multiples of the fp32 class's bound, at the element
            with the largest fp32 bound. Empty if not requested, or if `worst` is None.
        telling: The loosest class that is still informative: its bound rejects zeros in at least
            half of the elements that are not 0. None if no class is, or if not requested.
    """

    precision: Precision | None
    worst: float | None
    mismatch: Mismatch | None
    estimated: str = ""
    limits: Mapping[Precision, float] = field(default_factory=dict)
    telling: Precision | None = None
