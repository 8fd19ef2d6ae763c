"""wmma: loads, stores and products of matrices, which the functions of <mma.h> compile to.

Source: PTX ISA, "Warp-level matrix multiply-accumulate instructions: wmma".

The PTX ISA does not specify which thread holds which element. The simulator lays out the elements
as for mma.sync (see mma.py), with one accumulator tile for every eight columns. A fragment of f16
has eight registers in every shape. If it needs fewer registers, the surplus registers repeat the
others, as on a GPU. A sum over all elements of such a fragment is then not the sum of the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import parts_of, require, space_of
from harness.simulator.actions.fragments import (
    SHAPES,
    Fragment,
    factor_positions,
    size_of,
    sum_positions,
)
from harness.simulator.actions.mma import (
    Form,
    each_register,
    lines,
    register_kind,
    registers_of,
    sums,
)
from harness.simulator.actions.transfers import Array
from harness.simulator.ptx.ptx import Immediate, Instruction, Operand


def _stride(operands: list[Operand], fragment: Fragment) -> Operand:
    """Return the stride operand of a `wmma.load` or `wmma.store`.

    If there is none, the whole matrix is contiguous in memory.
    """
    return operands[0] if operands else Immediate(fragment.run_length)


def _load(instruction: Instruction) -> Action:
    """Return an `Action` that executes `wmma.load {registers}, [address]{, stride}`."""
    target, address, *rest = instruction.operands
    fragment = Fragment.of(instruction)
    targets = parts_of(target)
    require(len(targets) == len(fragment.positions))
    space = space_of(instruction)
    word = np.uint64 if fragment.kind == "f64" else np.uint32

    def run(active: ActiveThreads, base: Array, stride: Array) -> list[Array]:
        fragment.tell_traffic(active, space, base, stride, is_store=False)
        lanes, addresses = fragment.addresses(active, base, stride)
        rows = active.read(space, lanes, addresses, fragment.size, counts=False)
        words = rows.reshape(-1).view(word)
        return list(words.reshape(len(targets), -1))

    inputs = (Input(address, "u64"), Input(_stride(rest, fragment), "u32"))
    kinds = (register_kind(fragment.kind),) * len(targets)
    return Action(inputs, targets, kinds, run, group=32, row_bytes=fragment.size, traffic="warps")


def _store(instruction: Instruction) -> Action:
    """Return an `Action` that executes `wmma.store [address], {registers}{, stride}`."""
    address, source, *rest = instruction.operands
    fragment = Fragment.of(instruction)
    sources = parts_of(source)
    require(len(sources) == len(fragment.positions))
    space = space_of(instruction)

    def run(active: ActiveThreads, base: Array, stride: Array, *registers: Array) -> None:
        fragment.tell_traffic(active, space, base, stride, is_store=True)
        lanes, addresses = fragment.addresses(active, base, stride)
        data = np.stack(registers).view(np.uint8).reshape(-1, fragment.size)
        active.write(space, lanes, addresses, data, counts=False)

    inputs = (
        Input(address, "u64"),
        Input(_stride(rest, fragment), "u32"),
        *(Input(register, register_kind(fragment.kind)) for register in sources),
    )
    return Action(
        inputs, (), (), run, group=32, stores_through=(0,), row_bytes=fragment.size, traffic="warps"
    )


def _form(instruction: Instruction) -> Form:
    """Return the shape and types of a `wmma.mma`.

    Raises:
        UnknownForm, ValueError, KeyError: The PTX ISA does not have this form.
    """
    modifiers = [m for m in instruction.modifiers if m not in ("mma", "sync", "aligned", "rn")]
    saturates = "satfinite" in modifiers
    rows, columns, shape, *kinds = (m for m in modifiers if m != "satfinite")
    require({rows, columns} <= {"row", "col"})
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    d, a, b, c = kinds
    require(shape in SHAPES[a] and a == b and (not saturates or d == "s32"))
    require({d, c} <= ({"f16", "f32"} if a == "f16" else {"f64" if a == "f64" else "s32"})
            or (d == c == "f32" and a in ("bf16", "tf32")))  # fmt: skip
    return Form(*size_of(shape), d, a, b, c, saturates)


def _multiply(instruction: Instruction) -> Action:
    """Return an `Action` that executes `wmma.mma d, a, b, c`."""
    form = _form(instruction)
    d, a, b, c = (parts_of(operand) for operand in instruction.operands)
    tiles = form.n // 8
    used_a = form.m * form.k // (32 * each_register(form.a))
    used_b = form.n * form.k // (32 * each_register(form.b))
    require(len(a) == len(factor_positions(form.m, form.k, form.a)))
    require(len(b) == len(factor_positions(form.n, form.k, form.b)))
    require(len(c) == len(sum_positions(form.m, form.n, form.c)))
    require(len(d) == len(sum_positions(form.m, form.n, form.d)))

    def run(active: ActiveThreads, *values: Array) -> list[Array]:
        of_b, of_c = values[len(a) : len(a) + len(b)], values[len(a) + len(b) :]
        matrix_a = lines(values[:used_a], form.a, form.m // 8)
        matrix_b = lines(of_b[:used_b], form.b, tiles).swapaxes(1, 2)
        each = len(c) // tiles
        parts = [sums(of_c[i * each : (i + 1) * each], form.c, form.m) for i in range(tiles)]
        result = form.multiply(active, matrix_a, matrix_b, np.concatenate(parts, axis=2))
        columns = (result[:, :, 8 * i : 8 * i + 8] for i in range(tiles))
        return [register for part in columns for register in registers_of(part, form.d)]

    inputs = tuple(
        Input(register, register_kind(kind))
        for parts, kind in ((a, form.a), (b, form.b), (c, form.c))
        for register in parts
    )
    return Action(inputs, d, (register_kind(form.d),) * len(d), run, group=32)


def _wmma(instruction: Instruction) -> Action:
    makers: dict[str, Maker] = {"load": _load, "store": _store, "mma": _multiply}
    return makers[instruction.modifiers[0]](instruction)


ACTIONS: Mapping[str, Maker] = MappingProxyType({"wmma": _wmma})
"""Makers by opcode."""
