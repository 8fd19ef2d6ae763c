"""wmma through the C++ interface of <mma.h>."""

from pathlib import Path

import numpy as np
import pytest

from harness.simulator.instructions.narrow import f32_to_bf16
from tests.simulator.conftest import Compile
from tests.simulator.support import Array, Device, pointer

KERNELS = {
    "f16_rc": ("f16", np.float32, (16, 16, 16), "rc"),
    "f16_cr": ("f16", np.float32, (16, 16, 16), "cr"),
    "f16_tall": ("f16", np.float32, (32, 8, 16), "rr"),
    "f16_wide": ("f16", np.float32, (8, 32, 16), "cc"),
    "f16_half": ("f16", np.float16, (16, 16, 16), "rr"),
    "bf16_rr": ("bf16", np.float32, (16, 16, 16), "rr"),
    "bf16_wide": ("bf16", np.float32, (8, 32, 16), "rc"),
    "tf32_rc": ("f32", np.float32, (16, 16, 8), "rc"),
    "tf32_cr": ("f32", np.float32, (16, 16, 8), "cr"),
    "s8_rc": ("s8", np.int32, (16, 16, 16), "rc"),
    "u8_cr": ("u8", np.int32, (16, 16, 16), "cr"),
    "s8_tall": ("s8", np.int32, (32, 8, 16), "rc"),
    "f64_rc": ("f64", np.float64, (8, 8, 4), "rc"),
}


def stored(values: Array, kind: str) -> Array:
    """Return integers as array elements of format `kind`, for device memory."""
    if kind == "bf16":
        return f32_to_bf16(values.astype(np.float32))
    names = {"f16": "f2", "f32": "f4", "f64": "f8", "s8": "i1", "u8": "u1"}
    return values.astype(names[kind])


@pytest.mark.parametrize("name", KERNELS)
def test_wmma(device: Device, compile_ptx: Compile, name: str) -> None:
    """`wmma` gives exact results for every type, shape and layout.

    Each kernel loads fragments, multiplies them, changes the sums element by element, and stores
    them.
    """
    kind, sum_type, (m, n, k), layout = KERNELS[name]
    module = device.machine.load(
        compile_ptx(Path(__file__).with_name("wmma.cu"), architecture="80")
    )
    rng = np.random.default_rng(5)
    low = 0 if kind == "u8" else -8
    a, b = rng.integers(low, 9, (m, k)), rng.integers(low, 9, (k, n))
    c = rng.integers(-50, 50, (m, n))
    in_memory = [
        stored(a if layout[0] == "r" else a.T, kind),
        stored(b if layout[1] == "r" else b.T, kind),
        (c if layout[0] == "r" else c.T).astype(sum_type),
    ]
    target = device.put(np.zeros((m, n), sum_type))
    arguments = [pointer(target), *(pointer(device.put(x)) for x in in_memory)]
    (mangled,) = (x for x in module.kernels if x.startswith(f"_Z{len(name)}{name}P"))
    result = device.machine.launch(module, mangled, (1, 1, 1), (32, 1, 1), 0, arguments)
    assert result.findings == ()
    assert np.array_equal(device.get(target, np.zeros((m, n), sum_type)), 2 * (a @ b + c))


@pytest.mark.simulator_only
def test_wmma_checks_what_it_reads(device: Device, compile_ptx: Compile) -> None:
    """A wmma load past the end of a matrix in memory is a memcheck finding."""
    module = device.machine.load(
        compile_ptx(Path(__file__).with_name("wmma.cu"), architecture="80")
    )
    a = device.put(np.zeros((15, 16), np.float16))
    b = device.put(np.zeros((16, 16), np.float16))
    c = device.put(np.zeros((16, 16), np.float32))
    (name,) = (x for x in module.kernels if "6f16_rc" in x)
    arguments = [pointer(c), pointer(a), pointer(b), pointer(c)]
    result = device.machine.launch(module, name, (1, 1, 1), (32, 1, 1), 0, arguments)
    (finding,) = result.findings
    assert finding.check == "memcheck"
    assert finding.message == "2-byte load 2 bytes past the end of a 480-byte allocation"
    assert finding.file is not None
    assert finding.file.endswith("wmma.cu")


@pytest.mark.parametrize("shape", ["m32n8k16", "m8n32k16"])
@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("strides", [("", ", %s"), (", %s", "")])
def test_stride_that_is_left_out(
    device: Device, shape: str, layout: str, strides: tuple[str, str]
) -> None:
    """Without a stride, a matrix is contiguous in memory, in either layout."""
    rows, columns = (32, 8) if shape == "m32n8k16" else (8, 32)
    stride = columns if layout == "row" else rows
    registers = "{" + ", ".join(f"%f{i}" for i in range(8)) + "}"
    ptx = f""".version 9.0
    .target sm_90
    .address_size 64
    .visible .entry copy(.param .u64 to, .param .u64 from)
    {{
        .reg .b32 %s; .reg .b64 %to, %from; .reg .f32 %f<8>;
        mov.u32 %s, {stride};
        ld.param.u64 %to, [to]; ld.param.u64 %from, [from];
        wmma.load.c.sync.aligned.{layout}.{shape}.global.f32 {registers}, [%from]{strides[0]};
        wmma.store.d.sync.aligned.{layout}.{shape}.global.f32 [%to], {registers}{strides[1]};
        ret;
    }}
    """
    values: Array = np.arange(256, dtype=np.float32)
    source, target = device.put(values), device.put(np.zeros_like(values))
    assert device.run(ptx, [pointer(target), pointer(source)]).findings == ()
    assert np.array_equal(device.get(target, values), values)
