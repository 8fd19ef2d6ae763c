"""Integer PTX instructions, compared with results from Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.support import Device

AWKWARD = [0, 1, 2, 3, 7, 31, 32, 33, 100, 0x7FFF, 0x8000, 0xFFFF, 0x12345678, 0x7FFFFFFF]
AWKWARD += [0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF]
WIDE = [*AWKWARD, 1 << 32, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0xFEDCBA9876543210]


def signed(value: int, width: int) -> int:
    """Return the low `width` bits of a value as a two's complement number."""
    value %= 1 << width
    return value - (1 << width) if value >> (width - 1) else value


def truncated(a: int, b: int) -> int:
    """Return the quotient of a and b, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def divided(a: int, b: int) -> int:
    """Return the quotient rounded towards zero, as in C; -1 (all bits set) for a zero divisor."""
    return -1 if b == 0 else truncated(a, b)


def remainder(a: int, b: int) -> int:
    """Return C's remainder, with the sign of `a`; -1 (all bits set) for a zero divisor."""
    return -1 if b == 0 else a - b * truncated(a, b)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": divided,
    "rem": remainder,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", [*BINARY, "mul.hi"])
def test_binary(device: Device, name: str, kind: str) -> None:
    """Integer instructions with two operands wrap around and respect signs at every width.

    Division by zero gives what a GPU gives.
    """
    width = int(kind[1:])
    dtype = np.dtype(f"u{width // 8}")
    values = [v % (1 << width) for v in (WIDE if width == 64 else AWKWARD)]
    a = np.array([x for x in values for _ in values], dtype)
    b = np.array([y for _ in values for y in values], dtype)
    got = device.evaluate(f"{name}.{kind} %d, %a, %b", a, b, out=a)
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        if kind[0] == "s":
            x, y = signed(x, width), signed(y, width)
        expected = x * y >> width if name == "mul.hi" else BINARY[name](x, y)
        assert result == expected % (1 << width), (name, kind, x, y)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(device: Device, kind: str) -> None:
    """mul.wide and mad.wide keep every bit of the product."""
    width = int(kind[1:])
    values = [v % (1 << width) for v in AWKWARD]
    a = np.array([x for x in values for _ in values], f"u{width // 8}")
    b = np.array([y for _ in values for y in values], f"u{width // 8}")
    c = np.arange(len(a), dtype=f"u{width // 4}") << np.uint8(width)
    got = device.evaluate(f"mul.wide.{kind} %d, %a, %b", a, b, out=c)
    more = device.evaluate(f"mad.wide.{kind} %d, %a, %b, %c", a, b, c, out=c)
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if kind[0] == "s":
            x, y = signed(x, width), signed(y, width)
        assert got[i] == x * y % (1 << 2 * width)
        assert more[i] == (x * y + int(c[i])) % (1 << 2 * width)


@pytest.mark.parametrize(
    ("direction", "kind"),
    [(d, f"b{w}") for d in ("shl", "shr") for w in (16, 32, 64)]
    + [("shr", f"{s}{w}") for s in "su" for w in (16, 32, 64)],
)
def test_shifts(device: Device, direction: str, kind: str) -> None:
    """`shl` and `shr` by at least the width leave only zeros, or only sign bits if signed."""
    width = int(kind[1:])
    values = [0, 1, 0x8001, 0xFFFF, (1 << width) - 1, 1 << (width - 1), 0x5A5A]
    amounts = [0, 1, 7, width - 1, width, width + 1, 255, 65536, 1 << 31, (1 << 32) - 1]
    a = np.array([x for x in values for _ in amounts], f"u{width // 8}")
    b = np.array([y for _ in values for y in amounts], np.uint32)
    got = device.evaluate(f"{direction}.{kind} %d, %a, %b", a, b, out=a)
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        y = min(y, width)
        value = signed(x, width) if kind[0] == "s" else x
        expected = value << y if direction == "shl" else value >> y
        assert result == expected % (1 << width), (direction, kind, x, y)


@pytest.mark.parametrize("width", [32, 64])
def test_counting_bits(device: Device, width: int) -> None:
    """`popc`, `clz`, `brev` and `bfind` are right for 32 and 64 bits, also for zero."""
    values = [v % (1 << width) for v in WIDE]
    a = np.array(values, f"u{width // 8}")
    narrow = np.zeros(len(a), np.uint32)

    def evaluate(text: str, out: np.ndarray) -> list[int]:
        return list(device.evaluate(text, a, out=out).tolist())

    assert evaluate(f"popc.b{width} %d, %a", narrow) == [v.bit_count() for v in values]
    assert evaluate(f"clz.b{width} %d, %a", narrow) == [width - v.bit_length() for v in values]
    reverse = [int(f"{v:0{width}b}"[::-1], 2) for v in values]
    assert evaluate(f"brev.b{width} %d, %a", a) == reverse
    highest = [(v.bit_length() - 1) % (1 << 32) for v in values]
    assert evaluate(f"bfind.u{width} %d, %a", narrow) == highest
    magnitudes = [~signed(v, width) if signed(v, width) < 0 else v for v in values]
    highest = [(m.bit_length() - 1) % (1 << 32) for m in magnitudes]
    assert evaluate(f"bfind.s{width} %d, %a", narrow) == highest
    shift = [width - v.bit_length() if v else 0xFFFFFFFF for v in values]
    assert evaluate(f"bfind.shiftamt.u{width} %d, %a", narrow) == shift


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(device: Device, kind: str) -> None:
    """`bfe` and `bfi` follow the PTX manual, also for bit fields that reach beyond the top bit.

    The 32-bit forms take positions and lengths modulo 256. The 64-bit forms do not on sm_90.
    """
    width = int(kind[1:])
    cases = [
        (v % (1 << width), start, length)
        for v in (0x8765432187654321, 0x7FFFFFFF0000FFFF, (1 << 64) - 1)
        for start in (0, 4, 31, width - 1, width, 255, *([256] if width == 32 else []))
        for length in (0, 1, 8, 32, width, 255)
    ]
    a = np.array([c[0] for c in cases], f"u{width // 8}")
    b = np.array([c[1] for c in cases], np.uint32)
    c = np.array([c[2] for c in cases], np.uint32)
    got = device.evaluate(f"bfe.{kind} %d, %a, %b, %c", a, b, c, out=a)
    into = np.full(len(cases), 0xA5A5A5A5A5A5A5A5 % (1 << width), a.dtype)
    inserted = device.evaluate(f"bfi.b{width} %d, %a, %e, %b, %c", a, b, c, into, out=a)
    for i, (value, start, length) in enumerate(cases):
        start, length, top = start & 255, length & 255, width - 1
        is_unsigned = kind[0] == "u" or length == 0
        sign = 0 if is_unsigned else value >> min(start + length - 1, top) & 1
        extracted, combined = 0, int(into[i])
        for j in range(width):
            bit = value >> (start + j) & 1 if j < length and start + j <= top else sign
            extracted |= bit << j
        for j in range(min(length, max(width - start, 0))):
            combined = combined & ~(1 << (start + j)) | (value >> j & 1) << (start + j)
        assert got[i] == extracted, (kind, hex(value), start, length)
        assert inserted[i] == combined, (kind, hex(value), start, length)


