"""bfloat16, which NumPy lacks, seen as its bits; and rounding through a wider type exactly once."""

from __future__ import annotations

import numpy as np

from harness.simulator.instructions.operation import Array


def bf16_to_f32(bits: Array) -> Array:
    """The float32 values of bfloat16 bits; exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: Array, rounding: str = "rn") -> Array:
    """Bits of the bfloat16 nearest to each float32 (ties to even), or towards zero for `rz`.

    A NaN becomes 0x7FFF.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    if rounding == "rn":
        # Half a unit less one, and one more where the kept part is odd. It wraps for NaNs only.
        bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


def f64_to_f32_odd(values: Array) -> Array:
    """float64 -> float32, inexact results rounded to the neighbour with an odd last bit.

    Rounding once more, to any format of at most 22 bits, then gives what rounding the float64 at
    once would have given (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums",
    2008).
    """
    with np.errstate(all="ignore"):
        nearest = values.astype(np.float32)
        back = nearest.astype(np.float64)
        too_far = np.abs(back) > np.abs(values)
        truncated = np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest)
    inexact = (back != values) & np.isfinite(values)
    bits: Array = truncated.view(np.uint32) | inexact.astype(np.uint32)
    return bits.view(np.float32)


def sum_odd(a: Array, b: Array) -> Array:
    """Sum a + b in float64, inexact results rounded to the neighbour with an odd last bit."""
    with np.errstate(all="ignore"):
        total = a + b
        of_b = total - a
        error = (a - (total - of_b)) + (b - of_b)
        is_even = (total.view(np.uint64) & np.uint64(1)) == 0
        neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        move = np.isfinite(total) & (error != 0) & is_even
    return np.where(move, neighbour, total)
