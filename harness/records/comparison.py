"""What comes of one output beside the oracle: a precision class, or what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""Names of the precision classes, the tightest first."""


@dataclass(frozen=True)
class Mismatch:
    """The elements that no precision class allows.

    Attributes:
        message: What is wrong, in one line.
        index: The first of them; None where the whole tensor is of the wrong kind.
        expected: The oracle's value there.
        actual: The submission's. Both are text where not finite, as JSON has no number for it.
        count: How many elements are wrong.
        total: How many elements there are.
    """

    message: str
    index: tuple[int, ...] | None = None
    expected: float | str | None = None
    actual: float | str | None = None
    count: int = 0
    total: int = 0


@dataclass(frozen=True)
class Comparison:
    """The result for one output.

    Attributes:
        precision: The tightest class whose bound holds for every element; None for a mismatch.
        worst: The largest error as a fraction of the fp32 class's bound: up to 1 is fp32. None
            where the output is not finite or of the wrong kind.
        mismatch: What is wrong; None if nothing is.
        limits: The bounds of the other classes as multiples of the fp32 class's, where that is
            largest; none where that was not asked for, or `worst` is None.
        estimated: Why the bounds are not rigorous; empty where they are.
        telling: The loosest class that tells anything: in it, zeros would be wrong in half of the
            elements at least. None where none does, or that was not asked for.
    """

    precision: Precision | None
    worst: float | None
    mismatch: Mismatch | None
    estimated: str = ""
    limits: Mapping[Precision, float] = field(default_factory=dict)
    telling: Precision | None = None
