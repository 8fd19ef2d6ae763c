"""Floating-point PTX instructions, compared with results from exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.simulator.support import Array, Device, bits

ROUNDINGS = ["rn", "rz", "rm", "rp"]


def rounded(value: Fraction, dtype: type, mode: str) -> float:
    """Return an exact number rounded once to `dtype` in a PTX rounding mode; zero becomes +0."""
    info = np.finfo(dtype)
    smallest = Fraction(float(info.smallest_subnormal))
    digits = info.nmant
    if value == 0:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    while abs(value) >= Fraction(2) ** exponent:
        exponent += 1
    while abs(value) < Fraction(2) ** (exponent - 1):
        exponent -= 1
    unit = max(Fraction(2) ** (exponent - 1 - digits), smallest)
    scaled = value / unit
    floor = math.floor(scaled)
    if mode == "rn":
        whole = round(scaled)  # ties to even
    else:
        up = {"rz": value < 0, "rm": False, "rp": True}[mode]
        whole = floor if floor == scaled else floor + up
    result = whole * unit
    if abs(result) > Fraction(float(info.max)):
        is_inward = mode == "rz" or ((mode == "rm") == (value > 0) and mode != "rn")
        limit = float(info.max) if is_inward else math.inf
        return -limit if value < 0 else limit
    return math.copysign(float(result), -1 if value < 0 else 1)


def awkward(dtype: type, count: int, seed: int) -> Array:
    """Return `count` float32 or float64 numbers that are hard to round.

    They include numbers of all sizes, subnormal ones, and many with few bits, which cause ties.
    """
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, count)
    exponents[::2] = rng.integers(-30, 30, len(exponents[::2]))
    mantissas = 1 + rng.integers(0, 2**info.nmant, count) / 2.0**info.nmant
    mantissas[::3] = 1 + rng.integers(0, 16, len(mantissas[::3])) / 16
    values: Array = np.ldexp(mantissas, exponents.astype(np.int32)).astype(dtype)
    values *= rng.choice(np.array([-1, 1], dtype), count)
    values[0:4] = np.array([0, info.max, info.smallest_subnormal, info.tiny], dtype)
    return values


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(device: Device, dtype: type, mode: str) -> None:
    """`fma` on f32 and f64 rounds the exact a * b + c once, also for sums close to a tie."""
    a, b, c = (awkward(dtype, 1500, seed) for seed in (1, 2, 3))
    with np.errstate(all="ignore"):
        # Sums whose exact value is close to the midpoint of two neighbouring numbers.
        c[500:1000] = (a[500:1000].astype(np.float64) * b[500:1000]).astype(dtype)
        tiny = np.ldexp(dtype(1), np.int32(-np.finfo(dtype).nmant - 1)).astype(dtype)
        a[1000:1250], b[1000:1250] = 1 + 2 * tiny, 1 + 2 * tiny
        c[1000:1250] = -1 + np.arange(250) * tiny
        a[1250:1400], b[1250:1400], c[1250:1400] = 1 + tiny * 2, tiny * tiny * tiny, 1 + tiny * 2
        c[1400:] = a[1400:] * tiny
    c[~np.isfinite(c)] = 1
    kind = "f32" if dtype is np.float32 else "f64"
    got = device.evaluate(f"fma.{mode}.{kind} %d, %a, %b, %c", a, b, c, out=a)
    for x, y, z, result in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        expected = rounded(exact, dtype, mode)
        assert result == expected, (x, y, z)


def test_fma_double_rounding_trap(device: Device) -> None:
    """`fma` on f32 is right for sums that rounding to float64 first would make wrong."""
    a = np.array([1 + 2**-12], np.float32)
    b = np.array([1 + 2**-12], np.float32)
    # a * b = 1 + 2^-11 + 2^-24 is the midpoint of two float32. c decides which is nearer, but
    # float64 would lose c.
    c = np.array([2.0**-100], np.float32)
    got = device.evaluate("fma.rn.f32 %d, %a, %b, %c", a, b, c, out=a)
    assert got[0] == np.float32(1 + 2**-11 + 2**-23)
    got = device.evaluate("fma.rn.f32 %d, %a, %b, %c", a, b, -c, out=a)
    assert got[0] == np.float32(1 + 2**-11)


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "sqrt", "rcp"])
def test_rounding_modes(device: Device, name: str, dtype: type, mode: str) -> None:
    """`add`, `sub`, `mul`, `div`, `sqrt` and `rcp` round the exact result once in every mode."""
    a, b = awkward(dtype, 600, 4), awkward(dtype, 600, 5)
    b[b == 0] = 3
    a = np.abs(a) if name == "sqrt" else a
    a[a == 0] = 1
    kind = "f32" if dtype is np.float32 else "f64"
    unary = name in ("sqrt", "rcp")
    operands = (a,) if unary else (a, b)
    text = f"{name}.{mode}.{kind} %d, %a" + ("" if unary else ", %b")
    got = device.evaluate(text, *operands, out=a)
    for x, y, result in zip(a, b, got, strict=True):
        p, q = Fraction(float(x)), Fraction(float(y))
        if name == "sqrt":
            # An irrational root is neither representable nor a tie. Its first 1200 fraction bits
            # plus a little therefore round as the root itself does.
            root = Fraction(math.isqrt(int(p * 2**2400)), 2**1200)
            exact = root if root * root == p else root + Fraction(1, 2**1300)
        else:
            exact = {"add": p + q, "sub": p - q, "mul": p * q, "div": p / q, "rcp": 1 / p}[name]
        assert result == rounded(exact, dtype, mode), (name, x, y)


def test_float32_nan_is_canonical(device: Device) -> None:
    """A NaN from float32 arithmetic is 0x7FFFFFFF, whichever operand was NaN."""
    a = np.array([0x7FB1DEAD, 0xFFC00001, 0x7F800000], np.uint32).view(np.float32)
    b = np.array([0, 0x3F800000, 0xFF800000], np.uint32).view(np.float32)
    for name in ("add.f32 %d, %a, %b", "mul.f32 %d, %a, %b", "fma.rn.f32 %d, %a, %b, %b"):
        got = bits(device.evaluate(name, a, b, out=a))
        assert got[:2].tolist() == [0x7FFFFFFF] * 2


def test_extremes_of_nan_and_signed_zero(device: Device) -> None:
    """`min` and `max` on f32 return the number and not the NaN, unless `.NaN` is given.

    They order -0 before +0.
    """
    a = np.array([np.nan, 1, np.nan, 0.0, -0.0, -1], np.float32)
    b = np.array([2, np.nan, np.nan, -0.0, 0.0, -2], np.float32)
    low = device.evaluate("min.f32 %d, %a, %b", a, b, out=a)
    high = device.evaluate("max.f32 %d, %a, %b", a, b, out=a)
    strict = device.evaluate("max.NaN.f32 %d, %a, %b", a, b, out=a)
    nan = np.array([0x7FFFFFFF], np.uint32).view(np.float32)[0]
    assert bits(low).tolist() == bits(np.array([2, 1, nan, -0.0, -0.0, -2], a.dtype)).tolist()
    assert bits(high).tolist() == bits(np.array([2, 1, nan, 0.0, 0.0, -1], a.dtype)).tolist()
    assert np.isnan(strict).tolist() == [True, True, True, False, False, False]


def test_flush_to_zero_and_saturation(device: Device) -> None:
    """On f32, `.ftz` flushes subnormal operands and results to zero.

    `.sat` clamps to [0, 1], and turns NaN into 0.
    """
    tiny = np.float32(2.0**-126)
    a = np.array([tiny / 2, -tiny / 4, tiny, 1], np.float32)
    b = np.array([1, 1, 0.5, 2.0**-127], np.float32)
    got = device.evaluate("mul.ftz.f32 %d, %a, %b", a, b, out=a)
    assert bits(got).tolist() == bits(np.array([0, -0.0, 0, 0], np.float32)).tolist()
    c = np.array([-1, 0.25, 7, np.nan], np.float32)
    got = device.evaluate("add.sat.f32 %d, %a, %a", c, out=c)
    assert got.tolist() == [0, 0.5, 1, 0]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan(device: Device, name: str) -> None:
    """If an operand is NaN, `setp` gives false for `eq` to `ge`, and true for `equ` to `geu`."""
    values = np.array([0.0, -0.0, 1, -1, np.inf, np.nan], np.float32)
    a, b = np.repeat(values, 6), np.tile(values, 6)
    out = np.zeros(36, np.int32)
    unordered = np.isnan(a) | np.isnan(b)
    operate = {
        "eq": a == b,
        "ne": a != b,
        "lt": a < b,
        "le": a <= b,
        "gt": a > b,
        "ge": a >= b,
    }[name]
    for suffix, expected in (("", operate & ~unordered), ("u", operate | unordered)):
        text = f"setp.{name}{suffix}.f32 %pa, %a, %b; selp.b32 %d, 1, 0, %pa"
        got = device.evaluate(text, a, b, out=out)
        assert got.tolist() == expected.astype(int).tolist()


@pytest.mark.approximate
@pytest.mark.parametrize(
    ("name", "function", "relative", "absolute"),
    [
        ("ex2", np.exp2, 2**-22, 0),
        ("sin", np.sin, 0, 2**-20.5),
        ("cos", np.cos, 0, 2**-20.5),
        ("tanh", np.tanh, 2**-11, 0),
    ],
)
def test_approximations(
    device: Device, name: str, function: np.ufunc, relative: float, absolute: float
) -> None:
    """Approximate float functions err at most as the PTX manual states."""
    a = np.linspace(-3, 3, 101).astype(np.float32)
    got = device.evaluate(f"{name}.approx.f32 %d, %a", a, out=a)
    exact = function(a.astype(np.float64))
    assert np.all(np.abs(got - exact) <= np.abs(exact) * relative + absolute)


@pytest.mark.approximate
def test_tanh_is_as_coarse_as_a_gpus(device: Device) -> None:
    """`tanh.approx.f32` has a relative error near 2^-16.5; numbers below 2^-8 stay unchanged."""
    a = np.linspace(0.25, 1.75, 1000).astype(np.float32)
    got = device.evaluate("tanh.approx.f32 %d, %a", a, out=a)
    error = np.max(np.abs(got / np.tanh(a.astype(np.float64)) - 1))
    assert 2**-17.5 < error <= 2**-16
    small = np.linspace(-(2**-8), 2**-8, 100, endpoint=False).astype(np.float32)[1:]
    assert np.array_equal(device.evaluate("tanh.approx.f32 %d, %a", small, out=small), small)


@pytest.mark.simulator_only
@pytest.mark.parametrize(("name", "function"), [("sin", np.sin), ("cos", np.cos)])
def test_sines_of_large_numbers_are_inaccurate(
    device: Device, name: str, function: np.ufunc
) -> None:
    """`sin.approx` and `cos.approx` lose digits of large arguments, as the hardware does.

    Its first step is a product with 1 / (2 pi) as float32, which is rounded towards zero.
    """
    for size, least, most in ((1e3, 1e-5, 1e-3), (1e7, 0.1, 2)):
        a = np.linspace(-size, size, 101).astype(np.float32)
        got = device.evaluate(f"{name}.approx.f32 %d, %a", a, out=a)
        assert np.abs(got).max() <= 1
        error = np.abs(got - function(a.astype(np.float64))).max()
        assert least < error < most
    a = np.array([np.inf, np.nan], np.float32)
    assert np.isnan(device.evaluate(f"{name}.approx.f32 %d, %a", a, out=a)).all()


def test_approximate_quotient_by_a_huge_number_is_zero(device: Device) -> None:
    """`div.approx.f32` by a number beyond 2^126 gives 0, or NaN for infinity by it."""
    a = np.array([2.0**127, -1, 1, np.inf, 3], np.float32)
    b = np.array([2.0**127, 1.5 * 2.0**126, -(2.0**127), 2.0**127, 2.0**126], np.float32)
    got = device.evaluate("div.approx.f32 %d, %a, %b", a, b, out=a)
    assert bits(got[:3]).tolist() == bits(np.array([0, -0.0, -0.0], np.float32)).tolist()
    assert np.isnan(got[3])
    assert got[4] == np.float32(3 / 2.0**126)
    full = device.evaluate("div.full.f32 %d, %a, %b", a, b, out=a)
    assert full[0] == pytest.approx(1)


@pytest.mark.parametrize("name", ["add", "mul", "sub", "fma.rn"])
def test_half_precision_rounds_once(device: Device, name: str) -> None:
    """`add`, `sub`, `mul` and `fma` on f16 round the exact result once."""
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(0, 0x7C00, 400).astype(np.uint16) for _ in range(3))
    text = f"{name}.f16 %d, %a, %b" + (", %c" if name == "fma.rn" else "")
    operands = (a, b, c)[: 3 if name == "fma.rn" else 2]
    got = device.evaluate(text, *operands, out=a).view(np.float16)
    for x, y, z, result in zip(*(v.view(np.float16) for v in (a, b, c)), got, strict=True):
        p, q, r = Fraction(float(x)), Fraction(float(y)), Fraction(float(z))
        exact = {"add": p + q, "sub": p - q, "mul": p * q, "fma.rn": p * q + r}[name]
        assert result == rounded(exact, np.float16, "rn"), (name, x, y, z)


def brain(value: float) -> Array:
    """Return the bfloat16 bits of a number that bfloat16 holds exactly."""
    return (np.array([value], np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_bfloat16_fma_rounds_once(device: Device) -> None:
    """A tiny addend decides a tie of a bf16 fma, though float64 would lose the addend."""
    a, b, c = brain(1 + 2**-4), brain(1 + 2**-4), brain(2.0**-100)
    # (1 + 2^-4)^2 = 1 + 2^-3 + 2^-8 is the midpoint of two bfloat16.
    up = device.evaluate("fma.rn.bf16 %d, %a, %b, %c", a, b, c, out=a)
    even = device.evaluate("mul.rn.bf16 %d, %a, %b", a, b, out=a)
    assert up[0] == brain(1 + 2**-3 + 2**-7)[0]
    assert even[0] == brain(1 + 2**-3)[0]
