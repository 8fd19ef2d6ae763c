"""Comparison (`setp`, `set`) and selection (`selp`, `slct`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.narrow import bf16_to_f32
from harness.simulator.instructions.operation import (
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import DestinationPair, Instruction

_ORDERED = MappingProxyType(
    {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "lo": np.less,
        "ls": np.less_equal,
        "hi": np.greater,
        "hs": np.greater_equal,
    }
)
_COMBINE = MappingProxyType({"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor})


def _not(ufunc: np.ufunc) -> Callable[[Array, Array], Array]:
    return lambda a, b: np.logical_not(ufunc(a, b))


def _either_nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _float_ne(a: Array, b: Array) -> Array:
    """Return, for each pair of numbers, whether they differ and neither is NaN."""
    return np.less(a, b) | np.greater(a, b)


_FLOAT: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {
        "eq": np.equal,
        "ne": _float_ne,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "equ": _not(_float_ne),  # type: ignore[arg-type]
        "neu": np.not_equal,
        "ltu": _not(np.greater_equal),
        "leu": _not(np.greater),
        "gtu": _not(np.less_equal),
        "geu": _not(np.less),
        "nan": _either_nan,
        "num": lambda a, b: np.logical_not(_either_nan(a, b)),
    }
)


def flushed(a: Array) -> Array:
    """Return float32 numbers with subnormals replaced by zeros of the same sign (`.ftz`)."""
    return np.where(np.abs(a) < np.float32(2.0**-126), np.copysign(np.float32(0), a), a)


def _flushed_half(a: Array) -> Array:
    return np.where(np.abs(a) < np.float16(2.0**-14), np.copysign(np.float16(0), a), a)


def _comparison(name: str, kind: str, is_flushed: bool) -> Callable[[Array, Array], Array]:
    if kind[0] in "sub" and not kind.startswith("bf16"):
        if name not in _ORDERED:
            raise UnknownForm
        return _ORDERED[name]
    if name not in _FLOAT:
        raise UnknownForm
    compare = _FLOAT[name]
    if kind in ("bf16", "bf16x2"):
        return lambda a, b: compare(bf16_to_f32(a), bf16_to_f32(b))
    if kind not in ("f16", "f16x2", "f32", "f64"):
        raise UnknownForm
    if is_flushed and kind in ("f16", "f16x2"):
        return lambda a, b: compare(_flushed_half(a), _flushed_half(b))
    if is_flushed and kind == "f32":
        return lambda a, b: compare(flushed(a), flushed(b))
    return compare


def _unsigned_names(name: str, kind: str) -> str:
    return "u" + kind[1:] if name in ("lo", "ls", "hi", "hs") else kind


def _setp(instruction: Instruction, _context: OperationContext) -> Operation:
    modifiers = [m for m in instruction.modifiers if m != "ftz"]
    name, kind = modifiers[0], modifiers[-1]
    compare = _comparison(name, kind, "ftz" in instruction.modifiers)
    kind = _unsigned_names(name, kind)
    pair = isinstance(instruction.operands[0], DestinationPair)
    if kind.endswith("x2"):
        return _setp_of_two(instruction, kind, compare)
    outputs = ("pred", "pred") if pair else ("pred",)
    if len(modifiers) == 2:
        if isinstance(compare, np.ufunc) and not pair:
            return Operation((kind, kind), outputs, compare)

        def plain(a: Array, b: Array, *out: Array) -> None:
            result = compare(a, b)
            np.copyto(out[0], result)
            if pair:
                np.logical_not(result, out[1])

        return Operation((kind, kind), outputs, plain)
    combine = _COMBINE[modifiers[1]]

    def combined(a: Array, b: Array, c: Array, *out: Array) -> None:
        result = compare(a, b)
        # Computed first, because the first destination may be the register that holds c.
        inverse = combine(np.logical_not(result), c)
        combine(result, c, out[0])
        if pair:
            np.copyto(out[1], inverse)

    return Operation((kind, kind, "pred"), outputs, combined)


def _setp_of_two(
    instruction: Instruction, kind: str, compare: Callable[[Array, Array], Array]
) -> Operation:
    """Return the `Operation` of `setp` for pairs of half-precision numbers.

    The comparison of the lower halves sets the first predicate. The comparison of the upper halves
    sets the second predicate.
    """
    if not isinstance(instruction.operands[0], DestinationPair) or len(instruction.operands) != 3:
        raise UnknownForm

    def compute(a: Array, b: Array, low: Array, high: Array) -> None:
        result = compare(a, b)
        np.copyto(low, result[:, 0])
        np.copyto(high, result[:, 1])

    return Operation((kind, kind), ("pred", "pred"), compute)


_ONES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "f16": ("b16", 0x3C00),
        "f16x2": ("f16x2", 0x3C00),
        "bf16": ("b16", 0x3F80),
        "bf16x2": ("bf16x2", 0x3F80),
        "u16": ("b16", 0xFFFF),
        "s16": ("b16", 0xFFFF),
    }
)
"""The storage type of each half-precision result of `set`, and the bits of true."""


def _set_half(instruction: Instruction, target: str, kind: str) -> Operation:
    """Return the `Operation` of `set` for f16, bf16 and pairs of them.

    For pairs and a result of type u32 or s32, each half of the result is all ones or zero.
    """
    compare = _comparison(instruction.modifiers[0], kind, "ftz" in instruction.modifiers)
    if kind.endswith("x2") and target in ("u32", "s32"):
        stored, true = "bf16x2", 0xFFFF
    elif kind.endswith("x2") == target.endswith("x2"):
        stored, true = _ONES[target]
    else:
        raise UnknownForm

    def compute(a: Array, b: Array, out: Array) -> None:
        bits = np.where(compare(a, b), np.uint16(true), np.uint16(0))
        np.copyto(out.view(np.uint16), bits)

    return Operation((kind, kind), (stored,), compute)


def _set(instruction: Instruction, _context: OperationContext) -> Operation:
    modifiers = [m for m in instruction.modifiers if m != "ftz"]
    is_half = modifiers[-1] in ("f16", "bf16", "f16x2", "bf16x2")
    if is_half and len(modifiers) == 3 and (modifiers[-1][-2:] == "x2" or modifiers[1] in _ONES):
        return _set_half(instruction, modifiers[1], modifiers[2])
    if len(modifiers) not in (3, 4) or modifiers[-2] not in ("u32", "s32", "f32"):
        raise UnknownForm
    name, target, kind = modifiers[0], modifiers[-2], modifiers[-1]
    compare = _comparison(name, kind, "ftz" in instruction.modifiers)
    kind = _unsigned_names(name, kind)
    true = np.float32(1) if target == "f32" else np.int64(-1)
    combine = _COMBINE[modifiers[1]] if len(modifiers) == 4 else None

    def compute(a: Array, b: Array, *rest: Array) -> None:
        result = compare(a, b)
        if combine:
            result = combine(result, rest[0])
        np.copyto(rest[-1], np.where(result, true, 0), casting="unsafe")

    return Operation((kind, kind, "pred")[: 3 if combine else 2], (target,), compute)


def _selp(instruction: Instruction, _context: OperationContext) -> Operation:
    (kind,) = instruction.modifiers

    def compute(a: Array, b: Array, choice: Array, out: Array) -> None:
        np.copyto(out, np.where(choice, a, b))

    return Operation((kind, kind, "pred"), (kind,), compute)


def _slct(instruction: Instruction, _context: OperationContext) -> Operation:
    kind, condition = (m for m in instruction.modifiers if m != "ftz")
    if condition not in ("s32", "f32"):
        raise UnknownForm

    def compute(a: Array, b: Array, choice: Array, out: Array) -> None:
        np.copyto(out, np.where(choice >= 0, a, b))

    return Operation((kind, kind, condition), (kind,), compute)


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {"setp": _setp, "set": _set, "selp": _selp, "slct": _slct}
)
"""Builders by opcode."""
