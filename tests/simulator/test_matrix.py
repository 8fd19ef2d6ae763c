"""The warp-level matrix instructions ldmatrix, stmatrix and mma.sync."""

from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from harness.simulator.hardware.errors import UnmetCondition
from tests.simulator.conftest import Compile
from tests.simulator.fragments import (
    a_registers,
    accumulator_registers,
    accumulators_of,
    b_registers,
)
from tests.simulator.support import Array, Device, bits, int32, pointer

LANE = np.arange(32)


@pytest.fixture
def module(device: Device, compile_ptx: Compile) -> LoadedModule:
    return device.machine.load(compile_ptx(Path(__file__).with_name("matrix.cu")))


@pytest.mark.parametrize("name", ["load_x1", "load_x2", "load_x4", "load_x4_transposed"])
def test_ldmatrix(device: Device, module: LoadedModule, name: str) -> None:
    """`ldmatrix` gives each thread two neighbours of a row, or of a column with `.trans`."""
    count = int(name.split("_")[1][1])
    tiles = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8) * 257
    target = device.put(np.zeros((count, 32), np.uint32))
    result = device.launch(module, name + "P", [pointer(target), pointer(device.put(tiles))])
    assert result.findings == ()
    got = device.get(target, np.zeros((count, 32), np.uint32))
    for matrix in range(count):
        for lane in range(32):
            row, column = lane // 4, lane % 4 * 2
            tile = tiles[matrix].T if name.endswith("transposed") else tiles[matrix]
            expected = int(tile[row, column]) | int(tile[row, column + 1]) << 16
            assert got[matrix, lane] == expected


def test_stmatrix_is_the_inverse_of_ldmatrix(device: Device, module: LoadedModule) -> None:
    """`stmatrix` stores what ldmatrix loaded; `.trans` transposes each 8 x 8 matrix."""
    values = np.arange(256, dtype=np.uint16)
    target = device.put(np.zeros(256, np.uint16))
    arguments = [pointer(target), pointer(device.put(values)), int32(32)]
    result = device.launch(module, "through_stmatrix", arguments)
    assert result.findings == ()
    matrices = values.reshape(4, 8, 8)
    expected = [matrices[0], matrices[1], matrices[2].T, matrices[3].T]
    got = device.get(target, values).reshape(4, 8, 8)
    assert np.array_equal(got, expected)


@pytest.mark.simulator_only
def test_ldmatrix_finds_what_nothing_wrote(device: Device, module: LoadedModule) -> None:
    """`ldmatrix` of unwritten rows is an initcheck finding at its line.

    The finding names the threads that gave the addresses of these rows.
    """
    target = device.put(np.zeros(256, np.uint16))
    source = device.put(np.zeros(256, np.uint16))
    arguments = [pointer(target), pointer(source), int32(28)]
    result = device.launch(module, "through_stmatrix", arguments)
    (finding,) = result.findings
    assert finding.check == "initcheck"
    assert finding.message == "16-byte load of shared memory that nothing wrote: byte 448"
    assert (finding.thread, finding.count) == ((28, 0, 0), 4)
    source_lines = Path(finding.file or "").read_text().split("\n")
    assert "line of the load" in source_lines[(finding.line or 0) - 1]


def run(device: Device, module: LoadedModule, name: str, a: Array, b: Array, c: Array) -> Array:
    """Run an mma kernel in two blocks; return the result registers (register, thread)."""
    target = device.put(np.zeros_like(c))
    arguments = [pointer(target), *(pointer(device.put(x)) for x in (a, b, c))]
    (name,) = (n for n in module.kernels if n.startswith(f"_Z{len(name)}{name}P"))
    threads = a.shape[1] // 2
    result = device.machine.launch(module, name, (2, 1, 1), (threads, 1, 1), 0, arguments)
    assert result.findings == ()
    return device.get(target, c)


