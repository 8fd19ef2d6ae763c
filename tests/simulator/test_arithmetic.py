"""Wide and packed integers, functions of floating-point numbers, and kinds of loads and stores."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from harness.simulator.hardware.errors import UnsupportedInstruction
from tests.simulator.support import Array, Device, bits, pointer


@pytest.fixture(scope="module")
def ptx(compile_ptx: Callable[[Path], str]) -> str:
    return compile_ptx(Path(__file__).with_name("arithmetic.cu"))


@pytest.fixture
def module(device: Device, ptx: str) -> LoadedModule:
    return device.machine.load(ptx)


def test_128_bit_integers(device: Device, module: LoadedModule) -> None:
    """128-bit sums, differences, products, quotients, remainders and shifts are right."""
    numbers = [0, 1, 2**128 - 1, 2**64, 2**64 - 1, 2**127, 3 << 90, 10**30, 12345, 2**96 + 7]
    pairs = [(a, b) for a in numbers for b in numbers][:96]
    data = b"".join(v.to_bytes(16, "little") for pair in pairs for v in pair)
    x, y = device.put(np.frombuffer(data, np.uint8)), device.put(np.zeros(96 * 96, np.uint8))
    result = device.launch(module, "wide", [pointer(y), pointer(x)], block=(96, 1, 1))
    assert result.findings == ()
    got = device.machine.memory.read(y, 96 * 96)
    for t, (a, b) in enumerate(pairs):
        signed = a - 2**128 if a >> 127 else a
        expected = [a + b, a - b, a * b, a // b if b else 0, a % b if b else 0, signed >> 3]
        words = [
            int.from_bytes(got[i * 16 : i * 16 + 16], "little") for i in range(6 * t, 6 * t + 6)
        ]
        assert words == [e % 2**128 for e in expected], (a, b)


def signed(value: int, width: int) -> int:
    """Return the low `width` bits of a value as a two's complement number."""
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def parts(value: int, width: int, *, is_signed: bool = False) -> list[int]:
    """Split a 32-bit word into numbers of `width` bits, the lowest first."""
    pieces = [value >> i & (1 << width) - 1 for i in range(0, 32, width)]
    return [signed(p, width) for p in pieces] if is_signed else pieces


def joined(values: list[int], width: int) -> int:
    """Join numbers of `width` bits into one integer, the first lowest; the inverse of `parts`."""
    return sum((v % (1 << width)) << (i * width) for i, v in enumerate(values))


def nth_set(mask: int, base: int, offset: int) -> int:
    """Return the result of the CUDA intrinsic `__fns`, computed as its documentation defines it.

    The result is the position of the `offset`th set bit from `base` on, or -1 if there is none.
    """
    if offset == 0:
        return base if mask >> base & 1 else -1
    step, left = (1 if offset > 0 else -1), abs(offset)
    while 0 <= base < 32:
        left -= mask >> base & 1
        if left == 0:
            return base
        base += step
    return -1


