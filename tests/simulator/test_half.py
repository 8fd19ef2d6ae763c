"""Half precision: f16, bf16, pairs of either, and conversions to tf32 and 8-bit floats."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.instructions.narrow import bf16_to_f32
from tests.simulator.conftest import Compile
from tests.simulator.support import Array, Device, bits, pointer

# Bits of the significand, exponent of the smallest normal number, and largest number.
FORMATS = {
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float(np.array([0x7F7F0000], np.uint32).view(np.float32)[0])),
    "tf32": (11, -126, float(np.array([0x7F7FE000], np.uint32).view(np.float32)[0])),
    "e4m3": (4, -6, 448.0),
    "e5m2": (3, -14, 57344.0),
}
NUMBERS = ["f16", "bf16"]


def rounded(value: Fraction | float, kind: str, mode: str = "rn") -> float:
    """Return a number rounded once to a floating-point format.

    Args:
        value: The number.
        kind: Name of the format, a key of `FORMATS`.
        mode: PTX rounding mode: rn, rz, rm, rp or rna, with or without the suffix `satfinite`. A
            number that is too large becomes the format's largest number if the mode has the suffix
            or rounds the number towards zero. Otherwise, the number becomes infinity.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        value = Fraction(value)
    digits, least, largest = FORMATS[kind]
    if value == 0:
        return 0.0
    exponent = least
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    scaled = value / Fraction(2) ** (exponent - digits + 1)
    if mode == "rna":
        whole = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if value > 0 else -1)
    else:
        modes: dict[str, Callable[[Fraction], int]] = {
            "rn": round,
            "rz": math.trunc,
            "rm": math.floor,
            "rp": math.ceil,
        }
        whole = modes[mode.removesuffix("satfinite")](scaled)
    result = whole * Fraction(2) ** (exponent - digits + 1)
    if abs(result) > Fraction(largest):
        inward = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        limit = largest if inward or mode.endswith("satfinite") else math.inf
        return math.copysign(limit, value)
    return math.copysign(float(result), value)


def stored(values: Array, kind: str) -> Array:
    """Return numbers as an f16 or bf16 array for `Device.evaluate`.

    The format must hold the numbers exactly.
    """
    if kind == "f16":
        return values.astype(np.float16)
    return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def numbers(array: Array, kind: str) -> Array:
    """Return f16 or bf16 bits as float64 numbers."""
    with np.errstate(invalid="ignore"):
        return (array if kind == "f16" else bf16_to_f32(array)).astype(np.float64)


def awkward(kind: str, count: int, seed: int) -> Array:
    """Return `count` numbers of a format that are hard to round.

    They include numbers of all sizes, subnormal numbers, numbers with few bits, zeros and
    infinities.
    """
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 2**16, count).astype(np.uint16)
    raw[::3] &= 0xFFC0 if kind == "f16" else 0xFFF8
    raw[1::3] = rng.integers(0x3800, 0x4200, len(raw[1::3])).astype(np.uint16)
    special = {"f16": [0, 0x8000, 1, 0x83FF, 0x7C00], "bf16": [0, 0x8000, 1, 0x807F, 0x7F80]}
    raw[:5] = special[kind]
    values = numbers(raw.view(np.float16) if kind == "f16" else raw, kind)
    return np.where(np.isnan(values), 1.0, values)


@pytest.mark.parametrize("kind", NUMBERS)
def test_fma_rounds_once(device: Device, kind: str) -> None:
    """`fma` on f16 and bf16 rounds the exact a * b + c once, also to a subnormal result."""
    a, b, c = (awkward(kind, 900, seed) for seed in (1, 2, 3))
    a[:5], b[5:10] = 1.5, 0.75
    # Sums close to the midpoint between two neighbours.
    c[300:600] = [rounded(x * y, kind) for x, y in zip(a[300:600], b[300:600], strict=True)]
    operands = [stored(x, kind) for x in (a, b, c)]
    got = numbers(
        device.evaluate(f"fma.rn.{kind} %d, %a, %b, %c", *operands, out=operands[0]), kind
    )
    for x, y, z, result in zip(a, b, c, got, strict=True):
        if all(map(math.isfinite, (x, y, z))):
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            assert result == rounded(exact, kind), (x, y, z)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("opcode", ["add", "sub", "mul"])
def test_arithmetic_of_halves(device: Device, kind: str, opcode: str) -> None:
    """`add`, `sub` and `mul` on f16 and bf16 round the exact result once.

    The forms for pairs, f16x2 and bf16x2, give the same result in each half.
    """
    a, b = (awkward(kind, 600, seed) for seed in (4, 5))
    x, y = stored(a, kind), stored(b, kind)
    suffix = "rn." if kind == "bf16" else ""
    got = device.evaluate(f"{opcode}.{suffix}{kind} %d, %a, %b", x, y, out=x)
    pairs = [v.view(np.uint32) for v in (x, y)]
    of_pairs = device.evaluate(f"{opcode}.{suffix}{kind}x2 %d, %a, %b", *pairs, out=pairs[0])
    assert np.array_equal(of_pairs.view(np.uint16), bits(got))
    for u, v, result in zip(a, b, numbers(got, kind), strict=True):
        if math.isfinite(u) and math.isfinite(v):
            p, q = Fraction(u), Fraction(v)
            exact = {"add": p + q, "sub": p - q, "mul": p * q}[opcode]
            assert result == rounded(exact, kind), (u, v)


