"""Matrix products as submissions write them, for the tensor cores of Ampere and Hopper."""

from pathlib import Path

import numpy as np
import pytest

from harness.finding import Finding
from harness.simulator.execution.machine import LoadedModule
from tests.simulator.conftest import Compile
from tests.simulator.support import Array, Device, int32, pointer
from tests.simulator.test_async import encode

SOURCE = Path(__file__).with_name("gemm.cu")
TF32_SHARED = 3 * 4 * (64 * 20 + 16 * 72)
HOPPER_SHARED = 3 * 2 * 64 * 64 * 2
FLOAT16 = 6


def run_tf32(device: Device, ptx: str, kernel: str, m: int, n: int, k: int) -> tuple[Array, ...]:
    """Run a tf32 kernel; return the product, A, B, and the names of the checks of all findings."""
    rng = np.random.default_rng(m)
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    target = device.put(np.zeros((m, n), np.float32))
    pointers = [pointer(p) for p in (target, device.put(a), device.put(b))]
    result = device.launch(
        device.machine.load(ptx),
        f"9{kernel}" if kernel == "gemm_tf32" else kernel,
        [*pointers, int32(m), int32(n), int32(k)],
        grid=(-(-n // 64), -(-m // 64), 1),
        block=(128, 1, 1),
        dynamic_shared_bytes=TF32_SHARED,
    )
    checks = np.array([f.check for f in result.findings])
    return device.get(target, np.zeros((m, n), np.float32)), a, b, checks


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 16), (128, 192, 64), (100, 72, 52)])
def test_cp_async_ldmatrix_and_mma(
    device: Device, compile_ptx: Compile, m: int, n: int, k: int
) -> None:
    """A tf32 product with cp.async, ldmatrix and mma is as precise as tf32, without a finding.

    This includes partial tiles at the edges of the matrices.
    """
    c, a, b, checks = run_tf32(device, compile_ptx(SOURCE, architecture="80"), "gemm_tf32", m, n, k)
    assert not len(checks)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = (2 * 2.0**-11 + (k + 2) * 2.0**-23) * (np.abs(wide_a) @ np.abs(wide_b))
    error = np.abs(c - wide_a @ wide_b)
    assert (error <= bound).all()
    assert error.max() > 0


@pytest.mark.simulator_only
def test_a_pipeline_without_its_wait(device: Device, compile_ptx: Compile) -> None:
    """If cp.async.wait_group is missing, the copies race with the reads of the copied data."""
    *_, checks = run_tf32(
        device, compile_ptx(SOURCE, architecture="80"), "gemm_forgets", 64, 64, 64
    )
    assert set(checks) == {"racecheck"}


@pytest.fixture
def hopper(device: Device, compile_ptx: Compile) -> LoadedModule:
    return device.machine.load(compile_ptx(SOURCE, "-DHOPPER", architecture="90a"))


def run_hopper(
    device: Device, module: LoadedModule, kernel: str, m: int, n: int, k: int
) -> tuple[Array, Array, tuple[Finding, ...]]:
    """Multiply matrices of f16 integers; return the product, the expected one, and the findings."""
    rng = np.random.default_rng(n)
    a = rng.integers(-8, 9, (m, k)).astype(np.float16)
    b = rng.integers(-8, 9, (n, k)).astype(np.float16)
    maps = [
        encode(device, FLOAT16, device.put(x), (k, len(x)), 2 * k, (64, 64), swizzle=3)
        for x in (a, b)
    ]
    target = device.put(np.zeros((m, n), np.float32))
    threads, rows = (256, 64) if kernel == "gemm_wgmma" else (384, 128)
    result = device.launch(
        module,
        kernel,
        [pointer(target), *maps, int32(n), int32(k)],
        grid=(n // 64, m // rows, 1),
        block=(threads, 1, 1),
        dynamic_shared_bytes=HOPPER_SHARED * (1 + rows // 64) // 2,
    )
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    return device.get(target, np.zeros((m, n), np.float32)), expected, result.findings


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (128, 192, 320)])
def test_tma_mbarrier_and_wgmma(
    device: Device, hopper: LoadedModule, m: int, n: int, k: int
) -> None:
    """A warp-specialised kernel with a ring of TMA tiles and wgmma computes an exact product."""
    product, expected, findings = run_hopper(device, hopper, "gemm_wgmma", m, n, k)
    assert findings == ()
    assert np.array_equal(product, expected)


def test_warpgroups_that_share_tiles(device: Device, hopper: LoadedModule) -> None:
    """One thread of a warpgroup may release a tile after the warpgroup has waited for its wgmmas.

    The thread releases the tile by arriving at an mbarrier. The arrival orders the wgmmas before
    the next copy into the tile, so no race is reported.
    """
    product, expected, findings = run_hopper(device, hopper, "gemm_two_groups", 256, 128, 320)
    assert findings == ()
    assert np.array_equal(product, expected)


@pytest.mark.simulator_only
def test_a_slot_that_is_freed_too_early(device: Device, hopper: LoadedModule) -> None:
    """If a ring slot is released before the wgmmas that read it have ended, there is a race.

    The next copy into the slot races with these wgmmas.
    """
    *_, findings = run_hopper(device, hopper, "gemm_frees_early", 128, 64, 320)
    assert {(f.check, f.severity) for f in findings} == {("racecheck", "error")}
    assert all(
        "asynchronous copy at gemm.cu:" in f.message
        and f.message.endswith("no wait for the wgmma between them")
        for f in findings
    )