def test_permutations_and_logic(device: Device) -> None:
    """`prmt`, `lop3` and `shf` give the results that the PTX manual defines."""
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 1 << 32, (3, 200), np.uint32)
    got = device.evaluate("prmt.b32 %d, %a, %b, %c", a, b, c, out=a)
    lop = device.evaluate("lop3.b32 %d, %a, %b, %c, 0x6A", a, b, c, out=a)
    left = device.evaluate("shf.l.wrap.b32 %d, %a, %b, %c", a, b, c, out=a)
    right = device.evaluate("shf.r.clamp.b32 %d, %a, %b, %c", a, b, c % 40, out=a)
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        both = (y << 32 | x).to_bytes(8, "little")
        octets = []
        for position in range(4):
            control = z >> 4 * position & 15
            octet = both[control & 7]
            octets.append((255 if octet & 128 else 0) if control & 8 else octet)
        assert got[i] == int.from_bytes(octets, "little")
        assert lop[i] == (z ^ (x & y))
        assert left[i] == ((y << 32 | x) << (z & 31) >> 32) & 0xFFFFFFFF
        assert right[i] == ((y << 32 | x) >> min(z % 40, 32)) & 0xFFFFFFFF


def test_saturation_24_bits_and_sad(device: Device) -> None:
    """add.sat, sub.sat, mul24 and sad are right for operands at their limits."""
    a = np.array([2**31 - 1, -(2**31), 5, -1], np.int32)
    b = np.array([1, -1, 6, 2**31 - 1], np.int32)
    got = device.evaluate("add.sat.s32 %d, %a, %b", a, b, out=a)
    assert got.tolist() == [2**31 - 1, -(2**31), 11, 2**31 - 2]
    got = device.evaluate("sub.sat.s32 %d, %a, %b", a, b, out=a)
    assert got.tolist() == [2**31 - 2, -(2**31) + 1, -1, -(2**31)]
    x = np.array([0x00FFFFFF, 0x12800001], np.int32)
    got = device.evaluate("mul24.lo.s32 %d, %a, %b", x, x, out=x)
    assert got.tolist() == [1, signed((0x800001 - (1 << 24)) ** 2, 32)]
    got = device.evaluate("sad.s32 %d, %a, %b, 10", a, b, out=a)
    assert got.tolist() == [
        signed(abs(i - j) + 10, 32) for i, j in zip(a.tolist(), b.tolist(), strict=True)
    ]


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
def test_comparisons_combine_with_a_predicate(device: Device, combine: str) -> None:
    """`setp` with `and`, `or` or `xor` combines a comparison with a predicate.

    Its second result combines the opposite comparison with the same predicate.
    """
    a = np.array([1, 2, 1, 2], np.int32)
    b = np.array([2, 1, 2, 1], np.int32)
    c = np.array([0, 0, 1, 1], np.int32)
    text = (
        "setp.ne.s32 %pa, %c, 0; "
        f"setp.lt.{combine}.s32 %pb|%pd, %a, %b, %pa; "
        "selp.b32 %d, 1, 0, %pb; @%pd add.s32 %d, %d, 2"
    )
    got = device.evaluate(text, a, b, c, out=a)
    operate = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[combine]
    expected = operate(a < b, c != 0) + 2 * operate(a >= b, c != 0)
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["lo", "ls", "hi", "hs", "lt", "le", "gt", "ge", "eq", "ne"])
def test_unsigned_comparisons(device: Device, name: str) -> None:
    """`setp` on u32 compares unsigned numbers, also if the comparison is named `lt` to `ge`."""
    a = np.array([0, 1, 0xFFFFFFFF, 0x80000000], np.uint32).repeat(4)
    b = np.tile(np.array([0, 1, 0xFFFFFFFF, 0x80000000], np.uint32), 4)
    got = device.evaluate(f"setp.{name}.u32 %pa, %a, %b; selp.b32 %d, 1, 0, %pa", a, b, out=a)
    plain = {"lo": "less", "ls": "less_equal", "hi": "greater", "hs": "greater_equal"}
    plain |= {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
    plain |= {"eq": "equal", "ne": "not_equal"}
    assert got.tolist() == getattr(np, plain[name])(a, b).astype(int).tolist()
