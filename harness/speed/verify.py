"""Whether what a timed call returned is right: in full for some calls, by a checksum for all.

The checksum is Freivalds' idea (1977) for a linear map. With signs r that the submission never
sees, <r, y> must be <A' r, x> for y = A x, where A' is the adjoint, which is applied once. That
costs one pass over x and y for each call, whatever A costs. Of errors e, each within its bound b,
Hoeffding's inequality says P(|<r, e>| > t |b|) <= 2 exp(-t t / 2) for random signs; t = 8 makes a
wrong accusation rarer than one in 10^13. What it does not see, a few wrong elements among many, the
full comparison of calls chosen afterwards does.
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
from harness.problems.families.family import LinearMap
from harness.problems.grid import Case
from harness.problems.problem import Problem
from harness.problems.runs import Run
from harness.problems.values import Values
from harness.records.comparison import Comparison, Precision

_DEVIATIONS = 8.0
# Elements that are converted to float64 at a time.
_SLICE = 1 << 26

_RUN = Run("timed", "uniform", "A")


class Checksum:
    """Checks outputs of one linear map."""

    def __init__(
        self,
        linear_map: LinearMap,
        output_shape: Sequence[int],
        precision: Precision,
        device: torch.device,
    ) -> None:
        """Of outputs of that shape, which were found to be of that class; on the map's device."""
        # torch's own generators start from a seed that everybody knows.
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
        """The largest error of any row's checksum, as a fraction of what is allowed.

        NaN where the output is not finite.

        Args:
            x: Input (batch, ...), on the checksum's device.
            y: What is to be its output (batch, ...).
        """
        expected = _products(x, self._adjoint) + self._offset
        difference = (_products(y, self._signs) - expected).abs()
        # The bounds are linear in the largest input, but for the bias and what is lost near zero.
        low, high = (float(bound) for bound in x.aminmax())
        allowed = self._allowed * max(1.0, -low, high)
        # An infinity or NaN anywhere is in the sum of its row.
        return float(difference.max()) / allowed if difference.isfinite().all() else math.nan


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    """The float64 product of each row, flattened, with a vector."""
    flat = rows.flatten(1)
    step = max(1, _SLICE // flat.shape[1])
    parts = [flat[i : i + step].double() @ vector for i in range(0, len(flat), step)]
    return torch.cat(parts)


@dataclass(frozen=True)
class FullCheck:
    """Compares whole outputs with the oracle, on the GPU."""

    problem: Problem
    case: Case
    weights: Mapping[str, Tensor]
    device: torch.device

    def comparison(self, inputs: tuple[Tensor, ...], output: Tensor) -> Comparison:
        """As every case is judged."""
        values = Values(self.weights, inputs)
        return judge(self.problem, self.case, _RUN, values, output, self.device)
