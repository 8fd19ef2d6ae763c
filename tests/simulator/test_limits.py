"""Occupancy, register counts, and the limits beyond which a launch is refused."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from harness.compiler.cache import Cache
from harness.compiler.compiler import Compiler
from harness.compiler.toolchain import find_c_compiler, find_cuda_compiler, find_toolchain
from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.limits import (
    LaunchBounds,
    LaunchLimits,
    LaunchRequest,
    RefusedLaunch,
    check_launch,
    max_threads,
)
from harness.simulator.hardware.resources import (
    MULTIPROCESSORS,
    Resources,
    occupancy,
    parse_usage,
    resource_usage,
)
from harness.simulator.ptx.fatbinary import device_code_of
from harness.simulator.ptx.ptx import Function

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("occupancy.c")


@pytest.fixture(scope="module")
def nvidias(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a program that computes occupancy with NVIDIA's cuda_occupancy.h."""
    program = tmp_path_factory.mktemp("occupancy") / "occupancy"
    include = find_cuda_compiler().include
    subprocess.run(
        [find_c_compiler().path, "-w", f"-I{include}", SOURCE, "-o", program], check=True
    )
    return program


@pytest.mark.parametrize("architecture", MULTIPROCESSORS)
def test_occupancy_is_nvidias(nvidias: Path, architecture: str) -> None:
    """Blocks per multiprocessor equal those that NVIDIA's header computes.

    This holds for many combinations of registers, shared memory and threads.
    """
    limits = MULTIPROCESSORS[architecture]
    registers = (0, 16, 33, 40, 63, 64, 72, 100, 128, 168, 255)
    shared = ((0, 0), (1, 0), (4096, 1000), (0, 48 << 10), (1024, limits.shared_bytes - 2048))
    threads = (1, 32, 33, 96, 128, 200, 256, 384, 640, 992, 1024)
    asked = list(itertools.product(registers, shared, threads))
    lines = "".join(f"{r} {fixed} {dynamic} {t}\n" for r, (fixed, dynamic), t in asked)
    most = limits.warps * 32, limits.shared_bytes
    command = [str(nvidias), architecture[0], architecture[1], *map(str, most)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    ours = [occupancy(r, sum(both), t, architecture).blocks for r, both, t in asked]
    assert ours == list(map(int, done.stdout.split()))


KERNEL = """
__global__ void many(float* y, int n) {
  float values[100];
#pragma unroll
  for (int i = 0; i < 100; ++i) values[i] = y[i * n];
  for (int round = 0; round < n; ++round)
#pragma unroll
    for (int i = 0; i < 100; ++i) values[i] = values[i] * values[(i + 37) % 100] + round;
#pragma unroll
  for (int i = 0; i < 100; ++i) y[i * n + threadIdx.x] = values[i];
}
"""


@pytest.mark.parametrize(("options", "most"), [((), 255), (("-maxrregcount=40",), 40)])
def test_registers_are_ptxass(tmp_path: Path, options: tuple[str, ...], most: int) -> None:
    """Register counts come from ptxas, run with the options that the submission passed to nvcc.

    nvcc stores these options in the fat binary.
    """
    compiler = find_cuda_compiler()
    (tmp_path / "many.cu").write_text(KERNEL)
    virtual = "-gencode=arch=compute_90,code=compute_90"
    command = [str(compiler.nvcc), "-fatbin", virtual, "-no-compress", *options, "many.cu"]
    subprocess.run(command, check=True, cwd=tmp_path)
    code = device_code_of((tmp_path / "many.fatbin").read_bytes())
    assert code.options == options
    said = resource_usage(compiler, Compiler(find_toolchain()), Cache(tmp_path / "cache"), code)
    (resources,) = parse_usage(said).values()
    assert most - 130 < resources.registers <= most
    assert (resources.spill_store_bytes > 0) is bool(options)


def limits(registers: int = 32, shared: int = 0, **bounds: object) -> LaunchLimits:
    """Return the limits of a kernel with these registers a thread and bytes of shared memory.

    `bounds` are fields of `LaunchBounds`.
    """
    resources = Resources(registers, 0, 0, 0, shared)
    return LaunchLimits("k", LaunchBounds(**bounds), lambda: resources, lambda: shared)  # type: ignore[arg-type]


def request(threads: int, *, blocks: int = 1, cooperative: bool = False) -> LaunchRequest:
    """Return a request to launch `blocks` blocks of `threads` threads, all along x."""
    return LaunchRequest((blocks, 1, 1), (threads, 1, 1), 0, None, cooperative)


@pytest.mark.parametrize(
    ("kernel", "launch", "error", "words"),
    [
        (
            limits(registers=65),
            request(1024),
            CudaError.LAUNCH_OUT_OF_RESOURCES,
            "k: a block of 1024 threads with 65 registers each, more than the "
            "65536 registers of a multiprocessor",
        ),
        (
            limits(max_threads=64),
            request(65),
            CudaError.INVALID_VALUE,
            "k: 65 threads in a block, but its __launch_bounds__ allow 64",
        ),
        (
            limits(required=(64, 1, 1)),
            request(32),
            CudaError.INVALID_VALUE,
            "k: a block of 32 x 1 x 1, but it is compiled only for blocks of 64 x 1 x 1",
        ),
        (
            limits(),
            LaunchRequest((1, 1, 1), (64, 4, 5), 0, None, False),
            CudaError.INVALID_VALUE,
            "k: 1280 threads in a block; at most 1024 are allowed",
        ),
        (
            limits(shared=3000),
            LaunchRequest((1, 1, 1), (32, 1, 1), 47000, None, False),
            CudaError.INVALID_VALUE,
            "k: 47000 bytes of dynamic shared memory and 3000 of static, more than 49152; allow "
            "more with cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)",
        ),
        (
            limits(registers=64),
            request(1024, blocks=133, cooperative=True),
            CudaError.COOPERATIVE_LAUNCH_TOO_LARGE,
            "k: 133 blocks in a cooperative launch, but the device holds only 132 at a time",
        ),
    ],
)
def test_refusals(
    kernel: LaunchLimits, launch: LaunchRequest, error: CudaError, words: str
) -> None:
    """A refused launch has CUDA's error, and a message with the requested value and the limit."""
    with pytest.raises(RefusedLaunch) as caught:
        check_launch(kernel, launch)
    assert (caught.value.error, str(caught.value)) == (error, words)


@pytest.mark.parametrize(
    ("kernel", "launch"),
    [
        (limits(registers=64), request(1024)),
        (limits(registers=255), request(256)),
        (limits(max_threads=64), request(64)),
        (limits(registers=64), request(1024, blocks=132, cooperative=True)),
        (limits(registers=64), request(1024, blocks=1000)),
        (limits(shared=3000), LaunchRequest((1, 1, 1), (32, 1, 1), 60000, 60000, False)),
    ],
)
def test_what_just_fits_is_launched(kernel: LaunchLimits, launch: LaunchRequest) -> None:
    """A launch that is exactly at a limit is accepted."""
    check_launch(kernel, launch)


def test_bounds_are_read_from_directives() -> None:
    """`.maxntid` limits the threads of a block; `.reqntid` requires exact block dimensions."""
    directives = (".maxntid 32, 8, 2", ".reqntid 16", ".minnctapersm 2")
    kernel = Function("k", True, (), (), {}, {}, (), (), {}, directives)
    assert LaunchBounds.of(kernel) == LaunchBounds(512, (16, 1, 1))
    assert max_threads(limits(registers=168, max_threads=512)) == 384