def test_modifiers_of_half_arithmetic(device: Device) -> None:
    """Arithmetic on f16 supports `.sat`, `.relu` and `.ftz`.

    `.sat` clamps to [0, 1], `.relu` replaces negative results by 0, and `.ftz` flushes subnormals
    to zero.
    """
    a = np.array([0.75, -3, 2, np.nan, 2.0**-15, -(2.0**-15)], np.float16)
    one, zero = np.ones(6, np.float16), np.full(6, -0.0, np.float16)

    def run(instruction: str) -> list[int]:
        return bits(device.evaluate(instruction, a, one, zero, out=a)).tolist()  # type: ignore[no-any-return]

    assert run("mul.sat.f16 %d, %a, %b") == [0x3A00, 0, 0x3C00, 0, 0x200, 0]
    assert run("fma.rn.relu.f16 %d, %a, %b, %c") == [0x3A00, 0, 0x4000, 0x7FFF, 0x200, 0]
    assert run("mul.ftz.f16 %d, %a, %b")[3:] == [0x7FFF, 0, 0x8000]
    assert run("neg.ftz.f16 %d, %a")[4:] == [0x8000, 0]


@pytest.mark.parametrize("kind", NUMBERS)
def test_extrema_of_halves(device: Device, kind: str) -> None:
    """`min` and `max` on f16 and bf16 order -0 before +0, and ignore a NaN unless `.NaN` is given.

    With `.xorsign.abs`, they compare magnitudes, and the result's sign is the XOR of both signs.
    """
    a = stored(np.array([0.0, -0.0, np.nan, 1, np.nan, -3]), kind)
    b = stored(np.array([-0.0, 0.0, 2, np.nan, np.nan, 2]), kind)
    negative_zero = 0x8000
    two, one, three = (int(bits(stored(np.array([v]), kind))[0]) for v in (2.0, 1.0, 3.0))

    def run(name: str) -> list[int]:
        return bits(device.evaluate(f"{name}.{kind} %d, %a, %b", a, b, out=a)).tolist()  # type: ignore[no-any-return]

    expected = [negative_zero, negative_zero, two, one, 0x7FFF]
    assert run("min")[:5] == expected
    assert run("max.NaN")[:5] == [0, 0, 0x7FFF, 0x7FFF, 0x7FFF]
    assert run("max.xorsign.abs")[5] == three | 0x8000
    assert run("min.xorsign.abs")[5] == two | 0x8000


