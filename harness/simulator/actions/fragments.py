"""Layout of wmma matrices in memory, and the memory accesses that a GPU makes to move them.

The accesses are counted as the memory traffic of wmma. They are the accesses of the code that ptxas
13.0 generates for compute capability 9.0. Elements are called small here if they have 2 bytes, or
have 1 byte and the same order in registers and in memory.

- ldmatrix loads A and B from shared memory if their elements are small.
- In all other cases, matrices with small elements move in 4-byte words.
- Accumulators with larger elements and contiguous rows move in pairs of elements.
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
    """Return M, N and K of a matrix shape such as `m16n16k16`.

    Raises:
        UnknownForm: The text is not a shape.
    """
    match = SHAPE.match(shape)
    if not match:
        raise UnknownForm
    return int(match[1]), int(match[2]), int(match[3])


def factor_positions(count: int, k: int, kind: str) -> Array:
    """Return which element of A or B each thread of a warp holds in each register.

    Args:
        count: Rows of A, or columns of B.
        k: Columns of A, or rows of B.
        kind: The PTX type of the elements.

    Returns:
        An array with the axes register, thread, and element of the register. Its values are flat
        indices in a matrix of shape (count, k). A fragment of f16 has eight registers in every
        shape. If it needs fewer registers, the surplus registers repeat the others.
    """
    each = each_register(kind)
    tiles = np.arange(count * k).reshape(count // 8, 8, -1, 4, each)
    positions = tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, each)
    if kind != "f16":
        return positions
    return np.concatenate([positions] * (8 // len(positions)))


def sum_positions(m: int, n: int, kind: str) -> Array:
    """Return which element of an m x n accumulator each thread of a warp holds in each register.

    The result has the axes register, thread, and element of the register. Its values are flat
    indices in a matrix of shape (m, n).
    """
    tiles = np.arange(m * n).reshape(m // 8, 8, n // 8, 4, 2)
    if kind == "f16":
        return tiles.transpose(2, 0, 1, 3, 4).reshape(-1, 32, 2)
    return tiles.transpose(2, 0, 4, 1, 3).reshape(-1, 32, 1)


@dataclass(frozen=True)
class Fragment:
    """A wmma matrix in memory.

    A line is a row of A, C or D, or a column of B.

    Attributes:
        positions: The matrix elements that the registers hold, as flat indices in an array of shape
            (count, length). The axes are register, thread, and element of the register.
        count: Number of lines of the matrix.
        length: Number of elements of a line.
        by_line: True if the elements of a line are neighbours in memory. Otherwise, elements with
            the same position in their lines are neighbours.
        size: Size of an element in bytes.
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
        """Return the matrix that a `wmma.load` or `wmma.store` instruction moves.

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

    @property
    def run_length(self) -> int:
        """Number of elements that are neighbours in memory."""
        return self.length if self.by_line else self.count

    def addresses(self, active: ActiveThreads, base: Array, stride: Array) -> tuple[Array, Array]:
        """Return the thread that accesses each element, and the element's address.

        Args:
            active: The threads.
            base: Address of the matrix, for each thread.
            stride: Distance, in elements, from one contiguous run of elements to the next, for each
                thread. A run is a line if `by_line` is true.

        Returns:
            The threads and the addresses, as flat arrays in the order (register, warp, thread,
            element).
        """
        run, place = self._places(self.positions)
        return _spread(active, base, stride * self.size, run[:, None], place[:, None] * self.size)

    def tell_traffic(
        self, active: ActiveThreads, space: Space, base: Array, stride: Array, *, is_store: bool
    ) -> None:
        """Count the memory accesses by which a GPU moves the matrix.

        Args:
            active: The threads.
            space: State space of the matrix.
            base: Address of the matrix, for each thread.
            stride: Distance between contiguous runs in elements, for each thread.
            is_store: True for a store.
        """
        reached, _ = resolved(int(base[0])) if space is Space.GENERIC else (space, 0)
        is_shared = reached is Space.SHARED
        run, start, nbytes = self._pieces(by_rows=is_shared and not is_store and not self.is_sum)
        pieces = _spread(
            active, base, stride * self.size, run[:, None, :, None], start[:, None, :, None]
        )
        active.count(space, *pieces, nbytes, is_store=is_store)

    def _places(self, positions: Array) -> tuple[Array, Array]:
        """Return the number of each element's contiguous run, and the element's place in the run.

        Runs are numbered from 0. `positions` holds the flat indices of the elements in an array of
        shape (count, length).
        """
        line, place = np.divmod(positions, self.length)
        return (line, place) if self.by_line else (place, line)

    def _pieces(self, *, by_rows: bool) -> tuple[Array, Array, int]:
        """Return the memory accesses by which a GPU moves the matrix.

        Args:
            by_rows: True if ldmatrix may move the matrix.

        Returns:
            Two arrays of shape (instructions, threads of a warp), and the bytes of one access. The
            first array has the number of the contiguous run that the thread accesses. The second
            has the offset of the access in that run, in bytes.
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
    """Return a warp's accesses if an instruction moves 32 pieces: four of each of eight runs.

    Thread l moves piece l mod 4 of run l / 4.

    Args:
        runs: Number of contiguous runs of elements.
        width: Bytes of a run.
        piece: Bytes of a piece.

    Returns:
        Two arrays of shape (instructions, threads). The first has the number of the run that a
        thread accesses. The second has the offset of the access in that run, in bytes.
    """
    first, start = (a.reshape(-1, 1) for a in np.mgrid[0:runs:8, 0 : width : 4 * piece])
    return first + _LANES // 4, start + _LANES % 4 * piece


def _rows(runs: int, width: int) -> tuple[Array, Array]:
    """Return the accesses of ldmatrix, by which each thread loads 16 bytes of a run.

    A group of eight threads loads from eight runs. One instruction has up to four groups.

    Args:
        runs: Number of contiguous runs of elements.
        width: Bytes of a run.

    Returns:
        Two arrays of shape (instructions, threads). The first has the number of the run that a
        thread accesses. The second has the offset of the access in that run, in bytes.
    """
    first, start = (a.reshape(-1, 1) for a in np.mgrid[0:runs:8, 0:width:_ROW_BYTES])
    threads = 8 * min(len(first), 4)
    run = (first + np.arange(8)).reshape(-1, threads)
    return run, np.repeat(start, 8, axis=1).reshape(-1, threads)


def _spread(
    active: ActiveThreads, base: Array, pitch: Array, run: Array, start: Array
) -> tuple[Array, Array]:
    """Return the threads and addresses of accesses for all active warps, as flat arrays.

    Args:
        active: The threads.
        base: Address of the matrix, for each active thread.
        pitch: Distance between contiguous runs in bytes, for each active thread.
        run: For each access of one warp, the number of the run. The shape is (instructions, 1,
            threads of the warp, elements).
        start: For each access, its offset in the run, in bytes; an array of the same shape.
    """
    threads = run.shape[2]
    lanes, bases, pitches = (
        a.reshape(1, -1, 32, 1)[:, :, :threads]
        for a in (active.lanes, base, pitch.astype(np.uint64))
    )
    addresses = bases + run.astype(np.uint64) * pitches + start.astype(np.uint64)
    return np.broadcast_to(lanes, addresses.shape).reshape(-1), addresses.reshape(-1)