def expected_intrinsics(a: int, b: int, c: int) -> list[int]:
    """Return the results of all tested integer intrinsics for three 32-bit unsigned words."""
    sa, sb = signed(a, 32), signed(b, 32)
    a8, b8 = parts(a, 8), parts(b, 8)
    a8s, b8s = parts(a, 8, is_signed=True), parts(b, 8, is_signed=True)
    a16, a16s = parts(a, 16), parts(a, 16, is_signed=True)
    b16, b16s, c16s = parts(b, 16), parts(b, 16, is_signed=True), parts(c, 16, is_signed=True)

    def dot(x: list[int], y: list[int]) -> int:
        return sum(p * q for p, q in zip(x, y, strict=True))

    def lanes(width: int, function: Callable[[int, int], int], x: list[int], y: list[int]) -> int:
        return joined([function(p, q) for p, q in zip(x, y, strict=True)], width)

    permuted = [(a8 + b8)[c >> 4 * i & 7] for i in range(4)]
    sums = [signed(p + q, 16) for p, q in zip(a16s, b16s, strict=True)]
    return [
        dot(a8s, b8s) + c,
        dot(a8, b8) + c,
        dot(a16s, b8s[:2]) + c,
        dot(a16, b8[2:]) + c,
        lanes(8, lambda p, q: abs(p - q), a8, b8),
        sum(abs(p - q) for p, q in zip(a8, b8, strict=True)),
        lanes(16, lambda p, q: p + q, a16, b16),
        lanes(8, lambda p, q: min(max(p + q, -128), 127), a8s, b8s),
        lanes(8, min, a8, b8),
        lanes(16, max, sums, c16s),
        max(sa, sb, 0),
        nth_set(a, b & 31, (c & 7) - 3),
        lanes(16, lambda p, q: -1 if p > q else 0, a16s, b16s),
        lanes(8, lambda p, q: (p + q + 1) // 2, a8, b8),
        signed(a, 24) * signed(b, 24),
        (a & 0xFFFFFF) * (b & 0xFFFFFF),
        (sa + sb) >> 1,
        int(f"{a:032b}"[::-1], 2),
        (a & -a).bit_length(),
        joined(permuted, 8),
        (b << 32 | a) >> min(c & 63, 32),
        abs(sa - sb) + c,
        sa * sb >> 32,
    ]


def test_intrinsics(device: Device, module: LoadedModule) -> None:
    """CUDA's integer intrinsics are right for extreme and random 32-bit words."""
    rng = np.random.default_rng(8)
    x = rng.integers(0, 2**32, (64, 3), np.uint32)
    extremes = [0, 1, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x80808080, 0x80008000, 0x7F7F7F7F]
    x[:8] = [(a, b, b ^ a) for a, b in zip(extremes, reversed(extremes), strict=True)]
    x[8:16] = [(a, a, 5) for a in extremes]
    y = device.put(np.zeros((23, 64), np.uint32))
    arguments = [pointer(y), pointer(device.put(x))]
    device.launch(module, "intrinsics", arguments, block=(64, 1, 1))
    got = device.get(y, np.zeros((23, 64), np.uint32))
    for t, words in enumerate(x):
        expected = [e % 2**32 for e in expected_intrinsics(*(int(w) for w in words))]
        assert got[:, t].tolist() == expected, [hex(w) for w in words]


@pytest.mark.approximate
def test_functions_of_doubles(device: Device, module: LoadedModule) -> None:
    """CUDA's functions of doubles have errors of at most two units in the last place.

    Reciprocal, square root, remainder and quotient even equal the host's results bit for bit.
    """
    x = np.array([0.1, -0.5, 1.0, 2.5, -7.25, 100.0, 1e-3, 1e4, -1e5, 3.0, 0.7, 1e-300])
    y = device.put(np.zeros((13, len(x))))
    arguments = [pointer(y), pointer(device.put(x))]
    device.launch(module, "doubles", arguments, block=(len(x), 1, 1))
    got = device.get(y, np.zeros((13, len(x))))
    with np.errstate(all="ignore"):
        erf = np.array([math.erf(v) for v in x])
        expected = [np.sin(x), np.cos(x), np.exp(x), np.log(np.abs(x)), np.abs(x) ** 0.3, 1 / x]
        expected += [np.sqrt(np.abs(x)), 1 / np.sqrt(np.abs(x)), np.cbrt(x), np.tanh(x), erf]
        expected += [np.fmod(x, 0.7), x / 3.1]
    for row, (values, right) in enumerate(zip(got, expected, strict=True)):
        close = np.isclose(values, right, rtol=2 * 2.0**-52, atol=0) | (values == right)
        assert close.all(), (row, x[~close], values[~close], right[~close])
    for exact in (5, 6, 11, 12):
        assert np.array_equal(bits(got[exact]), bits(np.asarray(expected[exact])))


@pytest.mark.approximate
def test_functions_of_floats(device: Device, module: LoadedModule) -> None:
    """CUDA's approximate float functions err at most as the CUDA Programming Guide states."""
    x = np.array([0.1, -0.5, 1.0, 2.5, -3.0, 0.7, 1e-3, 3.1], np.float32)
    y = device.put(np.zeros((14, len(x)), np.float32))
    arguments = [pointer(y), pointer(device.put(x))]
    device.launch(module, "singles", arguments, block=(len(x), 1, 1))
    got = device.get(y, np.zeros((14, len(x)), np.float32)).astype(np.float64)
    v = x.astype(np.float64)
    big = (x * np.float32(1e5)).astype(np.float64)
    magnitude = np.abs(v)
    cases: list[tuple[Array, float, float]] = [
        (np.sin(v), 0, 2**-20.5),
        (np.cos(v), 0, 2**-20.5),
        (np.exp(v), 1e-6, 0),
        (np.log(magnitude), 1e-6, 2**-21.4),
        (1 / np.sqrt(magnitude), 2**-22.4, 0),
        (v / float(np.float32(3.1)), 2**-22, 0),
        (1 / v, 2**-24, 0),
        (np.tanh(v), 2**-10.9, 0),
        (np.sqrt(magnitude), 2**-24, 0),
        (np.clip(v, 0, 1), 0, 0),
        (magnitude**1.5, 2e-6, 0),
        (np.sin(big), 2**-22, 2**-24),
        (np.exp(v), 2**-22, 0),
        (np.tanh(v), 2**-22, 0),
    ]
    for row, (right, relative, absolute) in enumerate(cases):
        wrong = np.abs(got[row] - right) > np.abs(right) * relative + absolute
        assert not wrong.any(), (row, x[wrong], got[row][wrong], right[wrong])


def test_ways_to_load_and_store(device: Device, module: LoadedModule) -> None:
    """Cache hints, memory orders and scopes of a load or store do not change the values."""
    x = np.arange(32, dtype=np.int32)
    y, z = device.put(np.zeros(32, np.int32)), device.put(np.zeros(128, np.int32))
    arguments = [pointer(y), pointer(device.put(x)), pointer(z)]
    result = device.launch(module, "loads", arguments)
    assert result.findings == ()
    assert np.array_equal(device.get(y, x), 11 * x)
    assert np.array_equal(device.get(z, np.zeros(128, np.int32)), np.tile(11 * x, 4))


def test_questions_about_addresses(device: Device, module: LoadedModule) -> None:
    """`isspacep` assigns every generic address to exactly one state space."""
    y = device.put(np.zeros(33, np.int32))
    arguments = [pointer(y), pointer(device.put(np.zeros(1, np.int32)))]
    device.launch(module, "spaces", arguments, block=(33, 1, 1))
    assert device.get(y, np.zeros(33, np.int32)).tolist() == [1, 2, 4] * 11


U32 = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678], np.uint32)


