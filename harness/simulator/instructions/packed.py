"""Arithmetic on small integers packed in a 32-bit word, and other integer intrinsics of CUDA.

The only SIMD video instruction that nvcc 13 emits is `vabsdiff4`. The other `__v...` intrinsics
become plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.operation import (
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Instruction

PAIRS: Mapping[str, type[np.generic]] = MappingProxyType({"u16x2": np.uint16, "s16x2": np.int16})
_EXTREMA = MappingProxyType({"min": np.minimum, "max": np.maximum})
_BYTES: Mapping[str, type[np.generic]] = MappingProxyType({"u32": np.uint8, "s32": np.int8})
_HALVES: Mapping[str, type[np.generic]] = MappingProxyType({"u32": np.uint16, "s32": np.int16})


def _parts(a: Array, dtype: type[np.generic]) -> Array:
    """Return the integers that are packed in each word: an array with a row for each word.

    The integer in a word's lowest bits comes first.
    """
    return np.ascontiguousarray(a).view(dtype).reshape(len(a), -1)


def handles(instruction: Instruction) -> bool:
    """Return whether an add, min or max operates on packed integers or has `.relu`."""
    modifiers = instruction.modifiers
    return bool(modifiers) and (modifiers[-1] in PAIRS or "relu" in modifiers)


def pairwise(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of add, min or max of packed 16-bit integers.

    Also handles min and max of s32 with `.relu`, which makes negative results 0.
    """
    kind, *others = instruction.modifiers
    opcode = instruction.opcode
    if others not in ([], ["relu"]) or (others and kind[0] != "s"):
        raise UnknownForm
    if kind == "s32" and others and opcode in _EXTREMA:
        dtype: type[np.generic] = np.int32
    elif kind in PAIRS and (opcode in _EXTREMA or (opcode == "add" and not others)):
        dtype = PAIRS[kind]
    else:
        raise UnknownForm
    ufunc = _EXTREMA.get(opcode, np.add)

    def compute(a: Array, b: Array, out: Array) -> None:
        result = ufunc(_parts(a, dtype), _parts(b, dtype))
        if others:
            result = np.maximum(result, dtype(0))
        np.copyto(out, np.ascontiguousarray(result).view(np.uint32).reshape(-1))

    return Operation(("u32", "u32"), ("u32",), compute)


def _dot(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of dp4a or dp2a, which add products to a third operand.

    The factors are packed integers. dp4a adds four products of two bytes. dp2a adds two products of
    a 16-bit integer and a byte.
    """
    *half, first, second = instruction.modifiers
    is_two = instruction.opcode == "dp2a"
    if len(half) != int(is_two) or not set(half) <= {"lo", "hi"}:
        raise UnknownForm
    a_type = (_HALVES if is_two else _BYTES)[first]
    b_type = _BYTES[second]
    chosen = slice(None) if not is_two else slice(0, 2) if half == ["lo"] else slice(2, 4)

    def compute(a: Array, b: Array, c: Array, out: Array) -> None:
        products = _parts(a, a_type).astype(np.int64) * _parts(b, b_type)[:, chosen]
        np.copyto(out, products.sum(1) + c, casting="unsafe")

    return Operation(("u32", "u32", "u32"), ("u32",), compute)


def _absolute_difference(instruction: Instruction, _context: OperationContext) -> Operation:
    kinds = instruction.modifiers[:3]
    rest = instruction.modifiers[3:]
    if kinds not in (("u32",) * 3, ("u32", "s32", "s32"), ("s32",) * 3) or rest not in (
        (),
        ("add",),
    ):
        raise UnknownForm
    dtype = _BYTES[kinds[1]]

    def compute(a: Array, b: Array, c: Array, out: Array) -> None:
        difference = np.abs(_parts(a, dtype).astype(np.int64) - _parts(b, dtype))
        if rest:
            np.copyto(out, difference.sum(1) + c, casting="unsafe")
        else:
            octets = np.ascontiguousarray(difference.astype(np.uint8))
            np.copyto(out, octets.view(np.uint32).reshape(-1))

    return Operation(("u32", "u32", "u32"), ("u32",), compute)


def _find_nth_set(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of fns, which finds the |offset|-th set bit from `base` on.

    The search is upwards for a positive offset, and downwards for a negative offset (PTX ISA,
    "fns").
    """
    if instruction.modifiers != ("b32",):
        raise UnknownForm

    def compute(mask: Array, base: Array, offset: Array, out: Array) -> None:
        arrays = np.broadcast_arrays(mask, base, offset)
        np.copyto(out, np.array([_nth(*map(int, row)) for row in zip(*arrays, strict=True)], "u4"))

    return Operation(("u32", "u32", "s32"), ("u32",), compute)


def _nth(mask: int, base: int, offset: int) -> int:
    if base > 31:
        return 0xFFFFFFFF
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    positions = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in positions if mask >> p & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {"dp4a": _dot, "dp2a": _dot, "vabsdiff4": _absolute_difference, "fns": _find_nth_set}
)
"""Builders by opcode."""
