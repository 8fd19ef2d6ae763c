"""wgmma: matrix descriptors, layouts in shared memory, types and rounding."""

from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from tests.simulator.conftest import Compile
from tests.simulator.fragments import accumulator_registers, accumulators_of
from tests.simulator.support import Array, Device, int32, pointer

SPANS = {0: 16, 3: 32, 2: 64, 1: 128}
"""Swizzle span in bytes for each mode of a descriptor."""


@pytest.fixture
def module(device: Device, compile_ptx: Compile) -> LoadedModule:
    return device.machine.load(
        compile_ptx(Path(__file__).with_name("wgmma.cu"), architecture="90a")
    )


class Shared:
    """An image of shared memory, filled with matrices in the wgmma layouts of the PTX ISA."""

    def __init__(self) -> None:
        self.bytes = np.zeros(65536, np.uint8)
        self.used = 0

    def _place(self, start: int, offset: int, mode: int, chunk: Array) -> None:
        """Store a chunk of 16 bytes at its swizzled position in its 128-byte line.

        The swizzled position is the chunk's position XORed with `line % chunks`. Here `line` is the
        number of the line, and `chunks` is the number of chunks in a swizzle span.
        """
        address = start + offset
        line, position = address // 128, address // 16 % 8
        at = line * 128 + (position ^ (line % (SPANS[mode] // 16))) * 16
        self.bytes[at : at + 16] = np.ascontiguousarray(chunk).view(np.uint8)

    def k_major(self, matrix: Array, mode: int) -> int:
        """Store a matrix (line, k) in the K-major layout, and return its descriptor.

        A line is a row of A or a column of B. Values of one line for neighbouring k are contiguous.
        Within a group of eight lines, each line starts one swizzle span after the previous line.
        """
        rows, start, span = matrix.shape[0], self._start(), SPANS[mode]
        each = 16 // matrix.itemsize
        leading = 128 if mode == 0 else 16
        stride = 256 if mode == 0 else 8 * span
        for row in range(rows):
            for k in range(matrix.shape[1] // each):
                offset = row // 8 * stride + row % 8 * span + k * leading
                self._place(start, offset, mode, matrix[row, k * each : (k + 1) * each])
        self.used = start + rows // 8 * stride
        return self._descriptor(start, leading, stride, mode)

    def mn_major(self, matrix: Array, mode: int) -> int:
        """Store a matrix (line, k) in the layout that is M-major for A and N-major for B.

        A line is a row of A or a column of B. Values of neighbouring lines for one k are
        contiguous. Return the matrix's descriptor.
        """
        rows, length = matrix.shape
        start, span, each = self._start(), SPANS[mode], 16 // matrix.itemsize
        wide = span // 16
        blocks = max(rows // each // wide, 1)
        if mode == 0:
            stride, leading = 128, 128 * blocks
        else:
            leading, stride = 8 * span, 8 * span * blocks
        for k in range(length):
            for chunk in range(rows // each):
                block, position = divmod(chunk, wide)
                offset = k % 8 * span + position * 16
                offset += block * (stride if mode == 0 else leading)
                offset += k // 8 * (leading if mode == 0 else stride)
                lines = matrix[chunk * each : (chunk + 1) * each, k]
                self._place(start, offset, mode, lines)
        self.used = start + blocks * 8 * span * length // 8
        return self._descriptor(start, leading, stride, mode)

    def _start(self) -> int:
        """Return the next free multiple of 1024 bytes, where the swizzle pattern starts anew."""
        return -(-self.used // 1024) * 1024

    @staticmethod
    def _descriptor(start: int, leading: int, stride: int, mode: int) -> int:
        """Return a wgmma descriptor; it has start, leading and stride in units of 16 bytes."""
        return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def encode(values: Array, kind: str) -> Array:
    """Return numbers as elements of format `kind`, for device memory."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype({"f16": np.float16, "tf32": np.float32, "s8": np.int8}[kind])


def run(
    device: Device, module: LoadedModule, name: str, shared: Shared, descriptors: tuple[int, int],
    c: Array, adds: int = 1,
) -> Array:  # fmt: skip
    """Run a wgmma kernel whose accumulators start as `c` (64, 16); return D (64, 16).

    `adds` is the instruction's scale-d: 1 to add the accumulators, 0 to ignore them.
    """
    kind = {"s8": "s32", "f16_half": "f16"}.get(name, "f32")
    warps = [c[16 * w : 16 * w + 16] for w in range(4)]
    halves = [np.stack([part[:, 8 * j : 8 * j + 8] for part in warps]) for j in range(2)]
    registers = np.concatenate([accumulator_registers(half, kind) for half in halves])
    target = device.put(np.zeros_like(registers))
    arguments = [
        pointer(target),
        pointer(device.put(shared.bytes)),
        int32(len(shared.bytes) // 16),
        *(pointer(d) for d in descriptors),
        int32(adds),
        pointer(device.put(registers)),
    ]
    (mangled,) = (n for n in module.kernels if n.startswith(f"_Z{len(name)}{name}P"))
    size = len(shared.bytes)
    result = device.machine.launch(module, mangled, (1, 1, 1), (128, 1, 1), size, arguments)
    assert result.findings == ()
    got = device.get(target, registers)
    parts = np.split(got, 2)
    matrices = [accumulators_of(part, kind, 16) for part in parts]
    return np.concatenate(matrices, axis=2).reshape(64, 16)


def operands(k: int) -> tuple[Array, Array, Array]:
    """Return matrices of small random integers: A (64, k), B (k, 16), C (64, 16)."""
    rng = np.random.default_rng(1)
    return (
        rng.integers(-8, 9, (64, k)),
        rng.integers(-8, 9, (k, 16)),
        rng.integers(-50, 50, (64, 16)),
    )


@pytest.mark.parametrize("mode_b", SPANS)
@pytest.mark.parametrize("mode_a", SPANS)
def test_k_major_matrices(device: Device, module: LoadedModule, mode_a: int, mode_b: int) -> None:
    """`wgmma` is right for K-major operands in shared memory, in every pair of swizzle modes."""
    a, b, c = operands(16)
    shared = Shared()
    descriptors = (
        shared.k_major(encode(a, "f16"), mode_a),
        shared.k_major(encode(b.T, "f16"), mode_b),
    )
    assert np.array_equal(run(device, module, "f16_kk", shared, descriptors, c), a @ b + c)


@pytest.mark.parametrize("mode_b", [0, 3])
@pytest.mark.parametrize("mode_a", SPANS)
def test_mn_major_matrices(device: Device, module: LoadedModule, mode_a: int, mode_b: int) -> None:
    """`wgmma` is right for M-major A and N-major B in shared memory.

    N = 16 allows swizzle spans of at most 32 bytes for B.
    """
    a, b, c = operands(16)
    shared = Shared()
    descriptors = (
        shared.mn_major(encode(a, "f16"), mode_a),
        shared.mn_major(encode(b.T, "f16"), mode_b),
    )
    assert np.array_equal(run(device, module, "f16_mm", shared, descriptors, c), a @ b + c)


@pytest.mark.parametrize(
    ("name", "kind", "k", "sign"), [("tf32", "tf32", 8, -1), ("s8", "s8", 32, 1)]
)
def test_other_types(
    device: Device, module: LoadedModule, name: str, kind: str, k: int, sign: int
) -> None:
    """`wgmma` is right for K-major tf32 and s8; an imm-scale of -1 negates an operand."""
    a, b, c = operands(k)
    shared = Shared()
    descriptors = shared.k_major(encode(a, kind), 3), shared.k_major(encode(b.T, kind), 1)
    got = run(device, module, name, shared, descriptors, c)
    assert np.array_equal(got, sign * (a @ b) + c)


def test_bf16_negated(device: Device, module: LoadedModule) -> None:
    """`wgmma` on bf16 is right for K-major A and N-major B.

    An imm-scale-a of -1 negates A.
    """
    a, b, c = operands(16)
    shared = Shared()
    descriptors = (
        shared.k_major(encode(a, "bf16"), 2),
        shared.mn_major(encode(b.T, "bf16"), 3),
    )
    assert np.array_equal(run(device, module, "bf16_km", shared, descriptors, c), c - a @ b)


def test_scale_d_of_zero(device: Device, module: LoadedModule) -> None:
    """Without scale-d, wgmma ignores its accumulator, even a NaN, also for f16 sums."""
    a, b, _ = operands(16)
    shared = Shared()
    descriptors = shared.k_major(encode(a, "f16"), 0), shared.k_major(encode(b.T, "f16"), 1)
    c = np.full((64, 16), np.nan)
    got = run(device, module, "f16_half", shared, descriptors, c, adds=0)
    assert np.array_equal(got, a @ b)


def test_a_in_registers(device: Device, module: LoadedModule) -> None:
    """`wgmma` takes A from registers: each warp has 16 rows, laid out as in mma.m16n8k16."""
    a, b, c = operands(16)
    shared = Shared()
    descriptor = shared.k_major(encode(b.T, "f16"), 2)
    in_memory = device.put(encode(a, "f16"))
    got = run(device, module, "f16_registers", shared, (in_memory, descriptor), c)
    assert np.array_equal(got, a @ b + c)


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "kind", "k"),
    [("f16_kk", "f16", 16), ("f16_half", "f16", 16), ("tf32", "tf32", 8), ("bf16_kk", "bf16", 16)],
)
def test_sums_round_as_the_hardware(
    device: Device, module: LoadedModule, name: str, kind: str, k: int
) -> None:
    """`wgmma` rounds sums of products, of similar or very different sizes, exactly as a GPU.

    The `device` fixture compares the results with those recorded on a GPU.
    """
    rng = np.random.default_rng(3)
    for spread in (0, 3, 12):
        scales = [2.0 ** rng.integers(-spread, spread + 1, s) for s in ((64, k), (k, 16))]
        a, b = (rng.standard_normal(scale.shape) * scale for scale in scales)
        c = rng.standard_normal((64, 16)) * 2.0 ** rng.integers(-spread, spread + 1, (64, 16))
        shared = Shared()
        descriptors = shared.k_major(encode(a, kind), 1), shared.k_major(encode(b.T, kind), 1)
        run(device, module, name, shared, descriptors, c)


def test_a_step_along_k_inside_a_span(device: Device, module: LoadedModule) -> None:
    """A descriptor start 32 bytes later selects the next 16 values of k, despite the swizzle."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(-8, 9, (64, 64)), rng.integers(-8, 9, (64, 16))
    shared = Shared()
    first = shared.k_major(encode(a, "f16"), 1), shared.k_major(encode(b.T, "f16"), 1)
    total = np.zeros((64, 16))
    for step in range(4):
        descriptors = first[0] + 2 * step, first[1] + 2 * step
        total = run(device, module, "f16_kk", shared, descriptors, total)
    assert np.array_equal(total, a @ b)
