"""ldmatrix and stmatrix: moves of 8x8 matrices of 16-bit elements between shared memory and a warp.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix".

Thread 8 i + r has the address of row r of matrix i, which is 16 bytes. Register i of thread l holds
elements 2 (l mod 4) and 2 (l mod 4) + 1 of row l / 4 of matrix i. With `.trans` the register holds
these elements of column l / 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import parts_of, require, rest_of, space_of
from harness.simulator.actions.transfers import Array, Bytes
from harness.simulator.ptx.ptx import Instruction, Operand
from harness.simulator.ptx.space import Space, space_named

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_ROW_BYTES = 16


def _form(instruction: Instruction, registers: Operand) -> tuple[int, bool, tuple[Operand, ...]]:
    """Parse the modifiers of an `ldmatrix` or `stmatrix` instruction.

    Returns:
        The number of matrices, whether they are transposed, and the registers.
    """
    rest = [m for m in rest_of(instruction, "trans") if space_named(m) is not Space.SHARED]
    require(len(rest) == 3 and rest[0] == "m8n8" and rest[2] == "b16")
    count = _COUNTS[rest[1]]
    parts = parts_of(registers)
    require(len(parts) == count)
    return count, "trans" in instruction.modifiers, parts


def _ldmatrix(instruction: Instruction) -> Action:
    """Return an `Action` that executes `ldmatrix {registers}, [rows]`."""
    target, address = instruction.operands
    count, is_transposed, targets = _form(instruction, target)
    space = space_of(instruction)

    def run(active: ActiveThreads, at: Array) -> list[Array]:
        rows = _rows(active.lanes, count)
        data = active.read(space, rows, _rows(at, count), _ROW_BYTES)
        matrices = data.view(np.uint16).reshape(-1, count, 8, 8)
        if is_transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(2, 3))
        registers = matrices.view(np.uint32).reshape(-1, count, 32)
        return [registers[:, i].reshape(-1) for i in range(count)]

    return Action(
        (Input(address, "u64"),), targets, ("b32",) * count, run, group=32, traffic="warps"
    )


def _stmatrix(instruction: Instruction) -> Action:
    """Return an `Action` that executes `stmatrix [rows], {registers}`."""
    address, source = instruction.operands
    count, is_transposed, sources = _form(instruction, source)
    space = space_of(instruction)

    def run(active: ActiveThreads, at: Array, *registers: Array) -> None:
        words = np.stack([r.reshape(-1, 32) for r in registers], axis=1)
        matrices = words.view(np.uint16).reshape(-1, count, 8, 8)
        if is_transposed:
            matrices = matrices.swapaxes(2, 3)
        data: Bytes = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, _ROW_BYTES)
        active.write(space, _rows(active.lanes, count), _rows(at, count), data)

    inputs = (Input(address, "u64"), *(Input(s, "b32") for s in sources))
    return Action(inputs, (), (), run, group=32, traffic="warps")


def _rows(values: Array, count: int) -> Array:
    """Return the values of only those threads that hold the address of a matrix row.

    These are the first 8 * `count` threads of each warp, for `count` matrices.
    """
    return values.reshape(-1, 32)[:, : 8 * count].reshape(-1)


ACTIONS: Mapping[str, Maker] = MappingProxyType({"ldmatrix": _ldmatrix, "stmatrix": _stmatrix})
"""Makers by opcode."""
