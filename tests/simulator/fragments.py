"""Layouts of matrices in the registers of a warp, as the PTX ISA defines them.

The formulas come from the chapter "Matrix fragments for mma", not from the simulator's code. So the
tests compare two independent implementations of that chapter.
"""

import numpy as np

from tests.simulator.support import Array

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "f32": 32, "s32": 32}

_E4M3 = {
    sign * (m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)): (sign < 0) << 7
    | e << 3
    | m
    for sign in (-1, 1)
    for e in range(16)
    for m in range(8)
    if (e, m) != (15, 7)
}
"""The bits of every finite number of e4m3."""


def encode(values: Array, kind: str) -> Array:
    """Return numbers as the bits of format `kind`, in uint32; the format must hold them exactly."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind == "bf16":
        return values.astype(np.float32).view(np.uint32) >> np.uint32(16)
    if kind in ("tf32", "f32"):
        return values.astype(np.float32).view(np.uint32)
    if kind == "e4m3":
        coded = [_E4M3[value] for value in values.astype(np.float64).reshape(-1).tolist()]
        return np.array(coded, np.uint32).reshape(values.shape)
    whole: Array = values.astype(np.int64).astype(np.uint32)
    return whole & np.uint32(2 ** _BITS[kind] - 1)


def _a_place(kind: str, k: int, lane: int, i: int) -> tuple[int, int]:
    """Return (row, column) in matrix A of the element a_i that lane `lane` of a warp holds."""
    group, thread = lane >> 2, lane % 4
    if kind in ("f16", "bf16"):
        row = group if i < 2 or 4 <= i < 6 else group + 8
        return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)
    if kind == "tf32":
        return (group if i in (0, 2) else group + 8), thread + (4 if i >= 2 else 0)
    if k == 16:
        return (group if i < 4 else group + 8), thread * 4 + (i & 3)
    row = group if i < 4 or 8 <= i < 12 else group + 8
    return row, thread * 4 + (i & 3) + (16 if i >= 8 else 0)


def _b_place(kind: str, lane: int, i: int) -> tuple[int, int]:
    """Return (row, column) in matrix B of the element b_i that lane `lane` of a warp holds."""
    group, thread = lane >> 2, lane % 4
    if kind in ("f16", "bf16"):
        return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
    if kind == "tf32":
        return thread + (4 if i >= 1 else 0), group
    return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group


def _pack(elements: Array, kind: str) -> Array:
    """Pack elements (element, thread) into 32-bit registers (register, thread).

    The first element of a register takes its lowest bits.
    """
    each = 32 // _BITS[kind]
    parts = elements.reshape(-1, each, elements.shape[1])
    registers = np.zeros(parts[:, 0].shape, np.uint32)
    for position in range(each):
        registers |= parts[:, position] << np.uint32(position * _BITS[kind])
    return registers


def _spread(matrices: Array, kind: str, places: list[list[tuple[int, int]]]) -> Array:
    """Distribute matrices, one for each warp, over registers (register, thread).

    `places` has, for each lane, the (row, column) of each element that the lane holds.
    """
    coded = encode(matrices, kind)
    warps = [
        np.array([[matrix[places[lane][i]] for lane in range(32)] for i in range(len(places[0]))])
        for matrix in coded
    ]
    return _pack(np.concatenate(warps, axis=1).astype(np.uint32), kind)


def a_registers(matrices: Array, kind: str) -> Array:
    """Return matrices A (warp, 16, k) as mma operands in registers (register, thread)."""
    k = matrices.shape[2]
    places = [[_a_place(kind, k, lane, i) for i in range(16 * k // 32)] for lane in range(32)]
    return _spread(matrices, kind, places)


def b_registers(matrices: Array, kind: str) -> Array:
    """Return matrices B (warp, k, 8) as mma operands in registers (register, thread)."""
    k = matrices.shape[1]
    places = [[_b_place(kind, lane, i) for i in range(8 * k // 32)] for lane in range(32)]
    return _spread(matrices, kind, places)


def _c_place(lane: int, i: int) -> tuple[int, int]:
    """Return (row, column) of the accumulator element c_i that lane `lane` of a warp holds."""
    return (lane >> 2) + (0 if i < 2 else 8), (lane % 4) * 2 + (i & 1)


def accumulator_registers(matrices: Array, kind: str) -> Array:
    """Return accumulator matrices (warp, 16, 8) in registers (register, thread)."""
    return _spread(matrices, kind, [[_c_place(lane, i) for i in range(4)] for lane in range(32)])


def accumulators_of(registers: Array, kind: str, m: int) -> Array:
    """Return the accumulator matrices (warp, m, 8) from registers (register, thread)."""
    if kind == "f16":
        halves = registers.view(np.float16).reshape(registers.shape[0], -1, 2)
        elements = halves.transpose(0, 2, 1).reshape(-1, registers.shape[1])
    else:
        elements = registers.view(np.float32 if kind == "f32" else np.int32)
    result = np.zeros((registers.shape[1] // 32, m, 8), elements.dtype)
    for lane in range(registers.shape[1]):
        for i in range(4):
            result[(lane // 32, *_c_place(lane % 32, i))] = elements[i, lane]
    return result
