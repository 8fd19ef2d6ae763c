"""wmma: what the functions of <mma.h> compile to.

PTX ISA, "Warp-level matrix multiply-accumulate instructions: wmma". Which thread holds which
element is not specified; here fragments are those of mma.sync (see mma.py), one accumulator for
every eight columns. A fragment of f16 has eight registers in any shape: what is left over repeats
the others, as on the hardware, so that a sum over a fragment's elements is no sum over the
matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, Crew, Input, Maker
from harness.simulator.actions.forms import parts_of, require, space_of
from harness.simulator.actions.mma import (
    SHAPE,
    Form,
    each_register,
    lines,
    register_kind,
    registers_of,
    sums,
)
from harness.simulator.actions.narrow_formats import DECODE
from harness.simulator.actions.transfers import Array
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx import Immediate, Instruction, Operand

_SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("f16", "bf16", "s8", "u8"), ("m16n16k16", "m32n8k16", "m8n32k16")
        ),
        "tf32": ("m16n16k8",),
        "f64": ("m8n8k4",),
    }
)  # fmt: skip


def _size(shape: str) -> tuple[int, int, int]:
    match = SHAPE.match(shape)
    if not match:
        raise UnknownForm
    return int(match[1]), int(match[2]), int(match[3])


def _factor_positions(count: int, k: int, kind: str) -> Array:
    """(register, thread, element) -> number of the element in a (count, k) matrix."""
    each = each_register(kind)
    tiles = np.arange(count * k).reshape(count // 8, 8, -1, 4, each)
    positions = tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, each)
    if kind != "f16":
        return positions
    return np.concatenate([positions] * (8 // len(positions)))


def _sum_positions(m: int, n: int, kind: str) -> Array:
    """(register, thread, element) -> number of the element in an (m, n) matrix."""
    tiles = np.arange(m * n).reshape(m // 8, 8, n // 8, 4, 2)
    if kind == "f16":
        return tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, 2)
    return tiles.transpose(2, 0, 4, 1, 3).reshape(-1, 32, 1)


def _fragment(instruction: Instruction) -> tuple[Array, int, bool, int, str]:
    """Positions, row length, whether rows are contiguous, bytes and type of a load or store."""
    which, layout, shape, *rest = (
        m for m in instruction.modifiers if m not in ("load", "store", "sync", "aligned")
    )
    kind = rest[-1]
    require(layout in ("row", "col"))
    require(all(r in ("shared", "shared::cta", "global") for r in rest[:-1]))
    m, n, k = _size(shape)
    if which in ("c", "d"):
        require(kind in ("f16", "f32", "s32", "f64"))
        nbytes = 2 if kind == "f16" else 8 if kind == "f64" else 4
        return _sum_positions(m, n, kind), n, layout == "row", nbytes, kind
    require(shape in _SHAPES[kind] and which in ("a", "b"))
    # Columns of B are lines as the rows of A are, so that contiguous rows are the other way round.
    count, contiguous = (m, layout == "row") if which == "a" else (n, layout == "col")
    nbytes = np.dtype(DECODE[kind][0]).itemsize
    return _factor_positions(count, k, kind), k, contiguous, nbytes, kind


def _addresses(
    crew: Crew, base: Array, stride: Array, positions: Array, length: int, by_line: bool, size: int
) -> tuple[Array, Array]:
    """Threads and addresses of all elements: (register, warp, thread, element), flat."""
    line, place = np.divmod(positions[:, None].astype(np.uint64), np.uint64(length))
    pitch = stride.astype(np.uint64).reshape(1, -1, 32, 1)
    index = line * pitch + place if by_line else place * pitch + line
    addresses = base.reshape(1, -1, 32, 1) + index * np.uint64(size)
    lanes = np.broadcast_to(crew.lanes.reshape(1, -1, 32, 1), addresses.shape)
    return lanes.reshape(-1), addresses.reshape(-1)


def _default_stride(operands: list[Operand], length: int) -> Operand:
    return operands[0] if operands else Immediate(length)


def _load(instruction: Instruction) -> Action:
    target, address, *rest = instruction.operands
    positions, length, by_line, size, kind = _fragment(instruction)
    targets = parts_of(target)
    require(len(targets) == len(positions))
    space = space_of(instruction)
    word = np.uint64 if kind == "f64" else np.uint32

    def run(crew: Crew, base: Array, stride: Array) -> list[Array]:
        lanes, addresses = _addresses(crew, base, stride, positions, length, by_line, size)
        words = crew.read(space, lanes, addresses, size).reshape(-1).view(word)
        return list(words.reshape(len(targets), -1))

    inputs = (Input(address, "u64"), Input(_default_stride(rest, length), "u32"))
    kinds = (register_kind(kind),) * len(targets)
    return Action(inputs, targets, kinds, run, group=32, row_bytes=size)


def _store(instruction: Instruction) -> Action:
    address, source, *rest = instruction.operands
    positions, length, by_line, size, kind = _fragment(instruction)
    sources = parts_of(source)
    require(len(sources) == len(positions))
    space = space_of(instruction)

    def run(crew: Crew, base: Array, stride: Array, *registers: Array) -> None:
        lanes, addresses = _addresses(crew, base, stride, positions, length, by_line, size)
        data = np.stack(registers).view(np.uint8).reshape(-1, size)
        crew.write(space, lanes, addresses, data)

    inputs = (
        Input(address, "u64"),
        Input(_default_stride(rest, length), "u32"),
        *(Input(register, register_kind(kind)) for register in sources),
    )
    return Action(inputs, (), (), run, group=32, stores_through=(0,), row_bytes=size)


def _form(instruction: Instruction) -> Form:
    modifiers = [m for m in instruction.modifiers if m not in ("mma", "sync", "aligned", "rn")]
    saturates = "satfinite" in modifiers
    rows, columns, shape, *kinds = (m for m in modifiers if m != "satfinite")
    require({rows, columns} <= {"row", "col"})
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    d, a, b, c = kinds
    require(shape in _SHAPES[a] and a == b and (not saturates or d == "s32"))
    require({d, c} <= ({"f16", "f32"} if a == "f16" else {"f64" if a == "f64" else "s32"})
            or (d == c == "f32" and a in ("bf16", "tf32")))  # fmt: skip
    return Form(*_size(shape), d, a, b, c, saturates)


def _multiply(instruction: Instruction) -> Action:
    form = _form(instruction)
    d, a, b, c = (parts_of(operand) for operand in instruction.operands)
    tiles = form.n // 8
    used_a = form.m * form.k // (32 * each_register(form.a))
    used_b = form.n * form.k // (32 * each_register(form.b))
    require(len(a) == len(_factor_positions(form.m, form.k, form.a)))
    require(len(b) == len(_factor_positions(form.n, form.k, form.b)))
    require(len(c) == len(_sum_positions(form.m, form.n, form.c)))
    require(len(d) == len(_sum_positions(form.m, form.n, form.d)))

    def run(crew: Crew, *values: Array) -> list[Array]:
        of_b, of_c = values[len(a) : len(a) + len(b)], values[len(a) + len(b) :]
        matrix_a = lines(values[:used_a], form.a, form.m // 8)
        matrix_b = lines(of_b[:used_b], form.b, tiles).swapaxes(1, 2)
        each = len(c) // tiles
        parts = [sums(of_c[i * each : (i + 1) * each], form.c, form.m) for i in range(tiles)]
        result = form.multiply(crew, matrix_a, matrix_b, np.concatenate(parts, axis=2))
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
