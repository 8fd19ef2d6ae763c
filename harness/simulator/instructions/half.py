"""Arithmetic in half precision: f16, bf16 and pairs of them.

Results are computed in float64, where products are exact, and rounded once. A sum that is inexact
in float64 is rounded to odd there, so that the second rounding gives the correct result.
Approximate functions such as tanh are computed in the same way, with an error that the PTX ISA
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.floating import saturated
from harness.simulator.instructions.narrow import bf16_to_f32, f32_to_bf16, f64_to_f32_odd, sum_odd
from harness.simulator.instructions.operation import (
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Instruction

HALVES = frozenset({"f16", "f16x2", "bf16", "bf16x2"})
_SMALLEST_NORMAL = 2.0**-14


def _form(instruction: Instruction, *allowed: str) -> tuple[str, set[str]]:
    """Return the type of a half-precision instruction, and its other modifiers.

    Raises:
        UnknownForm: A modifier is not `rn` or one of `allowed`, or bf16 has `.ftz`.
    """
    *others, kind = instruction.modifiers
    if set(others) - {"rn", *allowed} or ("ftz" in others and kind.startswith("bf16")):
        raise UnknownForm
    return kind, set(others)


def _wide(bits_or_halves: Array, kind: str, flags: set[str]) -> Array:
    """Convert half-precision numbers to float64; with `.ftz`, subnormal numbers become zero."""
    if kind.startswith("bf16"):
        return bf16_to_f32(bits_or_halves).astype(np.float64)
    wide = bits_or_halves.astype(np.float64)
    return _flushed(wide) if "ftz" in flags else wide


def _flushed(a: Array) -> Array:
    return np.where(np.abs(a) < _SMALLEST_NORMAL, np.copysign(0.0, a), a)


def _store(result: Array, kind: str, flags: set[str], out: Array) -> None:
    """Round float64 results to the nearest half-precision numbers, and store them in `out`.

    The modifiers `.ftz`, `.sat` and `.relu` are applied if `flags` has them. NaN becomes 0x7FFF.
    """
    if "sat" in flags:
        result = saturated(result)
    if "relu" in flags:
        result = np.where((result > 0) | np.isnan(result), result, 0.0)
    if kind.startswith("bf16"):
        np.copyto(out, f32_to_bf16(f64_to_f32_odd(result)))
        return
    half = result.astype(np.float16)
    if "ftz" in flags:
        half = _flushed(half.astype(np.float64)).astype(np.float16)
    bits = np.where(np.isnan(half), np.uint16(0x7FFF), half.view(np.uint16))
    np.copyto(out.view(np.uint16), bits)


def _computed(
    instruction: Instruction, count: int, function: Callable[..., Array], *allowed: str
) -> Operation:
    kind, flags = _form(instruction, *allowed)

    def compute(*arrays: Array) -> None:
        *inputs, out = arrays
        with np.errstate(all="ignore"):
            result = function(*np.broadcast_arrays(*(_wide(a, kind, flags) for a in inputs)))
            _store(result, kind, flags, out)

    return Operation((kind,) * count, (kind,), compute)


def _fma(a: Array, b: Array, c: Array) -> Array:
    return sum_odd(a * b, c)


def _arithmetic(instruction: Instruction, _context: OperationContext) -> Operation:
    functions: dict[str, Callable[..., Array]] = {
        "add": sum_odd,
        "sub": lambda a, b: sum_odd(a, -b),
        "mul": lambda a, b: a * b,
    }
    return _computed(instruction, 2, functions[instruction.opcode], "ftz", "sat")


def _multiply_add(instruction: Instruction, _context: OperationContext) -> Operation:
    return _computed(instruction, 3, _fma, "ftz", "sat", "relu")


def _approximate(function: Callable[[Array], Array]) -> Builder:
    def build(instruction: Instruction, _context: OperationContext) -> Operation:
        if "approx" not in instruction.modifiers:
            raise UnknownForm
        if instruction.modifiers[-1].startswith("bf16"):
            # ex2 of bf16 exists only with `.ftz`; subnormal numbers become zeros.
            flushing = "ftz" in instruction.modifiers
            return _approximate_bf16(instruction, function, flushing)
        return _computed(instruction, 1, function, "approx", "ftz")

    return build


def _approximate_bf16(
    instruction: Instruction, function: Callable[[Array], Array], flushing: bool
) -> Operation:
    kind = instruction.modifiers[-1]

    def compute(a: Array, out: Array) -> None:
        with np.errstate(all="ignore"):
            result = function(bf16_to_f32(a).astype(np.float64))
            if flushing:
                result = np.where(np.abs(result) < 2.0**-126, 0.0, result)
            _store(result, kind, set(), out)

    return Operation((kind,), (kind,), compute)


def _extremum(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of min or max for half precision, where -0 is less than +0.

    The result is NaN only if both operands are NaN. With `.NaN`, one NaN operand is enough.
    """
    _, flags = _form(instruction, "ftz", "NaN", "xorsign", "abs")
    is_min = instruction.opcode == "min"
    by_magnitude = "xorsign" in flags
    if by_magnitude != ("abs" in flags) or len(instruction.operands) != 3:
        raise UnknownForm

    def function(a: Array, b: Array) -> Array:
        sign = np.signbit(a) ^ np.signbit(b)
        if by_magnitude:
            a, b = np.abs(a), np.abs(b)
        less = (a < b) | ((a == b) & np.signbit(a))
        result = np.where(less == is_min, a, b)
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        result = np.where(nan_a, b, np.where(nan_b, a, result))
        if by_magnitude:
            result = np.where(sign, -result, result)
        return np.where(nan_a | nan_b, np.nan, result) if "NaN" in flags else result

    return _computed(instruction, 2, function, "ftz", "NaN", "xorsign", "abs")


def _sign(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of abs or neg for half precision, which change only the sign bit.

    With `.ftz`, a NaN becomes the canonical NaN 0x7FFF, as on an H200, and subnormal numbers become
    zero.
    """
    kind, flags = _form(instruction, "ftz")
    negates = instruction.opcode == "neg"

    def compute(a: Array, out: Array) -> None:
        bits = a.view(np.uint16)
        if "ftz" in flags:
            bits = np.where(bits & 0x7C00, bits, bits & 0x8000).astype(np.uint16)
        is_quieted = np.isnan(a) if "ftz" in flags else False
        result = bits ^ np.uint16(0x8000) if negates else bits & np.uint16(0x7FFF)
        np.copyto(out.view(np.uint16), np.where(is_quieted, np.uint16(0x7FFF), result))

    return Operation((kind,), (kind,), compute)


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {
        "add": _arithmetic,
        "sub": _arithmetic,
        "mul": _arithmetic,
        "fma": _multiply_add,
        "ex2": _approximate(np.exp2),
        "tanh": _approximate(np.tanh),
        "min": _extremum,
        "max": _extremum,
        "abs": _sign,
        "neg": _sign,
    }
)
"""Builders by opcode, for the half-precision types."""