@pytest.mark.parametrize(
    ("name", "kind", "m", "k", "sum_kind"),
    [
        ("mma_f16_k8", "f16", 16, 8, "f32"),
        ("mma_f16_k16", "f16", 16, 16, "f32"),
        ("mma_f16_k16_half", "f16", 16, 16, "f16"),
        ("mma_bf16_k8", "bf16", 16, 8, "f32"),
        ("mma_bf16_k16", "bf16", 16, 16, "f32"),
        ("mma_tf32_k4", "tf32", 16, 4, "f32"),
        ("mma_tf32_k8", "tf32", 16, 8, "f32"),
        ("mma_e4m3_k32", "e4m3", 16, 32, "f32"),
        ("mma_s8_k16", "s8", 16, 16, "s32"),
        ("mma_s8_k32", "s8", 16, 32, "s32"),
    ],
)
def test_mma_of_small_integers(
    device: Device, module: LoadedModule, name: str, kind: str, m: int, k: int, sum_kind: str
) -> None:
    """`mma` gives exact results for every shape and type, with the fragment layouts of the PTX ISA.

    Operands are random small integers, so sums are exact, and a wrong layout gives wrong results.
    """
    rng = np.random.default_rng(7)
    a = rng.integers(-8, 8, (4, m, k))
    b = rng.integers(-8, 8, (4, k, 8))
    c = rng.integers(-99, 99, (4, m, 8))
    registers = a_registers(a, kind), b_registers(b, kind), accumulator_registers(c, sum_kind)
    got = run(device, module, name, *registers)
    assert np.array_equal(accumulators_of(got, sum_kind, m), a @ b + c)


