"""Conversions to and from bfloat16, which NumPy lacks, and rounding to odd.

Rounding twice, first to a wide format and then to a narrow one, can differ from rounding once. The
result does not differ if the first rounding is to odd: an inexact number becomes the neighbour
whose last bit is 1. The wide format needs two more bits than the narrow one (Boldo and Melquiond,
"Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

import numpy as np

from harness.simulator.instructions.operation import Array


def bf16_to_f32(bits: Array) -> Array:
    """Convert the bits of bfloat16 numbers to float32, which is exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: Array, rounding: str = "rn") -> Array:
    """Return the bits of the bfloat16 number nearest to each float32 (ties to even).

    With `rounding` "rz", round towards zero instead. A NaN becomes 0x7FFF.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    if rounding == "rn":
        # Adding half a unit less one, and one more if the kept part is odd, rounds to nearest even.
        # The addition wraps only for NaNs.
        bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


def f64_to_f32_odd(values: Array) -> Array:
    """Convert float64 numbers to float32, rounded to odd.

    Rounding the result again, to a format of at most 22 bits, gives the same number as rounding the
    float64 number directly to that format.
    """
    with np.errstate(all="ignore"):
        # The number is truncated first. If it was inexact, setting the last bit gives the odd one
        # of its two neighbours.
        nearest = values.astype(np.float32)
        back = nearest.astype(np.float64)
        too_far = np.abs(back) > np.abs(values)
        truncated = np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest)
    inexact = (back != values) & np.isfinite(values)
    bits: Array = truncated.view(np.uint32) | inexact.astype(np.uint32)
    return bits.view(np.float32)


def sum_odd(a: Array, b: Array) -> Array:
    """Return the sum a + b in float64, rounded to odd."""
    with np.errstate(all="ignore"):
        # Knuth's TwoSum gives the exact error of the rounded sum. If there is an error and the
        # sum's last bit is 0, the odd neighbour lies in the error's direction.
        total = a + b
        of_b = total - a
        error = (a - (total - of_b)) + (b - of_b)
        is_even = (total.view(np.uint64) & np.uint64(1)) == 0
        neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        move = np.isfinite(total) & (error != 0) & is_even
    return np.where(move, neighbour, total)
