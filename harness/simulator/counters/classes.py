"""Classes of PTX instructions for the counters, and the operations that an instruction does.

As in Nsight Compute, an addition or multiplication is one floating-point operation, and a fused
multiply-add is two. Instructions for a division or a square root do not count as floating-point
operations. The operations of matrix instructions are counted separately.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from harness.simulator.ptx.ptx import Instruction
from harness.simulator.ptx.space import Space, space_named

_CONTROL = frozenset({"bra", "brx", "ret", "exit", "call", "trap", "brkpt"})
_BARRIER = frozenset({"bar", "barrier", "membar", "fence", "mbarrier"})
_SPECIAL = frozenset({"div", "rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"})
_OPERATIONS: Mapping[str, int] = MappingProxyType(
    {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2}
)
_OTHER = frozenset({"mov", "shfl", "vote", "match", "redux", "activemask", "cvta", "isspacep"})
_HALF = frozenset({"f16", "f16x2", "bf16", "bf16x2"})
_MATRIX: Mapping[str, int] = MappingProxyType({"mma": 32, "wmma": 32, "wgmma": 128})
"""Threads that execute a matrix instruction together, by opcode."""
_MATRIX_MEMORY: Mapping[str, str] = MappingProxyType({"ldmatrix": "load", "stmatrix": "store"})
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
INTEGERS = frozenset({"b1", "s4", "u4", "s8", "u8"})
"""Types of factors whose products are not floating-point operations."""


def classify(instruction: Instruction) -> str:
    """Return the class in which counters count an instruction: "load global", "float32" etc."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    kind = modifiers[-1] if modifiers else ""
    if opcode in ("ld", "ldu", "st", "atom", "red"):
        name = {"ld": "load", "ldu": "load", "st": "store"}.get(opcode, "atomic")
        return f"{name} {_space(modifiers)}"
    if opcode in _MATRIX_MEMORY:
        return f"{_MATRIX_MEMORY[opcode]} {Space.SHARED}"
    if opcode == "wmma" and modifiers[0] in ("load", "store"):
        return f"{modifiers[0]} {_space(modifiers)}"
    if opcode == "cp":
        return "copy"
    if opcode in _BARRIER:
        return "barrier"
    if opcode in _CONTROL:
        return "control"
    if opcode == "cvt":
        return "conversion"
    if opcode in _SPECIAL and kind[:1] in ("f", "b"):
        return "special"
    if opcode in _MATRIX:
        return "matrix"
    if opcode in _OTHER:
        return "other"
    # The last modifier is the type of a comparison's operands and of a selection's result.
    if kind in _HALF:
        return "half"
    return {"f32": "float32", "f64": "float64", "f32x2": "float32"}.get(
        kind, "integer" if kind[:1] in ("s", "u", "b", "p") else "other"
    )


def _space(modifiers: Sequence[str]) -> Space:
    """Return the state space that an instruction's modifiers name, or the generic space."""
    return next(filter(None, map(space_named, modifiers)), Space.GENERIC)


def floating_point_operations(instruction: Instruction) -> tuple[str, int]:
    """Return an instruction's PTX type, and the number of floating-point operations per thread.

    The number is 0 for matrix instructions and for instructions without a floating-point type.
    """
    opcode, modifiers = instruction.opcode, instruction.modifiers
    kind = modifiers[-1] if modifiers else ""
    if opcode in _MATRIX or (kind not in _HALF and kind not in ("f32", "f64", "f32x2")):
        return kind, 0
    each = 2 if kind.endswith("x2") else 1
    return kind.removesuffix("x2"), _OPERATIONS.get(opcode, 0) * each


def matrix_operations(instruction: Instruction) -> tuple[str, int]:
    """Return the type of a matrix instruction's factors, and the number of operations per thread.

    An operation is a multiplication or an addition. The operations of the whole matrix product are
    divided by the number of threads that execute the instruction together. The result is `("", 0)`
    for an instruction that is not a matrix product.

    >>> name = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    >>> opcode, *modifiers = name.split(".")
    >>> matrix_operations(Instruction(opcode, tuple(modifiers), (), None, None, name))
    ('tf32', 64)
    """
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in _MATRIX or (opcode != "mma" and modifiers[0] not in ("mma", "mma_async")):
        return "", 0
    position, shape = next(
        (i, found) for i, m in enumerate(modifiers) if (found := _SHAPE.match(m))
    )
    # The types of D, A, B and perhaps C follow. For float16, wmma names only those of D and C.
    types = [m for m in modifiers[position + 1 :] if m not in ("row", "col", "satfinite")]
    m, n, k = (int(number) for number in shape.groups())
    return "f16" if len(types) == 2 else types[1], 2 * m * n * k // _MATRIX[opcode]