def test_comparisons_of_pairs(device: Device) -> None:
    """`setp` on f16x2 sets a predicate for each half; `set` gives masks or numbers."""
    a = np.array([1, 5, 2, np.nan], np.float16).view(np.uint32)
    b = np.array([2, 4, 2, 1], np.float16).view(np.uint32)
    out = np.zeros(2, np.uint32)
    both = "setp.lt.f16x2 %pa|%pb, %a, %b; selp.b32 %d, 1, 0, %pa; @%pb add.u32 %d, %d, 2"
    assert device.evaluate(both, a, b, out=out).tolist() == [1, 0]
    assert device.evaluate("set.gt.u32.f16x2 %d, %a, %b", a, b, out=out).tolist() == [
        0xFFFF0000,
        0,
    ]
    assert device.evaluate("set.leu.f16x2.f16x2 %d, %a, %b", a, b, out=out).tolist() == [
        0x3C00,
        0x3C003C00,
    ]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((kind, mode) for kind in NUMBERS for mode in ("rn", "rz", "rm", "rp")),
        *(("tf32", mode) for mode in ("rn", "rz", "rna")),
    ],
)
def test_rounding_of_float32(device: Device, kind: str, mode: str) -> None:
    """`cvt` from f32 to f16, bf16 and tf32 rounds and overflows as its rounding mode requires."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2**32, 600, np.uint64).astype(np.uint32).view(np.float32)
    a[::2] = np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-26, 17, 300)).astype(np.float32)
    with np.errstate(over="ignore"):
        a[::5] = a[::5].astype(np.float16).astype(np.float32) * np.float32(1 + 2.0**-11)
    a[np.isnan(a)] = 0.5
    out = np.zeros(600, np.uint32 if kind == "tf32" else np.uint16)
    got = device.evaluate(f"cvt.{mode}.{kind}.f32 %d, %a", a, out=out)
    if kind == "tf32":
        assert not (got & 0x1FFF).any()
        result = got.view(np.float32).astype(np.float64)
    else:
        result = numbers(got.view(np.float16) if kind == "f16" else got, kind)
    for x, y in zip(a.tolist(), result.tolist(), strict=True):
        assert y == rounded(x, kind, mode), x


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_bytes_of_floats(device: Device, kind: str) -> None:
    """`cvt` to e4m3 and e5m2 saturates and rounds to nearest even.

    The conversion back to f16 is exact.
    """
    rng = np.random.default_rng(4)
    a = np.ldexp(rng.uniform(-1, 1, 500), rng.integers(-18, 18, 500)).astype(np.float32)
    b = a[::-1].copy()
    out = np.zeros(500, np.uint16)
    coded = device.evaluate(f"cvt.rn.satfinite.{kind}x2.f32 %d, %a, %b", a, b, out=out)
    pairs = device.evaluate(f"cvt.rn.f16x2.{kind}x2 %d, %a", coded, out=np.zeros(500, np.uint32))
    halves = pairs.view(np.float16).reshape(500, 2)
    for column, source in ((1, a), (0, b)):
        expected = [rounded(float(x), kind, "rnsatfinite") for x in source]
        assert halves[:, column].tolist() == expected


def test_conversions_of_64_bit_integers(device: Device) -> None:
    """`cvt` from a 64-bit integer to bf16 rounds once, also beyond the 53 bits of a double."""
    a = np.array([2**62 + 2**54 + 1, 2**62 + 2**54, -(2**63), 5, -(2**53) - 1], np.int64)
    got = device.evaluate("cvt.rn.bf16.s64 %d, %a", a, out=np.zeros(5, np.uint16))
    assert numbers(got, "bf16").tolist() == [rounded(Fraction(int(x)), "bf16") for x in a]


@pytest.mark.approximate
@pytest.mark.parametrize("kind", NUMBERS)
def test_approximations_of_halves(device: Device, kind: str) -> None:
    """ex2 and tanh on f16 and bf16 err at most as the PTX ISA allows."""
    x = np.linspace(-4, 4, 200)
    a = stored(x, kind)
    x = numbers(a, kind)
    ftz = ".ftz" if kind == "bf16" else ""
    got = numbers(device.evaluate(f"ex2.approx{ftz}.{kind} %d, %a", a, out=a), kind)
    assert np.max(np.abs(got / np.exp2(x) - 1)) <= 2.0 ** (-9.9 if kind == "f16" else -7)
    got = numbers(device.evaluate(f"tanh.approx.{kind} %d, %a", a, out=a), kind)
    assert np.max(np.abs(got - np.tanh(x))) <= 2.0 ** (-10.987 if kind == "f16" else -8)


@pytest.mark.parametrize("architecture", ["80", "90"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_functions_of_the_cuda_headers(
    device: Device, compile_ptx: Compile, kind: str, architecture: str
) -> None:
    """The functions of cuda_fp16.h and cuda_bf16.h give the documented results."""
    module = device.machine.load(
        compile_ptx(Path(__file__).with_name("half.cu"), architecture=architecture)
    )
    rng = np.random.default_rng(6)
    values = [np.round(rng.uniform(-4, 4, 64) * 8) / 8 for _ in range(3)]
    values[1][:4] = values[0][:4]
    a, b, c = (numbers(stored(v, kind), kind) for v in values)
    name = "half" if kind == "f16" else "bfloat"
    exact = [a + b, a - b, a * b, a * b + c]
    expected = [
        *exact,
        np.maximum(exact[3], 0),
        np.clip(exact[3], 0, 1),
        np.minimum(a, b),
        np.maximum(a, b),
        -a,
        np.abs(a),
    ]
    addresses = [device.put(stored(v, kind)) for v in values]
    target = device.put(stored(np.zeros((16, 64)), kind))
    arguments = [pointer(p) for p in (target, *addresses)]
    device.launch(module, f"{name}_pairs", arguments, block=(32, 1, 1))
    got = numbers(device.get(target, stored(np.zeros((16, 64)), kind)), kind)
    for row, wanted in enumerate([*expected, a < b, a == b]):
        assert got[row].tolist() == [rounded(float(v), kind) for v in wanted], row

    scalars = stored(np.zeros((16, 32)), kind)
    target = device.put(scalars)
    device.launch(module, f"{name}_scalars", [pointer(target), *arguments[1:]], block=(32, 1, 1))
    got = numbers(device.get(target, scalars), kind)
    a, b, c = a[:32], b[:32], c[:32]
    for row, wanted in enumerate([*expected, np.minimum(a, b)]):
        assert got[row].tolist() == [rounded(float(v), kind) for v in wanted[:32]], row
    assert got[11].tolist() == np.where(a == b, a, b).tolist()
    relative = 2.0 ** (-10 if kind == "f16" else -7)
    with np.errstate(all="ignore"):
        for row, wanted in ((12, a / b), (13, np.exp(c)), (14, np.sqrt(np.abs(a)))):
            finite = np.isfinite(wanted)
            error = np.abs(got[row] - wanted)[finite]
            assert (error <= relative * np.abs(wanted[finite])).all(), row
    assert got[15].tolist() == np.rint(c).tolist()
