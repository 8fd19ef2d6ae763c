"""mma.sync: the product of two small matrices whose elements lie in the registers of a warp.

Source: PTX ISA, "Matrix fragments for mma".

All shapes follow one pattern. Thread l has g = l / 4 and t = l mod 4.

- A register of A holds e elements. A 32-bit register holds e = 32 / b elements of b bits each. A
  64-bit register holds e = 1 element of f64.
- The first register of A belongs to an 8 x 4e tile. It holds the elements in row g and columns
  e t ... e t + e - 1 of the tile. The next register holds the elements at the same place in the
  tile below. After the lowest tile, the tiles to the right follow.
- B is laid out like A, with rows and columns exchanged.
- Registers 2 i and 2 i + 1 of C and D belong to row g + 8 i. They hold columns 2 t and 2 t + 1. If
  the elements are float16, one register holds both columns.

tensor_core.py describes the accumulation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import parts_of, require
from harness.simulator.actions.narrow_formats import DECODE
from harness.simulator.actions.tensor_core import (
    HOPPER,
    multiply_add,
    multiply_add_bytes,
    multiply_add_doubles,
    multiply_add_integers,
)
from harness.simulator.actions.transfers import Array
from harness.simulator.ptx.ptx import Instruction

SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "f16": ("m16n8k8", "m16n8k16"),
        "bf16": ("m16n8k8", "m16n8k16"),
        "tf32": ("m16n8k4", "m16n8k8"),
        "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
        "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
        "e4m3": ("m16n8k16", "m16n8k32"),
        "e5m2": ("m16n8k16", "m16n8k32"),
        "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    }
)
ACCUMULATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "f16": ("f16", "f32"),
        "bf16": ("f32",),
        "tf32": ("f32",),
        "s8": ("s32",),
        "u8": ("s32",),
        "e4m3": ("f16", "f32"),
        "e5m2": ("f16", "f32"),
        "f64": ("f64",),
    }
)
"""The formats that the sum may have, for each format of the factors."""
_DTYPES: Mapping[str, type[np.generic]] = MappingProxyType(
    {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}
)


@dataclass(frozen=True)
class Form:
    """Shape and types of a matrix multiplication D = A B + C by tensor cores.

    Attributes:
        m: Rows of A, C and D.
        n: Columns of B, C and D.
        k: Columns of A and rows of B.
        d: PTX type of D.
        a: PTX type of A.
        b: PTX type of B.
        c: PTX type of C.
        saturates: True to clip integer sums to the range of s32.
    """

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    saturates: bool = False

    @property
    def is_of_bytes(self) -> bool:
        """True if A and B hold 8-bit floats."""
        return self.a in ("e4m3", "e5m2")

    def multiply(self, active: ActiveThreads, a: Array, b: Array, c: Array) -> Array:
        """Return a b + c for `count` triples of matrices, with the tensor core's rounding.

        Args:
            active: The threads, which give access to the simulator's C functions.
            a: Array of shape (count, m, k), float64.
            b: Array of shape (count, k, n), float64.
            c: Array of shape (count, m, n), in the dtype of C.

        Returns:
            Array of shape (count, m, n), in the dtype of D.
        """
        if self.a == "f64":
            return multiply_add_doubles(active.native("fma_f64"), a, b, c)
        if self.d == "s32":
            return multiply_add_integers(a, b, c, saturates=self.saturates)
        c = c.astype(_DTYPES["f16" if (self.c, self.d) == ("f16", "f16") else "f32"])
        return multiply_add(active.library, HOPPER[self.a], a, b, c).astype(_DTYPES[self.d])


def lines(registers: tuple[Array, ...], kind: str, blocks: int) -> Array:
    """Return, for each warp, the matrix A or the transposed B that its registers hold, decoded.

    Args:
        registers: The registers; each is an array with one element for each thread.
        kind: PTX type of the elements.
        blocks: Rows of A, or columns of B, divided by 8.

    Returns:
        The decoded elements, of shape (warps, 8 * blocks, k).
    """
    dtype, decode = DECODE[kind]
    words = np.stack(registers)
    elements = decode(words.view(dtype)).reshape(
        -1, blocks, len(words[0]) // 32, 8, 4, each_register(kind)
    )
    return elements.transpose(2, 1, 3, 0, 4, 5).reshape(len(words[0]) // 32, blocks * 8, -1)


def each_register(kind: str) -> int:
    """Return how many elements of the PTX type `kind` one register holds."""
    return 1 if kind == "f64" else 4 // np.dtype(DECODE[kind][0]).itemsize


def sums(registers: tuple[Array, ...], kind: str, m: int) -> Array:
    """Return the accumulator matrices that the registers of warps hold: (warps, m, 8).

    Args:
        registers: The registers; each is an array with one element for each thread.
        kind: PTX type of the elements.
        m: Rows of the matrix.
    """
    words = np.stack(registers).view(_DTYPES[kind])
    if kind == "f16":
        tile = words.reshape(m // 8, -1, 8, 4, 2).transpose(1, 0, 2, 3, 4)
    else:
        tile = words.reshape(m // 8, 2, -1, 8, 4).transpose(2, 0, 3, 4, 1)
    return np.ascontiguousarray(tile).reshape(-1, m, 8)


def registers_of(matrix: Array, kind: str) -> list[Array]:
    """Return the registers that hold accumulator matrices (warps, m, 8): the inverse of `sums`."""
    warps, m, _ = matrix.shape
    tile = matrix.reshape(warps, m // 8, 8, 4, 2)
    if kind == "f16":
        halves = np.ascontiguousarray(tile.transpose(1, 0, 2, 3, 4)).view(np.uint32)
        return list(halves.reshape(m // 8, -1))
    bits = np.ascontiguousarray(tile.transpose(1, 4, 0, 2, 3)).view(
        np.uint64 if kind == "f64" else np.uint32
    )
    return list(bits.reshape(m // 4, -1))


def register_count(rows: int, columns: int, kind: str) -> int:
    """Return how many registers each thread of a warp needs to hold its elements of a matrix.

    Args:
        rows: Rows of the matrix.
        columns: Columns of the matrix.
        kind: PTX type of the elements.
    """
    bits = {"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}.get(kind, 32)
    return max(rows * columns * bits // (32 * (64 if kind == "f64" else 32)), 1)


def register_kind(kind: str) -> str:
    """Return the PTX type of the registers for elements of type `kind`: b64 for f64, else b32."""
    return "b64" if kind == "f64" else "b32"


def _form(instruction: Instruction) -> Form:
    """Return the shape and types of an `mma.sync`.

    Raises:
        UnknownForm, ValueError, KeyError: The PTX ISA does not have this form.
    """
    modifiers = list(instruction.modifiers)
    saturates = "satfinite" in modifiers
    modifiers = [m for m in modifiers if m not in ("satfinite", "sync", "aligned")]
    shape, rows, columns, d, a, b, c = modifiers
    require(rows == "row" and columns == "col" and shape in _SHAPES[a] and b in _SHAPES)
    require(a == b or {a, b} <= {"s8", "u8"} or {a, b} <= {"e4m3", "e5m2"})
    require(c in ACCUMULATORS[a] and d in ACCUMULATORS[a] and (not saturates or d == "s32"))
    size = SHAPE.match(shape)
    assert size is not None  # noqa: S101 - it is one of _SHAPES
    return Form(int(size[1]), int(size[2]), int(size[3]), d, a, b, c, saturates)


def _mma(instruction: Instruction) -> Action:
    """Return an `Action` that executes `mma.sync d, a, b, c`."""
    form = _form(instruction)
    d, a, b, c = (parts_of(operand) for operand in instruction.operands)
    counts = (
        (d, register_count(form.m, form.n, form.d)),
        (a, register_count(form.m, form.k, form.a)),
        (b, register_count(form.k, form.n, form.b)),
        (c, register_count(form.m, form.n, form.c)),
    )
    require(all(len(parts) == count for parts, count in counts))

    def run(active: ActiveThreads, *values: Array) -> list[Array]:
        of_a, of_b = values[: len(a)], values[len(a) : len(a) + len(b)]
        matrix_a = lines(of_a, form.a, form.m // 8)
        matrix_b = lines(of_b, form.b, 1).swapaxes(1, 2)
        matrix_c = sums(values[len(a) + len(b) :], form.c, form.m)
        if form.is_of_bytes:
            total = multiply_add_bytes(active.library, matrix_a, matrix_b, matrix_c)
            return registers_of(total.astype(_DTYPES[form.d]), form.d)
        return registers_of(form.multiply(active, matrix_a, matrix_b, matrix_c), form.d)

    inputs = tuple(
        Input(register, register_kind(kind))
        for parts, kind in ((a, form.a), (b, form.b), (c, form.c))
        for register in parts
    )
    return Action(inputs, d, (register_kind(form.d),) * len(d), run, group=32)


ACTIONS: Mapping[str, Maker] = MappingProxyType({"mma": _mma})
"""Makers by opcode."""
