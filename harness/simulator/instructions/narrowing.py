"""Conversions (cvt) between formats that NumPy cannot round to, such as bf16, tf32 and e4m3.

Each conversion rounds once, in any of PTX's rounding modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.compare import flushed
from harness.simulator.instructions.operation import DTYPES, Array, Operation, UnknownForm


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        digits: Bits of the significand, including the leading one.
        least: Exponent of the smallest normal number.
        largest: The largest finite number.
        fraction_bits: Bits of the fraction as stored.
        width: Bits of a number as stored.
        nan: The bits that conversions give for NaN.
        has_infinity: True if conversions give infinity for too large numbers; otherwise, they give
            the largest finite number.
    """

    digits: int
    least: int
    largest: float
    fraction_bits: int
    width: int
    nan: int
    has_infinity: bool = True


_BF16_LARGEST = (2.0 - 2.0**-7) * 2.0**127
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "f16": Format(11, -14, 65504.0, 10, 16, 0x7FFF),
        "bf16": Format(8, -126, _BF16_LARGEST, 7, 16, 0x7FFF),
        "tf32": Format(11, -126, (2.0 - 2.0**-10) * 2.0**127, 23, 32, 0x7FFFFFFF),
        "e4m3": Format(4, -6, 448.0, 3, 8, 0x7F, has_infinity=False),
        "e5m2": Format(3, -14, 57344.0, 2, 8, 0x7F, has_infinity=False),
    }
)
"""The formats by their names in PTX."""


def encode(values: Array, form: Format, mode: str, flags: frozenset[str]) -> Array:
    """Round float64 numbers to a format once, and return their bits as uint32.

    Args:
        values: The numbers.
        form: The format.
        mode: Rounding mode: rn, rz, rm, rp or rna.
        flags: Modifiers of the instruction, of which relu and satfinite have an effect.
    """
    with np.errstate(all="ignore"):
        # Divided by the unit in the last place, each number is rounded to an integer. Below the
        # smallest normal number the unit stays the same, which rounds subnormal numbers correctly.
        exponent = np.maximum(np.frexp(values)[1] - 1, form.least)
        unit = np.ldexp(1.0, exponent - form.digits + 1)
        scaled = values / unit
        if mode == "rna":
            whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        else:
            whole = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](scaled)
        rounded = np.where(np.isfinite(values), np.copysign(whole, scaled) * unit, values)
    too_large = np.abs(rounded) > form.largest
    saturates = "satfinite" in flags or not form.has_infinity
    # A number that is too large becomes infinite, or the largest number if it is rounded towards
    # zero.
    inward = (mode == "rz") | ((mode == "rm") & (values > 0)) | ((mode == "rp") & (values < 0))
    limit = np.where(saturates | (inward & np.isfinite(values)), form.largest, np.inf)
    rounded = np.where(too_large, np.copysign(limit, rounded), rounded)
    if "relu" in flags:
        rounded = np.where((rounded > 0) | np.isnan(rounded), rounded, 0.0)
    return _bits(rounded, form)


def _bits(values: Array, form: Format) -> Array:
    """Return the bits of float64 numbers in a format that represents them exactly."""
    magnitude = np.abs(values)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, form.least)
    # The significand's leading bit adds one to the exponent field. Subnormal numbers lack it, so
    # their field is 0.
    fraction = np.ldexp(finite, form.fraction_bits - exponent).astype(np.int64)
    field = np.where(finite == 0, 0, exponent - form.least).astype(np.int64)
    bits = (field << form.fraction_bits) + fraction
    exponent_bits = form.width - 1 - form.fraction_bits
    infinity = (2**exponent_bits - 1) << form.fraction_bits
    bits = np.where(np.isinf(magnitude), infinity, bits)
    bits |= np.signbit(values).astype(np.int64) << (form.width - 1)
    return np.where(np.isnan(values), form.nan, bits).astype(np.uint32)


def to_f64_odd(values: Array) -> Array:
    """Convert integers or floats to float64; 64-bit integers beyond 53 bits are rounded to odd.

    Rounding to odd does not change the result of a further rounding to fewer bits.
    """
    if values.dtype.kind == "f" or values.dtype.itemsize < 8:
        return values.astype(np.float64)
    is_negative = values < 0
    magnitude = np.where(is_negative, ~values + values.dtype.type(1), values).astype(np.uint64)
    lost = magnitude & np.uint64(0x7FF)
    odd = (magnitude >> np.uint64(11)) | (lost != 0).astype(np.uint64)
    is_large = magnitude >= np.uint64(1 << 53)
    result = np.where(is_large, odd.astype(np.float64) * 2048.0, magnitude.astype(np.float64))
    return np.where(is_negative, -result, result)


