"""Logic, shifts, and instructions on single bits and bit fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.operation import (
    BITS,
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Immediate, Instruction

_LOGIC = MappingProxyType(
    {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert}
)


def _kind(instruction: Instruction, *allowed: str) -> str:
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in allowed:
        raise UnknownForm
    return instruction.modifiers[0]


def _logic(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "pred", "b16", "b32", "b64")
    ufunc = _LOGIC[instruction.opcode]
    return Operation((kind,) * ufunc.nin, (kind,), ufunc)


def _cnot(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "b16", "b32", "b64")

    def compute(a: Array, out: Array) -> None:
        np.copyto(out, a == 0, casting="unsafe")

    return Operation((kind,), (kind,), compute)


def _shift(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
    if instruction.opcode == "shl":
        kind = "u" + kind[1:]
    ufunc = np.left_shift if instruction.opcode == "shl" else np.right_shift
    width = BITS[kind]
    # NumPy, like PTX, shifts all bits out where the amount is at least the width.
    if isinstance(instruction.operands[2], Immediate) or width == 32:
        return Operation((kind, kind), (kind,), ufunc)

    def compute(a: Array, amount: Array, out: Array) -> None:
        ufunc(a, np.minimum(amount, width).astype(a.dtype), out)

    return Operation((kind, "u32"), (kind,), compute)


def _funnel(instruction: Instruction, _context: OperationContext) -> Operation:
    direction, mode, kind = instruction.modifiers
    if kind != "b32" or direction not in ("l", "r") or mode not in ("wrap", "clamp"):
        raise UnknownForm

    def compute(a: Array, b: Array, c: Array, out: Array) -> None:
        amount = (c & 31 if mode == "wrap" else np.minimum(c, 32)).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a
        shifted = both << amount >> np.uint64(32) if direction == "l" else both >> amount
        np.copyto(out, shifted, casting="unsafe")

    return Operation(("u32", "u32", "u32"), ("u32",), compute)


def _lop3(instruction: Instruction, _context: OperationContext) -> Operation:
    table = instruction.operands[-1]
    if instruction.modifiers != ("b32",) or not isinstance(table, Immediate):
        raise UnknownForm
    # Bit 4a + 2b + c of the table is the result for the bits a, b and c. The result is the union of
    # the minterms whose bit is set.
    minterms = [i for i in range(8) if table.value >> i & 1]

    def compute(a: Array, b: Array, c: Array, _table: Array, out: Array) -> None:
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for term in minterms:
            result |= (a if term & 4 else ~a) & (b if term & 2 else ~b) & (c if term & 1 else ~c)
        np.copyto(out, result)

    return Operation(("u32", "u32", "u32", "u32"), ("u32",), compute)


def _prmt(instruction: Instruction, _context: OperationContext) -> Operation:
    if instruction.modifiers != ("b32",):
        raise UnknownForm

    def compute(a: Array, b: Array, selector: Array, out: Array) -> None:
        both = b.astype(np.uint64) << np.uint64(32) | a
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
        for position in range(4):
            control = selector >> np.uint32(4 * position)
            # Four bits of the selector choose a byte: three give its number, the fourth replicates
            # its sign.
            byte = both >> ((control & 7) * 8).astype(np.uint64) & np.uint64(0xFF)
            sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            chosen = np.where(control & 8, sign, byte).astype(np.uint32)
            result |= chosen << np.uint32(8 * position)
        np.copyto(out, result)

    return Operation(("u32", "u32", "u32"), ("u32",), compute)


def _reverse(a: Array) -> Array:
    """Return each integer with its bits in reverse order."""
    width = a.dtype.itemsize
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(-1, width)
    bits = np.unpackbits(octets, axis=1, bitorder="little")[:, ::-1]
    return np.packbits(bits, axis=1, bitorder="little").view(a.dtype).reshape(a.shape)


def _highest(a: Array) -> Array:
    """Return the position (int64) of each integer's highest set bit, or -1 for zero."""
    position = np.full(a.shape, -1, np.int64)
    rest = a.astype(np.uint64)
    # Binary search for the highest bit, since NumPy has no function for it.
    for step in (32, 16, 8, 4, 2, 1):
        more = rest >= (np.uint64(1) << np.uint64(step))
        rest = np.where(more, rest >> np.uint64(step), rest)
        position += np.where(more, step, 0)
    position += rest != 0
    return position


