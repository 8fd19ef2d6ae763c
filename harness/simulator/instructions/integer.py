"""Integer arithmetic without the carry flag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.operation import (
    BITS,
    DTYPES,
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Instruction

INTEGERS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64"})


def integer_type(instruction: Instruction, *allowed_modifiers: str) -> str:
    """Return the PTX type of an integer instruction.

    Raises:
        UnknownForm: The type is not a 16, 32 or 64-bit integer, or a modifier is not in
            `allowed_modifiers`.
    """
    *others, kind = instruction.modifiers
    if kind not in INTEGERS or set(others) - set(allowed_modifiers):
        raise UnknownForm
    return kind


def _unsigned(kind: str) -> str:
    return "u" + kind[1:]


def _wrapping(ufunc: np.ufunc) -> Builder:
    """Return a function that builds the `Operation` of integer add or sub.

    The result is taken modulo 2^width, so signed and unsigned types give the same bits. With
    `.sat.s32`, the result is clamped instead.
    """

    def build(instruction: Instruction, _context: OperationContext) -> Operation:
        if instruction.modifiers == ("sat", "s32"):
            return Operation(("s32", "s32"), ("s32",), _saturating(ufunc))
        kind = _unsigned(integer_type(instruction))
        return Operation((kind, kind), (kind,), ufunc)

    return build


def _saturating(ufunc: np.ufunc) -> Callable[..., None]:
    def compute(a: Array, b: Array, out: Array) -> None:
        wide = ufunc(a.astype(np.int64), b.astype(np.int64))
        np.copyto(out, np.clip(wide, -(2**31), 2**31 - 1), casting="unsafe")

    return compute


def _mul(instruction: Instruction, context: OperationContext) -> Operation:
    kind = integer_type(instruction, "lo", "hi", "wide")
    if "wide" in instruction.modifiers:
        wide = f"{kind[0]}{BITS[kind] * 2}"
        name = f"mul_wide_{kind}"
        return Operation((kind, kind), (wide,), context.native(name), name)
    if "hi" in instruction.modifiers:
        name = f"mul_hi_{kind}"
        return Operation((kind, kind), (kind,), context.native(name), name)
    kind = _unsigned(kind)
    return Operation((kind, kind), (kind,), np.multiply)


def _mad(instruction: Instruction, context: OperationContext) -> Operation:
    if instruction.modifiers == ("hi", "sat", "s32"):
        raise UnknownForm
    kind = integer_type(instruction, "lo", "hi", "wide")
    if "wide" in instruction.modifiers:
        wide = f"u{BITS[kind] * 2}"
        name = f"mad_wide_{kind}"
        return Operation((kind, kind, wide), (wide,), context.native(name), name)
    if "hi" in instruction.modifiers:
        high = context.native(f"mul_hi_{kind}")

        def compute(a: Array, b: Array, c: Array, out: Array) -> None:
            product = np.empty(np.broadcast_shapes(a.shape, b.shape), DTYPES[kind])
            high(a, b, product)
            np.add(product, c, out)

        return Operation((kind, kind, kind), (kind,), compute)
    kind = _unsigned(kind)
    name = f"mad_lo_{kind}"
    return Operation((kind, kind, kind), (kind,), context.native(name), name)


def _low_24(a: Array) -> Array:
    """Return the low 24 bits of each integer as int64, sign-extended if its type is signed."""
    if a.dtype.kind == "i":
        return (a.astype(np.int64) << 40) >> 40
    return a.astype(np.int64) & 0xFFFFFF


def _mul24(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = integer_type(instruction, "lo", "hi")
    shift = 16 if "hi" in instruction.modifiers else 0

    def multiply(a: Array, b: Array, out: Array) -> None:
        np.copyto(out, (_low_24(a) * _low_24(b)) >> shift, casting="unsafe")

    def multiply_add(a: Array, b: Array, c: Array, out: Array) -> None:
        np.copyto(out, ((_low_24(a) * _low_24(b)) >> shift) + c, casting="unsafe")

    if instruction.opcode == "mad24":
        return Operation((kind, kind, kind), (kind,), multiply_add)
    return Operation((kind, kind), (kind,), multiply)


def _division(instruction: Instruction, context: OperationContext) -> Operation:
    kind = integer_type(instruction)
    name = f"{instruction.opcode}_{kind}"
    return Operation((kind, kind), (kind,), context.native(name), name)


def _elementwise(ufunc: np.ufunc) -> Builder:
    def build(instruction: Instruction, _context: OperationContext) -> Operation:
        kind = integer_type(instruction)
        return Operation((kind,) * ufunc.nin, (kind,), _into(ufunc))

    return build


def _into(ufunc: np.ufunc) -> Callable[..., object]:
    """Return a ufunc as a function whose last argument is the output array."""
    return lambda *arrays: ufunc(*arrays[:-1], out=arrays[-1])


def _sad(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = integer_type(instruction)

    def compute(a: Array, b: Array, c: Array, out: Array) -> None:
        # The larger minus the smaller is right modulo 2^width, even if it overflows.
        np.add(np.maximum(a, b) - np.minimum(a, b), c, out)

    return Operation((kind, kind, kind), (kind,), compute)


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {
        "add": _wrapping(np.add),
        "sub": _wrapping(np.subtract),
        "mul": _mul,
        "mad": _mad,
        "mul24": _mul24,
        "mad24": _mul24,
        "div": _division,
        "rem": _division,
        "abs": _elementwise(np.absolute),
        "neg": _elementwise(np.negative),
        "min": _elementwise(np.minimum),
        "max": _elementwise(np.maximum),
        "sad": _sad,
    }
)
"""Builders by opcode, for the integer types."""