def operation(flags: list[str], target: str, source: str, operands: int) -> Operation | None:
    """Return the computation of a `cvt`, or None if conversion.py has to build it.

    Args:
        flags: The modifiers other than the two types.
        target: PTX type of the result.
        source: PTX type of the operand.
        operands: The number of operands, including the result.

    Raises:
        UnknownForm: PTX does not have this form of the conversion.
    """
    unpaired = target.removesuffix("x2")
    if source in ("e4m3x2", "e5m2x2") and target == "f16x2":
        return _widen(source, flags)
    if unpaired not in FORMATS or (source not in DTYPES and not source.startswith("e")):
        return None
    if target in ("e4m3x2", "e5m2x2") and source == "f16x2":
        return _pair_of_bytes(unpaired, flags)
    modes = [f for f in flags if f in ("rn", "rz", "rm", "rp", "rna")]
    rest = frozenset(flags) - set(modes)
    if len(modes) != 1 or rest - {"relu", "satfinite", "ftz"}:
        return None
    if target.endswith("x2"):
        if operands != 3 or source != "f32":
            raise UnknownForm
        return _pack(FORMATS[unpaired], modes[0], rest)
    is_usual = modes == ["rn"] and not rest & {"relu", "satfinite"} and source not in ("s64", "u64")
    if target != "tf32" and (is_usual or source == "bf16"):
        return None
    if modes == ["rna"] and target != "tf32":
        raise UnknownForm
    form = FORMATS[target]
    kind = f"b{form.width}"

    def compute(a: Array, out: Array) -> None:
        a = flushed(a) if "ftz" in rest and source == "f32" else a
        np.copyto(out, encode(to_f64_odd(a), form, modes[0], rest), casting="unsafe")

    return Operation((source,), (kind,), compute)


def _pack(form: Format, mode: str, flags: frozenset[str]) -> Operation:
    """Return the `Operation` of a `cvt` of two f32 to a pair, such as `cvt.rn.f16x2.f32 d, a, b`.

    The rounded `a` becomes the upper half of the result, and `b` the lower half.
    """

    def compute(a: Array, b: Array, out: Array) -> None:
        high, low = (encode(to_f64_odd(x), form, mode, flags) for x in (a, b))
        np.copyto(out, high << np.uint32(form.width) | low, casting="unsafe")

    return Operation(("f32", "f32"), (f"b{2 * form.width}",), compute)


def _pair_of_bytes(target: str, flags: list[str]) -> Operation:
    if "rn" not in flags or set(flags) - {"rn", "satfinite", "relu"}:
        raise UnknownForm
    form = FORMATS[target]

    def compute(a: Array, out: Array) -> None:
        coded = encode(to_f64_odd(a), form, "rn", frozenset(flags))
        np.copyto(out, coded[:, 1] << np.uint32(8) | coded[:, 0], casting="unsafe")

    return Operation(("f16x2",), ("b16",), compute)


def _widen(source: str, flags: list[str]) -> Operation:
    if "rn" not in flags or set(flags) - {"rn", "relu"}:
        raise UnknownForm
    is_e5m2 = source == "e5m2x2"

    def compute(a: Array, out: Array) -> None:
        octets = np.stack([a & 0xFF, a >> 8], axis=1).astype(np.uint16)
        if is_e5m2:
            halves = octets << np.uint16(8)
        else:
            # The bias of the exponent is 7, not 15. Scaling by 2^8 corrects that for subnormal
            # numbers, too.
            moved = (octets & 0x7F) << np.uint16(7)
            halves = (moved.view(np.float16) * np.float16(256)).view(np.uint16)
            halves = np.where((octets & 0x7F) == 0x7F, np.uint16(0x7FFF), halves)
            halves |= (octets & 0x80) << np.uint16(8)
        is_nan = (halves & 0x7FFF) > 0x7C00
        halves = np.where(is_nan, np.uint16(0x7FFF), halves)
        if "relu" in flags:
            halves = np.where((halves & 0x8000) != 0, np.uint16(0), halves)
        np.copyto(out, halves)

    return Operation(("b16",), ("bf16x2",), compute)
