"""Fixtures of the simulator's tests: its C library, a device, and nvcc."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

import harness.simulator
from harness.build.toolchain import find_cuda_compiler
from harness.simulator.machine import Machine
from harness.simulator.memory import Memory
from tests.simulator.support import Device

_SOURCES = (
    "arena.c",
    "access.c",
    "arithmetic.c",
    "race.c",
    "profile.c",
    "tensor.c",
    "tensor_map.c",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    target = tmp_path_factory.mktemp("library") / "libsimulator.so"
    folder = Path(harness.simulator.__file__).parent
    sources = [str(folder / name) for name in _SOURCES]
    command = ["cc", "-O2", "-shared", "-fPIC", *sources, "-lm", "-o", str(target)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(target))


@pytest.fixture
def memory(library: ctypes.CDLL) -> Memory:
    return Memory(library)


@pytest.fixture
def device(memory: Memory) -> Device:
    return Device(Machine(memory))


class Compile(Protocol):
    """Compiles a .cu file to PTX."""

    def __call__(self, source: Path, *options: str, architecture: str = "90") -> str:
        """The PTX, for a compute capability and with line information."""


@pytest.fixture(scope="session")
def compile_ptx(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """The compiler; each file is compiled once for each compute capability."""
    nvcc = find_cuda_compiler().nvcc

    @functools.cache
    def compile_file(source: Path, *options: str, architecture: str = "90") -> str:
        target = tmp_path_factory.mktemp("ptx") / "kernels.ptx"
        flags = ["-ptx", "-lineinfo", f"-arch=compute_{architecture}", *options]
        subprocess.run([nvcc, *flags, str(source), "-o", str(target)], check=True)
        return target.read_text()

    return compile_file


@pytest.fixture(scope="session")
def kernels(compile_ptx: Compile) -> str:
    """PTX of kernels.cu, which has all the CUDA kernels of these tests."""
    return compile_ptx(Path(__file__).with_name("kernels.cu"))
