"""Fixtures of the simulator's tests: its C library, a device, and a function that runs nvcc."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

from harness.compiler.cache import Cache, Product, default_root, digest
from harness.compiler.toolchain import find_toolchain
from harness.simulator.execution.machine import Machine
from harness.simulator.hardware.memory import Memory
from harness.simulator.native.library import build_machine_library
from tests.simulator import recorder
from tests.simulator.gpu import Driver, GpuError, GpuMachine
from tests.simulator.recorder import Recording
from tests.simulator.support import Device


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """Return the C library that `Machine` calls; compile it again if its sources have changed."""
    return ctypes.CDLL(str(build_machine_library(Cache(default_root()))))


@pytest.fixture
def memory(library: ctypes.CDLL) -> Memory:
    return Memory(library)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `simulator_only` when results are recorded on a GPU."""
    if "HARNESS_RECORD_GPU" in os.environ:
        reason = "about what only the simulator says or refuses"
        for item in items:
            if item.get_closest_marker("simulator_only") is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


CALL = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store the report of a test's call phase, so that fixtures can read it at teardown."""
    report = yield
    if report.when == "call":
        item.stash[CALL] = report
    return report


@pytest.fixture(scope="session")
def recording() -> Iterator[Recording | None]:
    """Yield the recording session if a GPU's results are being recorded, else None.

    The environment variable `HARNESS_RECORD_GPU` names the folder for the recorded results.
    """
    target = os.environ.get("HARNESS_RECORD_GPU")
    if target is None:
        yield None
        return
    yield Recording(Driver(), Path(target))


@pytest.fixture
def device(
    request: pytest.FixtureRequest, memory: Memory, recording: Recording | None
) -> Iterator[Device]:
    """Yield the simulated device, or the GPU if its results are being recorded.

    If a GPU's results for this test were recorded before, the simulated device must give equal
    results. They are compared only after the test has passed, so that a failed test reports only
    its own failure.
    """
    name = request.node.nodeid
    if recording is None:
        simulated = Device(Machine(memory))
        yield simulated
        recorded = recorder.read().get(name)
        needs_it = request.node.get_closest_marker("recorded") is not None
        assert recorded is not None or not needs_it, f"{name}: no GPU's results are recorded"
        if recorded is not None and _has_passed(request):
            difference = recorder.difference(simulated.recorder.digests, recorded)
            assert difference is None, f"{name}: {difference}"
        return
    real = Device(cast(Machine, GpuMachine(recording.driver)))
    yield real
    if not _has_passed(request):
        # After an illegal access every later call in the context fails. After some errors every
        # later call in the process fails; then this process ends, and pytest-xdist starts another.
        try:
            recording.driver.reset()
        except GpuError:
            os._exit(1)
    elif request.node.get_closest_marker("approximate") is None:
        recording.keep(name, real.recorder.digests)


def _has_passed(request: pytest.FixtureRequest) -> bool:
    """Return whether the call phase of the requesting test passed."""
    report = request.node.stash.get(CALL, None)
    return report is not None and report.passed


class Compile(Protocol):
    """The type of the function that compiles a .cu file to PTX with nvcc."""

    def __call__(self, source: Path, *options: str, architecture: str = "90") -> str:
        """Return a .cu file's PTX, with source lines, for a compute capability (`90` is 9.0)."""


@pytest.fixture(scope="session")
def compile_ptx() -> Compile:
    """Return a function that compiles .cu files with nvcc and caches the PTX."""
    toolchain, cache = find_toolchain(), Cache(default_root())
    compiler = toolchain.cuda

    @functools.cache
    def compile_file(source: Path, *options: str, architecture: str = "90") -> str:
        host = str(toolchain.host.path)
        flags = ["-ccbin", host, "-ptx", "-lineinfo", f"-arch=compute_{architecture}", *options]

        def compile_to(folder: Path) -> Product:
            target = folder / "kernels.ptx"
            subprocess.run([compiler.nvcc, *flags, source, "-o", target], check=True)
            return Product(target)

        # The PTX contains the path of its source, so the path is part of the key. Included files
        # are not: all of them belong to CUDA, whose version is in the key.
        key = digest((compiler.version, *flags, str(source), source.read_text()))
        return cache.get_or_build(key, compile_to).library.read_text()

    return compile_file


@pytest.fixture(scope="session")
def kernels(compile_ptx: Compile) -> str:
    """Return the PTX of tests/simulator/kernels.cu."""
    return compile_ptx(Path(__file__).with_name("kernels.cu"))
