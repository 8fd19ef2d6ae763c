"""Error-bound rules of mean pooling, and of interpolation, a weighted mean of neighbours.

Max pooling has the rule of other extremes, in `reductions`.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.problems.rounding.tracked import SINGLE, NoRuleError, RoundingErrors, Tracked, rule


@rule("avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "avg_pool1d")
def avg_pool(rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any) -> Tracked:
    """Bound the error of the mean of each window: a sum, and a product with a rounded factor."""
    value = operator(x.value, *args)
    most = operator(x.most, *args)
    # The number of elements in a window; for adaptive pooling twice the ratio of both sizes.
    name = operator.overloadpacket.__name__
    dims = int(name[-2])
    inner = float(torch.tensor(x.value.shape[-dims:]).prod())
    outer = float(torch.tensor(value.shape[-dims:]).prod())
    window = 1.0
    if "adaptive" in name:
        window = inner / max(outer, 1.0) * 2.0**dims
    else:
        kernel = args[0] if isinstance(args[0], list | tuple) else [args[0]]
        for size in kernel if len(kernel) == dims else [*kernel] * dims:
            window *= size
    result = rounding.summed(value, operator(x.bound, *args), most, window)
    return rounding.rounded(value, result.error, units=3.0)


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any) -> Tracked:
    """Bound the error of interpolation, a weighted mean of neighbours in any order.

    The weights are not negative and sum to 1. A position among n elements is off by at most 3 n u,
    however its scale is rounded. The two weights, which are computed from the position, are off by
    as much. The error may move a position past an element. The result is continuous there, so it
    does not jump.
    """
    dims = list(range(2, x.value.dim()))
    value, spread = operator(x.value, *args), operator(x.bound, *args)
    places = 6.0 * sum(x.value.shape[dim] for dim in dims)
    largest = x.most.amax(dims, keepdim=True)
    lost = (places + 6.0 * len(dims)) * SINGLE * largest
    # Results of such weights are not exact, except at corners.
    return rounding.rounded(value, spread + lost, units=2.0 + 2.0 * len(dims))


@rule("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    rounding: RoundingErrors, operator: Any, x: Tracked, grid: Tracked, *how: Any
) -> Tracked:
    """Bound the error of sampling an image at given positions, by linear interpolation.

    Along each dimension the result is continuous. Its slope is at most the largest difference of
    neighbours, which is at most twice the largest element. A number g of the grid gives the
    position ((g + 1) n - 1) / 2 in a dimension of size n. Computing this position takes four
    roundings.

    Raises:
        NoRuleError: The mode is nearest, where rounding decides the element, or bicubic.
    """
    if how[0] != 0:
        raise NoRuleError("grid_sampler with nearest or bicubic interpolation")
    dims = list(range(2, x.value.dim()))
    value = operator(x.value, grid.value, *how)
    largest = x.most.amax(dims, keepdim=True)
    # A grid's coordinates start with that of the last dimension.
    sizes = torch.tensor(x.value.shape[2:][::-1], dtype=torch.float64, device=grid.value.device)
    off = (grid.bound + 4.0 * SINGLE * (1.0 + grid.most)) * sizes / 2.0 + 4.0 * SINGLE * sizes
    moved = off.sum(-1).unsqueeze(1) * 2.0 * largest
    spread = torch.minimum(moved, largest + value.abs()) + x.bound.amax(dims, keepdim=True)
    return rounding.rounded(
        value, spread + 12.0 * len(dims) * SINGLE * largest, units=2.0 + 2.0 * len(dims)
    )