def test_mma_of_bytes_saturates(device: Device, module: LoadedModule) -> None:
    """`mma` of u8 by s8 mixes signs; `.satfinite` clamps the sum to the range of s32."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 256, (4, 16, 32)), rng.integers(-128, 128, (4, 32, 8))
    c = rng.choice([-(2**31), 2**31 - 1, 0], (4, 16, 8))
    registers = a_registers(a, "u8"), b_registers(b, "s8"), accumulator_registers(c, "s32")
    got = accumulators_of(run(device, module, "mma_u8_s8_k32", *registers), "s32", 16)
    assert np.array_equal(got, np.clip(a @ b + c, -(2**31), 2**31 - 1))


def test_mma_of_doubles(device: Device, module: LoadedModule) -> None:
    """Each thread of mma.m8n8k4 on f64 has one element of A, one of B and two of C."""
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(-99, 99, s).astype(float) for s in ((8, 4), (4, 8), (8, 8)))
    g, t = LANE // 4, LANE % 4
    fragments = a[g, t][None], b[t, g][None], np.stack([c[g, 2 * t], c[g, 2 * t + 1]])
    both = [np.concatenate([f, f], axis=1) for f in fragments]
    got = run(device, module, "mma_f64", *both)
    expected = a @ b + c
    assert np.array_equal(got[:, 32:], np.stack([expected[g, 2 * t], expected[g, 2 * t + 1]]))


def test_mma_cuts_off_low_bits(device: Device, module: LoadedModule) -> None:
    """`mma` aligns its terms to the largest, and cuts off bits 26 or more places below it.

    float32 has 24 bits, and the sum keeps two more. The result is truncated to float32, not
    rounded.
    """
    a, b, c = np.zeros((4, 16, 16)), np.zeros((4, 16, 8)), np.zeros((4, 16, 8))
    a[:, :, 0], b[:, 0] = 1, 1
    a[:, :, 1:5], b[:, 1:5] = 2.0**-13, 2.0**-12  # four times 2^-25: one unit of the kept bits each
    a[:, 8:, 1:5] = -(2.0**-14)  # 2^-26 is below them
    registers = a_registers(a, "f16"), b_registers(b, "f16"), accumulator_registers(c, "f32")
    got = accumulators_of(run(device, module, "mma_f16_k16", *registers), "f32", 16)
    assert (got[:, :8] == 1 + 2.0**-23).all()
    assert (got[:, 8:] == 1).all()
    b[:, 4] = 0  # three times 2^-25 is less than a unit of float32
    registers = a_registers(a, "f16"), b_registers(b, "f16"), accumulator_registers(c, "f32")
    got = accumulators_of(run(device, module, "mma_f16_k16", *registers), "f32", 16)
    assert (got == 1).all()


def test_mma_of_infinities(device: Device, module: LoadedModule) -> None:
    """`mma` of infinities gives infinities, and invalid products give the NaN 0x7FFFFFFF."""
    a, b, c = np.ones((4, 16, 16)), np.ones((4, 16, 8)), np.zeros((4, 16, 8))
    a[:, 0, 3], a[:, 1, 3], a[:, 2, :2] = np.inf, np.nan, (np.inf, -np.inf)
    registers = a_registers(a, "bf16"), b_registers(b, "bf16"), accumulator_registers(c, "f32")
    got = accumulators_of(run(device, module, "mma_bf16_k16", *registers), "f32", 16)
    assert (got[:, 0] == np.inf).all()
    assert (bits(got[:, 1:3]) == 0x7FFFFFFF).all()
    assert (got[:, 3:] == 16).all()


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "exponent_bits", "sum_kind"),
    [
        ("mma_f16_k8", 5, "f32"),
        ("mma_f16_k16", 5, "f32"),
        ("mma_f16_k16_half", 5, "f16"),
        ("mma_bf16_k16", 8, "f32"),
        ("mma_tf32_k4", 8, "f32"),
        ("mma_tf32_k8", 8, "f32"),
        ("mma_e4m3_k32", 4, "f32"),
    ],
)
def test_mma_rounds_as_the_hardware(
    device: Device, module: LoadedModule, name: str, exponent_bits: int, sum_kind: str
) -> None:
    """`mma` sums of numbers of all magnitudes are rounded exactly as on a GPU.

    Subnormal numbers, infinities and NaN are included. The `device` fixture compares the results
    with those recorded on a GPU.
    """
    rng = np.random.default_rng(12)
    counts = {"mma_f16_k8": (2, 1), "mma_tf32_k4": (2, 1)}.get(name, (4, 2))
    width = {5: 16, 4: 8, 8: 32 if "tf32" in name else 16}[exponent_bits]
    sums = 4 if sum_kind == "f32" else 2
    for spread in (2, 6, 2**exponent_bits):
        a, b = (words(rng, (count, 64), width, exponent_bits, spread) for count in counts)
        c = words(rng, (sums, 64), *((32, 8) if sums == 4 else (16, 5)), spread)
        run(device, module, name, a, b, c)


def words(
    rng: np.random.Generator, shape: tuple[int, int], width: int, exponent_bits: int, spread: int
) -> Array:
    """Return 32-bit registers full of random numbers whose exponents are close to that of 1.

    Args:
        rng: Source of randomness.
        shape: Shape of the array of registers.
        width: Bits of a number.
        exponent_bits: Bits of a number's exponent.
        spread: How many different exponents occur.
    """
    total = 2**exponent_bits
    count = shape[0] * shape[1] * 32 // width
    middle = np.arange(total // 2 - spread // 2, total // 2 + (spread + 1) // 2) % total
    fraction_bits = width - 1 - exponent_bits
    fractions = rng.integers(0, 2**fraction_bits, count)
    numbers = rng.choice(middle, count) << fraction_bits | fractions
    numbers |= rng.integers(0, 2, count) << (width - 1)
    return numbers.astype(f"<u{width // 8}").view(np.uint32).reshape(shape)


def test_tf32_ignores_the_low_bits(device: Device, module: LoadedModule) -> None:
    """`mma` on tf32 truncates float32 operands to 10 fraction bits."""
    a, b, c = np.ones((4, 16, 8)), np.ones((4, 8, 8)), np.zeros((4, 16, 8))
    a += 2.0**-11
    registers = a_registers(a, "tf32"), b_registers(b, "tf32"), accumulator_registers(c, "f32")
    got = accumulators_of(run(device, module, "mma_tf32_k8", *registers), "f32", 16)
    assert (got == 8).all()


def test_a_diverged_warp_meets_at_the_mma(device: Device, module: LoadedModule) -> None:
    """Threads of a diverged warp wait at an mma until the whole warp has reached it."""
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 8, (4, 16, 16))
    b = rng.integers(-8, 8, (4, 16, 8))
    c = rng.integers(0, 99, (4, 16, 8))
    fragment = accumulator_registers(c, "s32")
    registers = a_registers(a, "s8"), b_registers(b, "s8"), fragment.copy()
    got = run(device, module, "mma_after_divergence", *registers)
    thread = np.arange(128)
    for _ in range(8):
        more = (thread % 2 == 1) & (_ < thread % 8)
        fragment[0] = np.where(more, fragment[0] * 3 + 1, fragment[0])
    fragment[1] = np.where(thread % 2 == 0, fragment[1] ^ 5, fragment[1])
    expected = a @ b + accumulators_of(fragment, "s32", 16)
    assert np.array_equal(accumulators_of(got, "s32", 16), expected)


@pytest.mark.simulator_only
def test_a_partial_warp_cannot_multiply(device: Device, module: LoadedModule) -> None:
    """An mma in an incomplete warp raises an error about the missing rest of the warp."""
    zeros = device.put(np.zeros(4 * 96, np.uint32))
    (name,) = (n for n in module.kernels if "mma_s8_k16" in n)
    with pytest.raises(UnmetCondition, match="rest of a warp") as caught:
        device.machine.launch(module, name, (2, 1, 1), (48, 1, 1), 0, [pointer(zeros)] * 4)
    assert caught.value.waiting == 16
    assert caught.value.thread == (32, 0, 0)
