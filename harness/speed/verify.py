"""Checks of the outputs of timed calls: a checksum for every call, a full comparison for some.

The checksum applies Freivalds' idea (1977) to a linear map y = A x. It uses random signs r that the
submission never sees. <r, y> must equal <A' r, x>, where A' is the adjoint, which is applied once.
So a check reads x and y once, and its cost does not depend on the cost of A.

Let e be errors, each within its bound b. Hoeffding's inequality gives P(|<r, e>| > t |b|) <= 2
exp(-t t / 2) for random signs. With t = 8, a false alarm is rarer than one in 10^13.

The checksum does not see a few wrong elements among many. A full comparison sees them; the calls to
compare are chosen at random after they have run.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.judging.judge import judge
from harness.judging.oracle import CLASSES
from harness.problems.families.interfaces import LinearMap
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import CaseValues
from harness.records.comparison import Comparison, Precision

_DEVIATIONS = 8.0
# Number of elements that are converted to float64 at a time.
_SLICE = 1 << 26

_RUN = Run("timed", "uniform", "A")


class Checksum:
    """A checksum that tests outputs of one linear map, such as a convolution."""

    def __init__(
        self,
        linear_map: LinearMap,
        output_shape: Sequence[int],
        precision: Precision,
        device: torch.device,
    ) -> None:
        """Draw random signs for outputs of a shape; compute the error that `precision` allows."""
        # torch's default generators start from a public seed, so the seed is drawn here.
        secret = torch.Generator(device).manual_seed(secrets.randbits(63))
        drawn = torch.randint(
            0, 2, tuple(output_shape[1:]), generator=secret, device=device, dtype=torch.int8
        )
        signs = (drawn * 2 - 1).double()
        arithmetic = next(each for each in CLASSES if each.name == precision)
        self._signs = signs.flatten()
        self._adjoint = linear_map.adjoint(signs).flatten()
        self._offset = linear_map.offset(signs)
        self._allowed = _DEVIATIONS * math.sqrt(linear_map.squared_bounds(arithmetic))

    def error(self, x: Tensor, y: Tensor) -> float:
        """Return the largest error of the checksums of all batch elements.

        The error is a fraction of the allowed error, so a result above 1 means a wrong output.

        The result is NaN if the output is not finite.

        Args:
            x: Input of shape (batch, ...), on the checksum's device.
            y: Output of shape (batch, ...) to check.
        """
        expected = _products(x, self._adjoint) + self._offset
        difference = (_products(y, self._signs) - expected).abs()
        # The bounds hold for inputs up to 1 and grow linearly with the largest input. The terms of
        # the bias and of underflow do not shrink, so the factor is at least 1.
        low, high = (float(bound) for bound in x.aminmax())
        allowed = self._allowed * max(1.0, -low, high)
        # An infinity or NaN in any element reaches the sum of its row.
        return float(difference.max()) / allowed if difference.isfinite().all() else math.nan


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    """Return the dot product, in float64, of each flattened row with a vector."""
    flat = rows.flatten(1)
    step = max(1, _SLICE // flat.shape[1])
    parts = [flat[i : i + step].double() @ vector for i in range(0, len(flat), step)]
    return torch.cat(parts)


@dataclass(frozen=True)
class FullCheck:
    """A comparison of a whole output with the float64 oracle, on the GPU."""

    problem: Problem
    case: Case
    weights: Mapping[str, Tensor]
    device: torch.device

    def comparison(self, inputs: tuple[Tensor, ...], output: Tensor) -> Comparison:
        """Compare each element of an output with the oracle's, by the error bounds of a check."""
        values = CaseValues(self.weights, inputs)
        return judge(self.problem, self.case, _RUN, values, output, self.device)
