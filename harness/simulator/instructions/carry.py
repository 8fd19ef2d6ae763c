"""Integer arithmetic with the carry flag, from which nvcc builds 128-bit and wider integers.

The flag is a register of its own. The operations take the flag as their last input, and return it
as their last output if the instruction has `.cc`. A subtraction adds the complement, so the flag is
0 after a borrow and 1 without a borrow. The PTX ISA speaks of a borrow and does not say how the
flag encodes it. CUDA's own 128-bit division reads the flag of a subtraction with `addc`, and relies
on this encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.operation import (
    DTYPES,
    Array,
    Operation,
    OperationContext,
    UnknownForm,
)
from harness.simulator.ptx.ptx import Instruction

OPCODES: Mapping[str, str] = MappingProxyType(
    {
        "add": "add",
        "addc": "add",
        "sub": "sub",
        "subc": "sub",
        "mad": "mad",
        "madc": "mad",
    }
)
"""The operation of each opcode, apart from the flag."""


def reads_flag(instruction: Instruction) -> bool:
    """Return whether the instruction reads the carry flag (`addc`, `subc`, `madc`)."""
    return instruction.opcode in ("addc", "subc", "madc")


def writes_flag(instruction: Instruction) -> bool:
    """Return whether the instruction writes the carry flag (`.cc`)."""
    return "cc" in instruction.modifiers


def operation_with_flag(instruction: Instruction, context: OperationContext) -> Operation:
    """Return the computation of an instruction that reads or writes the carry flag.

    The flag is the last input if the instruction reads it, and the last output if it writes it.

    Raises:
        UnknownForm: PTX does not have this form of the instruction.
    """
    base = OPCODES[instruction.opcode]
    kind = instruction.modifiers[-1]
    half = next((m for m in instruction.modifiers if m in ("lo", "hi")), "")
    others = set(instruction.modifiers[:-1]) - {"cc", half}
    if kind not in ("u32", "s32", "u64", "s64") or others or (base == "mad") != bool(half):
        raise UnknownForm
    reads, writes = reads_flag(instruction), writes_flag(instruction)
    unsigned = "u" + kind[1:]
    product: Callable[[Array, Array], Array] = _low
    if half == "hi":
        high = context.native(f"mul_hi_{kind}")

        def product(a: Array, b: Array) -> Array:
            signed = DTYPES[kind]
            result = np.empty(np.broadcast_shapes(a.shape, b.shape), signed)
            high(a.view(signed), b.view(signed), result)
            return result.view(DTYPES[unsigned])

    def compute(*arrays: Array) -> None:
        operands = list(arrays[: count + reads])
        flag = operands.pop() if reads else np.full(1, base == "sub")
        if base == "mad":
            operands[:2] = [product(operands[0], operands[1])]
        combine = _subtract if base == "sub" else _add
        result, carry = combine(operands[0], operands[1], flag.astype(operands[0].dtype))
        np.copyto(arrays[count + reads], result)
        if writes:
            np.copyto(arrays[-1], carry)

    count = 3 if base == "mad" else 2
    inputs = (unsigned,) * count + ("pred",) * reads
    return Operation(inputs, (unsigned,) + ("pred",) * writes, compute)


def _low(a: Array, b: Array) -> Array:
    return np.multiply(a, b)


def _add(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    # An unsigned sum has wrapped if it is less than an operand.
    first = a + b
    total = first + carry
    return total, (first < a) | (total < first)


def _subtract(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _add(a, ~b, carry)
