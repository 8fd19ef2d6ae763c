"""The oracle: the expected output of a run, and the precision classes of actual outputs.

The expected output is that of the reference, computed in float64 from the same float32 weights and
inputs that the submission received. The reference's family (the kind of its operator) says how far
an output may be from the expected one (`problems/bounds.py`).
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
    """The rounding errors of a precision class, such as tf32, with the name of the class."""

    name: Precision


# The error bound of a sum of n products, for each class (`problems/bounds.py`). The fields are
# roundoff, roundings, accumulation, extra_terms and smallest.
#
# fp32: 24 extra terms admit operands that are split into TF32 parts (3xTF32; Ootomo and Yokota,
# 2022). With x = hi + lo + rest, 3xTF32 loses lo * lo and two rests, each up to 2**-22 of the
# product. Its three products are added with truncation: 2**-23 for each, and once more for their
# alignment.
#
# The other classes: tensor cores align a block of products to its largest and add with truncation
# (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 7:e330, 2021), hence 2**-22. They take TF32 operands
# by dropping bits, hence 2**-10 and not 2**-11. No output is stored as TF32, hence two roundings
# and not three.
#
# `smallest`: numbers below the smallest normal may be flushed to zero (-ftz=true). float16 keeps
# subnormals, which are 2**-24 apart.
CLASSES: tuple[PrecisionClass, ...] = (
    PrecisionClass(**vars(SINGLE), name="fp32"),
    PrecisionClass(2.0**-10, 2, 2.0**-22, 0, _SMALLEST_NORMAL, name="tf32"),
    PrecisionClass(2.0**-11, 3, 2.0**-22, 0, 2.0**-25, name="fp16"),
    PrecisionClass(2.0**-8, 3, 2.0**-22, 0, _SMALLEST_NORMAL, name="bf16"),
)
"""The precision classes, the tightest first."""


def expected(
    problem: Problem, case: Case, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> Expected:
    """Compute the expected output of a run.

    Args:
        problem: The reference.
        case: The case whose arguments `Model` is built with.
        weights: Float32 weights, by their name in `Model`'s state_dict.
        inputs: Inputs of `forward`. The oracle computes on their device. A large input can be given
            in slices of the batch if the family says that rows are independent.

    Returns:
        The expected output. Its error bounds are rigorous or estimates, depending on the family.

    Raises:
        ValueError: The reference returns something other than one tensor.
    """
    return problem.family.expected(partial(ModelInstance, problem, case), weights, inputs)
