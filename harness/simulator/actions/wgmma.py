"""wgmma: the product of two matrices by the four warps of a warpgroup.

Source: PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate".

B is in shared memory; A is in shared memory or in registers. Warp w of the warpgroup holds rows
16 w ... 16 w + 15 of A and D in its registers, laid out as for mma.sync (mma.py). D has four
registers for every eight columns, or two if it is float16.

A matrix descriptor describes the addresses of the 16-byte chunks of a matrix in shared memory. A
line is a row of A or a column of B. W is the number of chunks in a swizzle span. It is 1 without
swizzling, and 2, 4 or 8 for spans of 32, 64 or 128 bytes. LBO and SBO are the descriptor's leading
and stride byte offsets. The formulas give offsets in bytes from the descriptor's start address.
Divisions round down.

In a K-major matrix, a chunk holds neighbouring elements of one line. Chunk k of line l is at

    16 W (l mod 8) + SBO (l / 8) + 16 k

Without swizzling, LBO k replaces the last term.

In an MN-major matrix, a chunk holds one element of each of several neighbouring lines. These
elements have the same index k in their lines. Chunk l of the elements with index k is at

    16 (l mod W) + LBO (l / W) + 16 W (k mod 8) + SBO (k / 8)

Without swizzling, SBO l replaces the first two terms, and LBO (k / 8) replaces the last term.

Swizzling then combines bits of the address by exclusive or, as in tensor maps. Bit 4 is combined
with bit 7. For spans of 64 and 128 bytes, bit 5 is combined with bit 8. For spans of 128 bytes, bit
6 is combined with bit 9. The canonical layouts of CUTLASS (cute/atom/mma_traits_sm90_gmma.hpp)
agree with these formulas.

The simulator multiplies when the instruction is issued. For race detection, the reads of shared
memory last until the wait (`wgmma.wait_group`). On a GPU, the result registers may also change
until the wait. The simulator does not model that, because nvcc's PTX may copy these registers
before the wait in correct programs, which ptxas resolves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import number_of, parts_of, require
from harness.simulator.actions.mma import Form, each_register, lines, registers_of, sums
from harness.simulator.actions.narrow_formats import DECODE
from harness.simulator.actions.ordering import Agent
from harness.simulator.actions.transfers import Array
from harness.simulator.hardware.geometry import WARP
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Immediate, Instruction, Operand, Vector
from harness.simulator.ptx.space import Space

_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_LENGTHS: Mapping[str, int] = MappingProxyType(
    {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32}
)
_GROUP: Literal[128] = 128
_CHUNK = 16


@dataclass(frozen=True)
class Descriptor:
    """Fields of matrix descriptors; each field is an array with one element for each warpgroup.

    Attributes:
        start: Shared address of the matrix, in bytes.
        leading: Leading byte offset (LBO), in bytes.
        stride: Stride byte offset (SBO), in bytes.
        base_offset: Number of 128-byte lines by which the swizzle pattern is shifted.
        span_bits: 0, 1, 2, 3 for swizzling within 16 (none), 32, 64, 128 bytes.
    """

    start: Array
    leading: Array
    stride: Array
    base_offset: Array
    span_bits: Array

    @classmethod
    def of(cls, bits: Array) -> Descriptor:
        """Return the fields of an array of 64-bit matrix descriptors."""

        def field(low: int, count: int) -> Array:
            return (bits >> np.uint64(low)) & np.uint64((1 << count) - 1)

        sixteen = np.uint64(_CHUNK)
        mode = field(62, 2)
        return cls(
            field(0, 14) * sixteen,
            field(16, 14) * sixteen,
            field(32, 14) * sixteen,
            field(49, 3),
            (np.uint64(4) - mode) & np.uint64(3),
        )

    def chunks(self, across: int, along: int, *, is_k_major: bool) -> Array:
        """Return the shared addresses of a matrix's 16-byte chunks, by the module's formulas.

        Args:
            across: Number of lines if the matrix is K-major, or else number of indices k.
            along: Number of chunks for each line, or else for each index k.
            is_k_major: True if a chunk holds elements of one line.

        Returns:
            Addresses for (warpgroup, line, chunk of k) or (warpgroup, k, chunk of lines).
        """
        outer = np.arange(across, dtype=np.uint64)[None, :, None]
        inner = np.arange(along, dtype=np.uint64)[None, None, :]
        leading, stride = self.leading[:, None, None], self.stride[:, None, None]
        bits = self.span_bits[:, None, None]
        span = np.uint64(1) << bits
        eight, sixteen = np.uint64(8), np.uint64(_CHUNK)
        is_plain = bits == 0
        if is_k_major:
            step = np.where(is_plain, leading, sixteen)
            offsets = outer % eight * sixteen * span + outer // eight * stride + inner * step
        else:
            swizzled = inner % span * sixteen + inner // span * leading
            by_line = np.where(is_plain, inner * stride, swizzled)
            by_group = np.where(is_plain, leading, stride)
            offsets = by_line + outer % eight * sixteen * span + outer // eight * by_group
        addresses = self.start[:, None, None] + offsets
        line = (addresses >> np.uint64(7)) - self.base_offset[:, None, None]
        result: Array = addresses ^ ((line & (span - np.uint64(1))) << np.uint64(4))
        return result


@dataclass(frozen=True)
class _Matrix:
    """The shape and layout of A or B in shared memory.

    A line is a row of A or a column of B. Every warp reads all lines of B, but only its own sixteen
    lines of A.

    Attributes:
        kind: PTX type of the elements.
        count: Rows of A, or columns of B.
        k: Elements of a line.
        is_k_major: True if the elements of a line are neighbours in memory.
        is_a: True for A, False for B.
    """

    kind: str
    count: int
    k: int
    is_k_major: bool
    is_a: bool

    def read(self, active: ActiveThreads, bits: Array, agents: list[Agent]) -> Array:
        """Read the matrices that descriptors describe, one for each warpgroup.

        Args:
            active: The threads of one or more whole warpgroups.
            bits: The matrix descriptor of each thread. Only the descriptor of the first thread in
                each warpgroup is used.
            agents: The agent that reads the matrix, for each warpgroup, for race detection.

        Returns:
            The decoded elements (warpgroup, line, k).
        """
        descriptor = Descriptor.of(bits.reshape(-1, _GROUP)[:, 0])
        dtype, decode = DECODE[self.kind]
        each = _CHUNK // np.dtype(dtype).itemsize
        shape = (self.count, self.k // each) if self.is_k_major else (self.k, self.count // each)
        addresses = descriptor.chunks(*shape, is_k_major=self.is_k_major)
        first = active.lanes.reshape(-1, _GROUP)[:, 0]
        lanes = np.repeat(first, shape[0] * shape[1])
        data = active.read(Space.SHARED, lanes, addresses.reshape(-1), _CHUNK, by=None)
        for one, leader, agent in zip(addresses, first, agents, strict=True):
            self._tell(active, one, leader + self._warps(shape, each), agent)
        matrix = decode(data.view(dtype)).reshape(len(first), shape[0], shape[1] * each)
        return matrix if self.is_k_major else matrix.swapaxes(1, 2)

    def _warps(self, shape: tuple[int, int], each: int) -> Array:
        """Return, for each chunk, the first thread of the first warp that reads the chunk.

        Args:
            shape: Shape of the result, which has one element for each chunk.
            each: Elements of a chunk.

        Returns:
            Numbers of threads in the warpgroup: 0, 32, 64 or 96.
        """
        if not self.is_a:
            return np.zeros(shape, np.int64)
        line = np.arange(self.count)[:, None] if self.is_k_major else np.arange(shape[1]) * each
        warps: Array = np.broadcast_to(line // 16 * WARP, shape)
        return warps

    def _tell(self, active: ActiveThreads, addresses: Array, lanes: Array, agent: Agent) -> None:
        """Report a warpgroup's reads of a matrix to race detection.

        All four warps read B. The first warp is recorded as the reader; the reads of the other
        warps are only checked for races with earlier writes.
        """
        flat, readers = addresses.reshape(-1), lanes.reshape(-1)
        active.reads(Space.SHARED, readers, flat, _CHUNK, agent)
        if not self.is_a:
            for warp in range(1, _GROUP // WARP):
                active.looks(Space.SHARED, readers + warp * WARP, flat, _CHUNK)


def _form(instruction: Instruction) -> Form:
    """Return the shape and types of a `wgmma.mma_async`.

    Raises:
        UnknownForm, ValueError, KeyError: The PTX ISA does not have this form.
    """
    modifiers = [m for m in instruction.modifiers if m not in ("mma_async", "sync", "aligned")]
    saturates = "satfinite" in modifiers
    shape, d, a, b = (m for m in modifiers if m != "satfinite")
    size = _SHAPE.match(shape)
    if not size:
        raise UnknownForm
    n, k = int(size[1]), int(size[2])
    require(8 <= n <= 256 and n % 8 == 0 and k == _LENGTHS[a])
    require(a == b or {a, b} <= {"s8", "u8"} or {a, b} <= {"e4m3", "e5m2"})
    sums_of = {"f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}
    integer = a in ("s8", "u8")
    require(d in (("s32",) if integer else sums_of.get(a, ("f32",))))
    require(integer or not saturates)
    return Form(64, n, k, d, a, b, d, saturates)


@dataclass(frozen=True)
class _Scales:
    """The immediate operands of a `wgmma.mma_async`.

    Attributes:
        a: The factor 1 or -1 that A is multiplied by.
        b: The factor 1 or -1 that B is multiplied by.
        a_is_transposed: True if A is MN-major.
        b_is_transposed: True if B is MN-major.
    """

    a: int = 1
    b: int = 1
    a_is_transposed: bool = False
    b_is_transposed: bool = False

    @classmethod
    def of(cls, form: Form, operands: list[Operand], *, in_registers: bool) -> _Scales:
        values = [number_of(operand) for operand in operands]
        if form.d == "s32":
            require(not values)
            return cls()
        require(set(values[:2]) <= {1, -1} and set(values[2:]) <= {0, 1})
        if form.a not in ("f16", "bf16"):
            a, b = values
            return cls(a, b)
        if in_registers:
            a, b, b_is_transposed = values
            return cls(a, b, b_is_transposed=bool(b_is_transposed))
        a, b, a_is_transposed, b_is_transposed = values
        return cls(a, b, bool(a_is_transposed), bool(b_is_transposed))


def _multiply(instruction: Instruction) -> Action:
    """Return an `Action` that executes `wgmma.mma_async d, a, b, scale_d, ...`."""
    form = _form(instruction)
    target, a, b, scale_d, *immediates = instruction.operands
    d = parts_of(target)
    in_registers = isinstance(a, Vector)
    scales = _Scales.of(form, immediates, in_registers=in_registers)
    of_a = parts_of(a)
    tiles = form.n // 8
    each = 2 if form.d == "f16" else 4
    require(len(d) == tiles * each)
    require(len(of_a) == (16 * form.k // (32 * each_register(form.a)) if in_registers else 1))

    shared_a = _Matrix(form.a, 64, form.k, not scales.a_is_transposed, is_a=True)
    shared_b = _Matrix(form.b, form.n, form.k, not scales.b_is_transposed, is_a=False)

    def run(active: ActiveThreads, of_b: Array, adds: Array, *rest: Array) -> list[Array]:
        values_a, values_d = rest[: len(of_a)], rest[len(of_a) :]
        groups = len(active.lanes) // _GROUP
        agents = [
            active.ordering.multiplied(lanes) for lanes in active.lanes.reshape(groups, _GROUP)
        ]
        if in_registers:
            matrix_a = lines(values_a, form.a, 2).reshape(groups, 64, form.k)
        else:
            matrix_a = shared_a.read(active, values_a[0], agents)
        matrix_b = shared_b.read(active, of_b, agents).swapaxes(1, 2)
        parts = [sums(values_d[i * each : (i + 1) * each], form.d, 16) for i in range(tiles)]
        total = np.concatenate(parts, axis=2).reshape(groups, 64, form.n)
        keeps = adds.reshape(groups, _GROUP)[:, 0] != 0
        total = np.where(keeps[:, None, None], total, total.dtype.type(0))
        result = form.multiply(active, matrix_a * scales.a, matrix_b * scales.b, total)
        by_warp = result.reshape(groups * 4, 16, form.n)
        columns = (by_warp[:, :, 8 * i : 8 * i + 8] for i in range(tiles))
        return [r for part in columns for r in registers_of(np.ascontiguousarray(part), form.d)]

    inputs = (
        Input(b, "u64"),
        Input(scale_d, "u32" if isinstance(scale_d, Immediate) else "pred"),
        *(Input(register, "b32" if in_registers else "u64") for register in of_a),
        *(Input(register, "b32") for register in d),
    )
    return Action(inputs, d, ("b32",) * len(d), run, group=_GROUP, traffic="bulk")


def _wgmma(instruction: Instruction) -> Action:
    """Return an `Action` that executes any form of `wgmma`."""
    verb = instruction.modifiers[0]
    if verb == "mma_async":
        require(instruction.modifiers[1] == "sync")
        return _multiply(instruction)
    if verb == "fence":
        return Action((), (), (), lambda _active: None)
    if verb == "commit_group":
        return Action((), (), (), lambda active: active.ordering.committed(active.lanes))
    if verb == "wait_group":
        left = number_of(instruction.operands[0])
        return Action((), (), (), lambda active: active.ordering.drained(active.lanes, left))
    raise UnknownForm


ACTIONS: Mapping[str, Maker] = MappingProxyType({"wgmma": _wgmma})
"""Makers by opcode."""
