"""What a run's output must be, and the precision classes that it may be of.

The expected value is the reference in float64 on the very float32 numbers that the submission got;
how far from it an output may be, its family says (`problems/bounds.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from harness.problems.bounds import SINGLE, Arithmetic, Expected
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem
from harness.records.comparison import Precision

_SMALLEST_NORMAL = 2.0**-126


@dataclass(frozen=True, kw_only=True)
class PrecisionClass(Arithmetic):
    """An arithmetic, and the name that it is reported by."""

    name: Precision


# fp32: 24 more terms admit operands split into TF32 parts (3xTF32: with x = hi + lo + rest, it
# loses lo * lo and two rests, each up to 2**-22 of the product; Ootomo and Yokota, 2022), whose
# three products are added with truncation, 2**-23 each time and once more where they are aligned.
# The others: tensor cores add with truncation, after aligning a block of products to its largest
# (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 7:e330, 2021), hence 2**-22. They take TF32
# operands by dropping bits, hence 2**-10 and not 2**-11. TF32 is not a format that outputs are
# stored in. Numbers below the smallest normal may be flushed to zero (-ftz=true), except that
# float16 keeps subnormals, which are 2**-24 apart.
CLASSES: tuple[PrecisionClass, ...] = (
    PrecisionClass(**vars(SINGLE), name="fp32"),
    PrecisionClass(2.0**-10, 2, 2.0**-22, 0, _SMALLEST_NORMAL, name="tf32"),
    PrecisionClass(2.0**-11, 3, 2.0**-22, 0, 2.0**-25, name="fp16"),
    PrecisionClass(2.0**-8, 3, 2.0**-22, 0, _SMALLEST_NORMAL, name="bf16"),
)
"""The classes, the tightest first."""


def expected(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Expected:
    """Compute a run's expected output.

    Args:
        problem: The reference.
        case: The case whose arguments `Model` is built with.
        weights: Float32 weights by their name in `Model`'s state_dict.
        inputs: Inputs of forward. The work happens on their device; where the family says that
            rows are independent, a large input can be given in slices of the batch.

    Returns:
        The expected output, with what its family knows of errors: rigorous for some, an estimate
        for others.

    Raises:
        ValueError: The reference gives something other than one tensor.
    """
    return problem.family.expected(partial(ModelInstance, problem, case), weights, inputs)
