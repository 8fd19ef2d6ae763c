"""Matrices of wmma in memory: the places of their elements, and the pieces of their transfers.

The pieces decide what the counters count. They are those of the code that ptxas 13.0 generates for
compute capability 9.0:

- Matrices with elements of two bytes, and those that lie in registers as in memory, move in words.
  From shared memory ldmatrix loads them.
- Accumulators with contiguous rows move in pairs of elements.
- All other matrices move element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import ActiveThreads
from harness.simulator.actions.forms import require
from harness.simulator.actions.mma import SHAPE, each_register
from harness.simulator.actions.narrow_formats import DECODE
from harness.simulator.actions.transfers import Array
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Instruction
from harness.simulator.ptx.space import SHARED_CTA, Space, resolved

_SPACES = (Space.SHARED, SHARED_CTA, Space.GLOBAL)
SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("f16", "bf16", "s8", "u8"), ("m16n16k16", "m32n8k16", "m8n32k16")
        ),
        "tf32": ("m16n16k8",),
        "f64": ("m8n8k4",),
    }
)  # fmt: skip
"""The shapes that wmma has for each type of the factors."""
_LANES = np.arange(32)
_ROW_BYTES = 16
"""Bytes of a row that ldmatrix loads."""


def size_of(shape: str) -> tuple[int, int, int]:
    """Return M, N and K of a shape such as `m16n16k16`.

    Raises:
        UnknownForm: It is not a shape.
    """
    match = SHAPE.match(shape)
    if not match:
        raise UnknownForm
    return int(match[1]), int(match[2]), int(match[3])


def factor_positions(count: int, k: int, kind: str) -> Array:
    """Return the number of the element in a (count, k) matrix for (register, thread, element).

    A fragment of f16 has eight registers in every shape. Where the elements fill fewer, the array
    repeats them.
    """
    each = each_register(kind)
    tiles = np.arange(count * k).reshape(count // 8, 8, -1, 4, each)
    positions = tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, each)
    if kind != "f16":
        return positions
    return np.concatenate([positions] * (8 // len(positions)))


def sum_positions(m: int, n: int, kind: str) -> Array:
    """Return the number of the element in an (m, n) matrix for (register, thread, element)."""
    tiles = np.arange(m * n).reshape(m // 8, 8, n // 8, 4, 2)
    if kind == "f16":
        return tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, 2)
    return tiles.transpose(2, 0, 4, 1, 3).reshape(-1, 32, 1)


@dataclass(frozen=True)
class Fragment:
    """A wmma matrix in memory.

    A line is a row of A, C or D, or a column of B.

    Attributes:
        positions: The number of the element that (register, thread, element) holds.
        count: How many lines the matrix has.
        length: Elements of a line.
        by_line: True if the elements of a line are neighbours in memory. Otherwise the elements at
            one place of all lines are.
        size: Bytes of an element.
        kind: The PTX type of the elements.
        is_sum: True for the accumulators C and D.
    """

    positions: Array
    count: int
    length: int
    by_line: bool
    size: int
    kind: str
    is_sum: bool

    @classmethod
    def of(cls, instruction: Instruction) -> Fragment:
        """Return the matrix that a wmma.load or wmma.store moves.

        Raises:
            UnknownForm, ValueError, KeyError: This form is not implemented.
        """
        which, layout, shape, *rest = (
            m for m in instruction.modifiers if m not in ("load", "store", "sync", "aligned")
        )
        kind = rest[-1]
        require(layout in ("row", "col"))
        require(all(r in _SPACES for r in rest[:-1]))
        m, n, k = size_of(shape)
        if which in ("c", "d"):
            require(kind in ("f16", "f32", "s32", "f64"))
            size = 2 if kind == "f16" else 8 if kind == "f64" else 4
            return cls(sum_positions(m, n, kind), m, n, layout == "row", size, kind, True)
        require(shape in SHAPES[kind] and which in ("a", "b"))
        # A line of B is a column, so its elements are neighbours in the "col" layout.
        count, by_line = (m, layout == "row") if which == "a" else (n, layout == "col")
        size = np.dtype(DECODE[kind][0]).itemsize
        return cls(factor_positions(count, k, kind), count, k, by_line, size, kind, False)

    def addresses(self, active: ActiveThreads, base: Array, stride: Array) -> tuple[Array, Array]:
        """Return threads and addresses of all elements.

        Args:
            active: The threads.
            base: Address of the matrix, for each thread.
            stride: Distance of two contiguous runs in elements, for each thread.

        Returns:
            Two flat arrays in the order (register, warp, thread, element).
        """
        run, place = self._places(self.positions)
        return _spread(active, base, stride * self.size, run[:, None], place[:, None] * self.size)

    def tell_traffic(
        self, active: ActiveThreads, space: Space, base: Array, stride: Array, *, is_store: bool
    ) -> None:
        """Count the pieces in which a GPU moves the matrix."""
        reached, _ = resolved(int(base[0])) if space is Space.GENERIC else (space, 0)
        is_shared = reached is Space.SHARED
        run, start, nbytes = self._pieces(by_rows=is_shared and not is_store and not self.is_sum)
        pieces = _spread(
            active, base, stride * self.size, run[:, None, :, None], start[:, None, :, None]
        )
        active.count(space, *pieces, nbytes, is_store=is_store)

    def _places(self, positions: Array) -> tuple[Array, Array]:
        """Return, for numbers of elements, their contiguous run and their place in that run."""
        line, place = np.divmod(positions, self.length)
        return (line, place) if self.by_line else (place, line)

    def _pieces(self, *, by_rows: bool) -> tuple[Array, Array, int]:
        """Return the pieces as (request, thread) arrays of runs and offsets, and a piece's bytes.

        Offsets within a run are in bytes. With `by_rows` ldmatrix moves the matrix if it can.
        """
        runs, length = (self.count, self.length) if self.by_line else (self.length, self.count)
        width = length * self.size
        if self.size == 2 or (self.size == 1 and self.by_line):
            if by_rows:
                return *_rows(runs, width), _ROW_BYTES
            return *_tiles(runs, width, 4), 4
        if self.is_sum and self.by_line:
            return *_tiles(runs, width, 2 * self.size), 2 * self.size
        each = self.positions.transpose(0, 2, 1).reshape(-1, 32)
        run, place = self._places(each)
        return run, place * self.size, self.size


def _tiles(runs: int, width: int, piece: int) -> tuple[Array, Array]:
    """Return runs and offsets for a warp that moves eight runs by four pieces at a time.

    Thread l moves piece l mod 4 of run l / 4.
    """
    first, start = (a.reshape(-1, 1) for a in np.mgrid[0:runs:8, 0 : width : 4 * piece])
    return first + _LANES // 4, start + _LANES % 4 * piece


def _rows(runs: int, width: int) -> tuple[Array, Array]:
    """Return runs and offsets for ldmatrix: eight runs of 16 bytes for eight threads at a time.

    One instruction moves up to four such groups.
    """
    first, start = (a.reshape(-1, 1) for a in np.mgrid[0:runs:8, 0:width:_ROW_BYTES])
    threads = 8 * min(len(first), 4)
    run = (first + np.arange(8)).reshape(-1, threads)
    return run, np.repeat(start, 8, axis=1).reshape(-1, threads)


def _spread(
    active: ActiveThreads, base: Array, pitch: Array, run: Array, start: Array
) -> tuple[Array, Array]:
    """Return threads and addresses of (request, 1, thread, element) for all warps, flat.

    `base` and `pitch` are in bytes and have a value for each active thread.
    """
    threads = run.shape[2]
    lanes, bases, pitches = (
        a.reshape(1, -1, 32, 1)[:, :, :threads]
        for a in (active.lanes, base, pitch.astype(np.uint64))
    )
    addresses = bases + run.astype(np.uint64) * pitches + start.astype(np.uint64)
    return np.broadcast_to(lanes, addresses.shape).reshape(-1), addresses.reshape(-1)
