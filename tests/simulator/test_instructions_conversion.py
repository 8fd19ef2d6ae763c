"""The PTX instructions cvt and mov."""

import numpy as np
import pytest

from tests.simulator.support import Device, bits

EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e10, -1e10, 3e20, -3e20, np.inf, -np.inf]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", ["s32", "u32", "s64", "u64", "s16", "u8"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer(device: Device, source: str, target: str, mode: str) -> None:
    """`cvt` from float to integer rounds in its mode and clamps to the integer's range.

    NaN becomes 0. If either type has 64 bits, NaN becomes the integer with only the top bit set.
    """
    a = np.array([*EDGES, np.nan], f"f{int(source[1:]) // 8}")
    width = max(int(target[1:]), 16)
    out = np.zeros(len(a), f"{'i' if target[0] == 's' else 'u'}{width // 8}")
    got = device.evaluate(f"cvt.{mode}.{target}.{source} %d, %a", a, out=out)
    limits = np.iinfo(f"{'i' if target[0] == 's' else 'u'}{int(target[1:]) // 8}")
    operate = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    for value, result in zip(a.tolist()[:-1], got.tolist()[:-1], strict=True):
        whole = float(operate(value))
        if np.isinf(whole):
            expected = limits.max if whole > 0 else limits.min
        else:
            expected = min(max(int(whole), limits.min), limits.max)
        assert result == expected, value
    is_wide = source == "f64" or target in ("s64", "u64")
    middle = limits.min if target[0] == "s" else 1 << (int(target[1:]) - 1)
    assert got[-1] == (middle if is_wide else 0)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("rn", 2.0**24), ("rz", 2.0**24), ("rm", 2.0**24), ("rp", 2.0**24 + 2)],
)
def test_integer_to_float(device: Device, mode: str, expected: float) -> None:
    """`cvt` from s32 rounds an integer halfway between two float32 numbers as its mode requires."""
    a = np.array([2**24 + 1, -(2**24) - 1], np.int32)
    got = device.evaluate(f"cvt.{mode}.f32.s32 %d, %a", a, out=np.zeros(2, np.float32))
    assert got[0] == expected
    assert got[1] == {"rm": -(2.0**24) - 2}.get(mode, -(2.0**24))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_double_to_float(device: Device, mode: str) -> None:
    """`cvt` from float64 to float32 rounds once, as its mode requires."""
    ulp = 2.0**-23
    a = np.array([1 + 0.75 * ulp, -1 - 0.75 * ulp, 1 + 0.25 * ulp, 1e300], np.float64)
    got = device.evaluate(f"cvt.{mode}.f32.f64 %d, %a", a, out=np.zeros(4, np.float32))
    up, down = 1 + ulp, 1.0
    largest = float(np.finfo(np.float32).max)
    table: dict[str, list[float]] = {
        "rn": [up, -up, down, np.inf],
        "rz": [down, -down, down, largest],
        "rm": [down, -up, down, largest],
        "rp": [up, -down, up, np.inf],
    }
    assert got.tolist() == [float(e) for e in table[mode]]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("cvt.u32.u64", 0x1FFFFFFFF, 0xFFFFFFFF),
        ("cvt.s32.s8", 0x180, -128),
        ("cvt.u32.u8", 0x1FF, 0xFF),
        ("cvt.s32.s16", 0x18000, -32768),
        ("cvt.sat.s8.s32", 1000, 127),
        ("cvt.sat.s8.s32", -1000, -128),
        ("cvt.sat.u8.s32", -5, 0),
        ("cvt.s8.s32", 0x180, -128),
    ],
)
def test_integer_to_integer(device: Device, text: str, value: int, expected: int) -> None:
    """`cvt` between integers truncates, extends by sign or zero, or saturates with `.sat`."""
    source = np.array([value], np.int64 if text.endswith("64") else np.int32)
    got = device.evaluate(f"{text} %d, %a", source, out=np.zeros(1, np.int32))
    assert got[0] == np.array([expected]).astype(np.int32)[0]


def test_half_and_bfloat(device: Device) -> None:
    """`cvt` from f32 to f16 or bf16 rounds to nearest even; cvt back is exact."""
    a = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65520, 1e-8, -0.0, np.nan], np.float32)
    out = np.zeros(6, np.uint16)
    half = device.evaluate("cvt.rn.f16.f32 %d, %a", a, out=out)
    with np.errstate(over="ignore"):
        assert half[:5].tolist() == a.astype(np.float16).view(np.uint16)[:5].tolist()
    assert half[5] == 0x7FFF
    back = device.evaluate("cvt.f32.f16 %d, %a", half, out=a)
    assert bits(back)[:5].tolist() == bits(half.view(np.float16).astype(np.float32))[:5].tolist()
    b = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, 1, -0.0, np.nan], np.float32)
    brain = device.evaluate("cvt.rn.bf16.f32 %d, %a", b, out=out)
    assert brain.tolist() == [0x3F80, 0x3F82, 0x7F80, 0x3F80, 0x8000, 0x7FFF]
    back = device.evaluate("cvt.f32.bf16 %d, %a", brain, out=a)
    assert bits(back)[:5].tolist() == [int(v) << 16 for v in brain[:5]]


def test_rounding_to_integral_floats(device: Device) -> None:
    """`cvt` that rounds to an integral float keeps the type and the sign of zero."""
    a = np.array([-0.5, 0.5, 2.5, -2.5], np.float32)
    for mode, operate in (("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil), ("rzi", np.trunc)):
        got = device.evaluate(f"cvt.{mode}.f32.f32 %d, %a", a, out=a)
        assert bits(got).tolist() == bits(operate(a)).tolist()


def test_packing_and_unpacking(device: Device) -> None:
    """`mov` packs two values into a 64-bit register and unpacks them, low half first."""
    a = np.array([0x1122334455667788], np.uint64)
    text = "{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %a; mov.b64 %d, {hi, lo}; }"
    got = device.evaluate(text, a, out=a)
    assert got[0] == 0x5566778811223344
