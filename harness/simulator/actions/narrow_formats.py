"""Exact decoding of the number formats of tensor cores to float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.transfers import Array
from harness.simulator.instructions.narrow import bf16_to_f32


def _f16(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float64)


def _bf16(bits: Array) -> Array:
    return bf16_to_f32(bits).astype(np.float64)


def _tf32(bits: Array) -> Array:
    """Decode tf32, the upper 19 bits of each 32-bit word; the lower 13 bits are ignored.

    The PTX ISA expects that the program has rounded the number to tf32.
    """
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def _e4m3(bits: Array) -> Array:
    """Decode e4m3: floats with 4 bits of exponent and 3 bits of mantissa.

    The format has no infinities. NaN has all bits set except the sign.
    """
    exponent, mantissa = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float64)
    values = np.where(
        exponent == 0,
        np.ldexp(mantissa, -9),
        np.ldexp(8 + mantissa, np.maximum(exponent, 1) - 10),
    )
    values = np.where((bits & 0x7F) == 0x7F, np.nan, values)
    return np.where(bits & 0x80, -values, values)


def _e5m2(bits: Array) -> Array:
    """Decode e5m2: floats with 5 bits of exponent and 2 of mantissa, a float16's upper byte."""
    return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)


DECODE: Mapping[str, tuple[type[np.generic], Callable[[Array], Array]]] = MappingProxyType(
    {
        "f16": (np.uint16, _f16),
        "bf16": (np.uint16, _bf16),
        "tf32": (np.uint32, _tf32),
        "e4m3": (np.uint8, _e4m3),
        "e5m2": (np.uint8, _e5m2),
        "s8": (np.int8, lambda a: a.astype(np.float64)),
        "u8": (np.uint8, lambda a: a.astype(np.float64)),
        "f64": (np.float64, lambda a: a),
    }
)
"""The NumPy type of each format's bits, and the function that decodes them to float64."""