@pytest.mark.parametrize("borrow", [0, 1])
def test_borrow(device: Device, borrow: int) -> None:
    """`subc.cc` also subtracts the borrow that an earlier `sub.cc` left.

    `subc.cc` sets the carry flag exactly if its own subtraction does not borrow.
    """
    a, b = (m.ravel() for m in np.meshgrid(U32, U32))
    text = f"sub.cc.u32 %t, 0, {borrow}; subc.cc.u32 %d, %a, %b; addc.u32 %u, 0, 0; "
    text += "shl.b32 %u, %u, 4; xor.b32 %d, %d, %u"
    got = device.evaluate(text, a, b, out=np.zeros(len(a), np.uint32))
    for x, y, r in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        difference = x - y - borrow
        assert r == difference % 2**32 ^ (16 if difference >= 0 else 0)


def test_multiply_add_with_carry(device: Device) -> None:
    """`mad.lo.cc` and `madc.hi.cc` set the carry flag; `madc` and `addc` add it."""
    a, b = (m.ravel() for m in np.meshgrid(U32, U32))
    text = "mad.lo.cc.u32 %t, %a, %b, %a; madc.hi.cc.u32 %u, %a, %b, %b; addc.u32 %d, 0, 0; "
    text += "xor.b32 %d, %d, %t; xor.b32 %d, %d, %u"
    got = device.evaluate(text, a, b, out=np.zeros(len(a), np.uint32))
    for x, y, r in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        total = x * y + x + (y << 32)
        assert r == (total >> 64) ^ (total % 2**32) ^ (total >> 32) % 2**32


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    "instruction",
    [
        "vadd.u32.u32.u32 %d, %a, %a",
        "add.sat.s16x2 %d, %a, %a",
        "dp4a.u16.u32 %d, %a, %a, %a",
        "vabsdiff2.u32.u32.u32 %d, %a, %a, %a",
        "atom.global.add.b128 %d, [%at], %a",
        "atom.global.cas.b128 %d, [%at], %a, %a",
        "alloca.u64 %at, 16",
        "setp.eq.u32 %pd|%pa, %a, %a, %a, %a",
    ],
)
def test_what_is_missing_is_named(device: Device, instruction: str) -> None:
    """An instruction that the simulator lacks raises an error that quotes the instruction.

    Examples are video instructions, which nvcc never emits, and forms that PTX does not have.
    """
    with pytest.raises(UnsupportedInstruction) as caught:
        device.evaluate(instruction, U32, out=U32)
    assert caught.value.instruction == instruction
