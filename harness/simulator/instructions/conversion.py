"""Moves (`mov`), and conversions between types (`cvt`) and between kinds of addresses (`cvta`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions import narrowing
from harness.simulator.instructions.compare import flushed
from harness.simulator.instructions.floating import CANONICAL_NAN, ROUNDINGS, saturated
from harness.simulator.instructions.narrow import bf16_to_f32, f32_to_bf16, f64_to_f32_odd
from harness.simulator.instructions.operation import (
    BITS,
    DTYPES,
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
    copy,
)
from harness.simulator.ptx.ptx import Instruction, Operand, Vector
from harness.simulator.ptx.space import GENERIC_SHIFT, space_named

_TO_INTEGRAL: Mapping[str, np.ufunc] = MappingProxyType(
    {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
)
Convert = Callable[[Array], Array]


def _parts(operand: Operand) -> int:
    return len(operand.parts) if isinstance(operand, Vector) else 1


def _mov(instruction: Instruction, _context: OperationContext) -> Operation:
    (kind,) = instruction.modifiers
    target, source = instruction.operands
    if kind not in DTYPES:
        raise UnknownForm
    if isinstance(source, Vector):
        return _pack(kind, _parts(source))
    if isinstance(target, Vector):
        return _unpack(kind, _parts(target))
    kind = kind if kind == "pred" else f"b{BITS[kind]}"
    return Operation((kind,), (kind,), copy)


def _pack(kind: str, count: int) -> Operation:
    bits = BITS[kind] // count
    part, whole = f"b{bits}", f"b{BITS[kind]}"

    def compute(*arrays: Array) -> None:
        *parts, out = arrays
        result = np.zeros(1, out.dtype)
        for position, value in enumerate(parts):
            result = result | value.astype(out.dtype) << out.dtype.type(position * bits)
        np.copyto(out, result)

    return Operation((part,) * count, (whole,), compute)


def _unpack(kind: str, count: int) -> Operation:
    bits = BITS[kind] // count
    part, whole = f"b{bits}", f"b{BITS[kind]}"

    def compute(value: Array, *outs: Array) -> None:
        for position, out in enumerate(outs):
            np.copyto(out, value >> value.dtype.type(position * bits), casting="unsafe")

    return Operation((whole,), (part,) * count, compute)


def _cvta(instruction: Instruction, _context: OperationContext) -> Operation:
    to_space = instruction.modifiers[0] == "to"
    space = space_named(instruction.modifiers[-2])
    kind = instruction.modifiers[-1]
    if kind != "u64" or space is None:
        raise UnknownForm
    tag = np.uint64(space.number << GENERIC_SHIFT)
    if not tag:
        return Operation((kind,), (kind,), copy)
    if to_space:
        return Operation((kind,), (kind,), lambda a, out: np.bitwise_xor(a, tag, out))
    return Operation((kind,), (kind,), lambda a, out: np.bitwise_or(a, tag, out))


def _cvt(instruction: Instruction, context: OperationContext) -> Operation:
    *flags, target, source = instruction.modifiers
    special = narrowing.operation(flags, target, source, len(instruction.operands))
    if special:
        return special
    known = {"ftz", "sat", "satfinite", "relu", *_TO_INTEGRAL, *ROUNDINGS}
    if target not in DTYPES or source not in DTYPES or set(flags) - known:
        raise UnknownForm
    if {"satfinite", "relu"} & set(flags):
        raise UnknownForm
    if len(instruction.operands) != 2:
        raise UnknownForm
    integer_target, integer_source = target[0] in "su", source[0] in "su"
    if integer_target and integer_source:
        convert = _integer_to_integer(target, "sat" in flags)
    elif integer_target:
        convert = _float_to_integer(target, source, flags)
    elif integer_source:
        convert = _integer_to_float(target, source, flags, context)
    else:
        convert = _float_to_float(target, source, flags, context)
    # A narrower result fills its register: it is sign-extended if it is signed, else zero-extended.
    width = max(context.register_bits(instruction.operands[0]), BITS[target])
    filled = target if width == BITS[target] else f"{'s' if target[0] == 's' else 'u'}{width}"
    if integer_target and integer_source and "sat" not in flags and filled == target:
        return Operation((source,), (filled,), copy)
    bits_of_narrow = not integer_target and filled != target

    def compute(a: Array, out: Array) -> None:
        with np.errstate(all="ignore"):
            result = convert(a)
        if bits_of_narrow:
            result = result.view(f"u{result.dtype.itemsize}")
        np.copyto(out, result, casting="unsafe")

    return Operation((source,), (filled,), compute)


def _integer_to_integer(target: str, saturate: bool) -> Convert:
    dtype = DTYPES[target]
    if not saturate:
        return lambda a: a.astype(dtype)
    limits = np.iinfo(dtype)  # type: ignore[type-var]

    def convert(a: Array) -> Array:
        source = np.iinfo(a.dtype)
        low, high = max(limits.min, source.min), min(limits.max, source.max)
        return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(dtype)

    return convert


def _float_to_integer(target: str, source: str, flags: list[str]) -> Convert:
    """Return a function that converts floats to integers and clamps values out of range.

    NaN becomes 0, except if the source is f64 or the target has 64 bits. NaN then becomes the
    integer in which only the highest bit is set.

    Args:
        target: PTX type of the integers.
        source: PTX type of the floats.
        flags: The other modifiers, with the rounding to an integer.
    """
    to_integral = next((_TO_INTEGRAL[f] for f in flags if f in _TO_INTEGRAL), None)
    if to_integral is None:
        raise UnknownForm
    dtype = DTYPES[target]
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    is_wide = source == "f64" or target in ("s64", "u64")
    of_nan = dtype(limits.min if target[0] == "s" else 1 << (BITS[target] - 1)) if is_wide else 0
    ftz = "ftz" in flags

    def convert(a: Array) -> Array:
        if source == "bf16":
            a = bf16_to_f32(a)
        whole = to_integral(flushed(a) if ftz and source == "f32" else a).astype(np.float64)
        # 2^63 - 1 and 2^64 - 1 are not float64 numbers. As floats they round up to the first value
        # that is out of range, hence the comparison with >=.
        above = whole >= float(limits.max) if BITS[target] == 64 else whole > limits.max
        below = whole < limits.min
        inside = np.where(above | below | np.isnan(whole), 0, whole).astype(dtype)
        result = np.where(above, limits.max, np.where(below, limits.min, inside)).astype(dtype)
        return np.where(np.isnan(whole), of_nan, result).astype(dtype)

    return convert


def _integer_to_float(
    target: str, source: str, flags: list[str], context: OperationContext
) -> Convert:
    rounding = next((f for f in flags if f in ROUNDINGS), "rn")
    wide = "s64" if source[0] == "s" else "u64"
    if target in ("f32", "f64") and rounding != "rn":
        native = context.native(f"{wide}_to_{target}", ROUNDINGS[rounding])
        convert = _through(native, DTYPES[wide], DTYPES[target])
    elif target in ("f32", "f64", "f16") and (target != "f16" or BITS[source] <= 32):
        if rounding != "rn":
            raise UnknownForm
        # Every 32-bit integer is exact in float64, so the result is rounded to half precision only
        # once.
        first = np.float64 if target == "f16" else DTYPES[target]
        convert = lambda a: a.astype(first).astype(DTYPES[target])  # noqa: E731
    elif target == "bf16" and rounding == "rn" and BITS[source] <= 32:
        convert = lambda a: f32_to_bf16(f64_to_f32_odd(a.astype(np.float64)))  # noqa: E731
    else:
        raise UnknownForm
    if "sat" in flags:
        return lambda a: saturated(convert(a))
    return convert


def _through(
    native: Callable[..., None], source: type[np.generic], target: type[np.generic]
) -> Convert:
    def convert(a: Array) -> Array:
        result = np.empty(a.shape, target)
        native(a.astype(source), result)
        return result

    return convert


def _float_to_float(
    target: str, source: str, flags: list[str], context: OperationContext
) -> Convert:
    steps: list[Convert] = []
    if source == "bf16":
        steps.append(bf16_to_f32)
    if "ftz" in flags and source == "f32":
        steps.append(flushed)
    if to_integral := next((_TO_INTEGRAL[f] for f in flags if f in _TO_INTEGRAL), None):
        steps.append(to_integral)
    rounding = next((f for f in flags if f in ROUNDINGS), "rn")
    steps.append(_narrowing(target, source, rounding, context))
    # A bf16 is widened by a shift, which keeps the payload of a NaN (measured on sm_90).
    if target == "f32" and source != "bf16":
        steps.append(_canonical)
    if "ftz" in flags and target == "f32":
        steps.append(flushed)
    if "sat" in flags:
        steps.append(saturated)

    def convert(a: Array) -> Array:
        for step in steps:
            a = step(a)
        return a

    return convert


def _canonical(a: Array) -> Array:
    return np.where(np.isnan(a), CANONICAL_NAN, a)


def _narrowing(target: str, source: str, rounding: str, context: OperationContext) -> Convert:
    if target in ("f32", "f64") and (BITS[source] <= BITS[target]):
        return lambda a: a.astype(DTYPES[target])
    if target == "f32" and source == "f64":
        native = context.native("f64_to_f32", ROUNDINGS[rounding])
        return _through(native, np.float64, np.float32)
    if target == "bf16" and source in ("bf16", "f32", "f16"):
        if rounding not in ("rn", "rz"):
            raise UnknownForm
        return lambda a: f32_to_bf16(a.astype(np.float32), rounding)
    if target == "bf16" and source == "f64" and rounding == "rn":
        return lambda a: f32_to_bf16(f64_to_f32_odd(a))
    if target == "f16" and rounding == "rn":
        return _to_half
    raise UnknownForm


def _to_half(a: Array) -> Array:
    half = a.astype(np.float16)
    bits = np.where(np.isnan(a), np.uint16(0x7FFF), half.view(np.uint16))
    return bits.view(np.float16)


OPERATIONS: Mapping[str, Builder] = MappingProxyType({"mov": _mov, "cvta": _cvta, "cvt": _cvt})
"""Builders by opcode."""