def _counting(count: Callable[[Array], Array]) -> Builder:
    def build(instruction: Instruction, _context: OperationContext) -> Operation:
        kind = _kind(instruction, "b32", "b64")

        def compute(a: Array, out: Array) -> None:
            np.copyto(out, count(a), casting="unsafe")

        return Operation((kind,), ("u32",), compute)

    return build


def _leading_zeros(a: Array) -> Array:
    return a.dtype.itemsize * 8 - 1 - _highest(a)


def _brev(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "b32", "b64")

    def compute(a: Array, out: Array) -> None:
        np.copyto(out, _reverse(a))

    return Operation((kind,), (kind,), compute)


def _bfind(instruction: Instruction, _context: OperationContext) -> Operation:
    shift_amount = instruction.modifiers[0] == "shiftamt"
    kind = instruction.modifiers[-1]
    if kind not in ("u32", "s32", "u64", "s64"):
        raise UnknownForm
    top = BITS[kind] - 1

    def compute(a: Array, out: Array) -> None:
        magnitude = np.where(a < 0, ~a, a) if kind[0] == "s" else a
        position = _highest(magnitude)
        if shift_amount:
            position = np.where(position < 0, -1, top - position)
        np.copyto(out, position, casting="unsafe")

    return Operation((kind,), ("u32",), compute)


def _extract(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "u32", "s32", "u64", "s64")
    width = BITS[kind]

    def compute(a: Array, start: Array, length: Array, out: Array) -> None:
        start = (start & 0xFF).astype(np.int64)
        length = (length & 0xFF).astype(np.int64)
        unsigned = a.astype(np.uint64) & np.uint64(2**width - 1)
        field = _shift_right(unsigned, start) & _ones(length)
        if kind[0] == "s":
            top = np.minimum(start + length - 1, width - 1)
            sign = _shift_right(unsigned, top) & np.uint64(1)
            # Bits beyond the number and above the field are copies of the field's top bit.
            kept = np.clip(np.minimum(length, width - start), 0, 64)
            field = np.where((sign == 1) & (length > 0), field | ~_ones(kept), field)
        np.copyto(out, field, casting="unsafe")

    return Operation((kind, "u32", "u32"), (kind,), compute)


def _insert(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = _kind(instruction, "b32", "b64")

    def compute(field: Array, into: Array, start: Array, length: Array, out: Array) -> None:
        start = (start & 0xFF).astype(np.int64)
        length = (length & 0xFF).astype(np.int64)
        mask = _shift_left(_ones(length), start)
        shifted = _shift_left(field.astype(np.uint64), start)
        np.copyto(out, (shifted & mask) | (into.astype(np.uint64) & ~mask), casting="unsafe")

    return Operation((kind, kind, "u32", "u32"), (kind,), compute)


def _ones(count: Array) -> Array:
    """Return 64-bit integers whose `count` lowest bits are set."""
    return ~_shift_left(np.full(1, 2**64 - 1, np.uint64), count)


def _shift_left(a: Array, amount: Array) -> Array:
    return a << np.minimum(amount, 64).astype(np.uint64)


def _shift_right(a: Array, amount: Array) -> Array:
    return a >> np.clip(amount, 0, 64).astype(np.uint64)


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {
        "and": _logic,
        "or": _logic,
        "xor": _logic,
        "not": _logic,
        "cnot": _cnot,
        "shl": _shift,
        "shr": _shift,
        "shf": _funnel,
        "lop3": _lop3,
        "prmt": _prmt,
        "popc": _counting(np.bitwise_count),
        "clz": _counting(_leading_zeros),
        "brev": _brev,
        "bfind": _bfind,
        "bfe": _extract,
        "bfi": _insert,
    }
)
"""Builders by opcode."""
