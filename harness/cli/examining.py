"""What this machine has and lacks, and the one command that mends each lack."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from harness.compiler.cache import Cache, default_root
from harness.compiler.ninja import CompileError
from harness.compiler.toolchain import (
    ToolchainError,
    find_cuda_compiler,
    find_host_compiler,
    find_toolchain,
)
from harness.compiler.tried import INSTALL_LAST_TRIED, LAST_TRIED, torch_note
from harness.devices import DeviceError, choose
from harness.gpu.release import cuda_here
from harness.sandbox import layers
from harness.simulator.native.library import build_libraries

_PROBE_BYTES = 4096


@dataclass(frozen=True)
class Requirement:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: How it is.
        remedy: The command that mends it; empty where nothing is to be mended.
        is_optional: Whether only some uses need it.
    """

    name: str
    state: str
    remedy: str = ""
    is_optional: bool = False

    @property
    def is_fine(self) -> bool:
        """Whether nothing is to be mended."""
        return not self.remedy or self.is_optional

    @property
    def line(self) -> str:
        """For people."""
        mark = "LACKS" if not self.is_fine else "ok" if not self.is_optional else "part"
        advice = f"; run: {self.remedy}" if self.remedy else ""
        return f"{mark:5} {self.name}: {self.state}{advice}"


def examine() -> list[Requirement]:
    """Look at everything that the harness needs."""
    return list(_requirements())


def _requirements() -> Iterator[Requirement]:
    yield Requirement("python", sys.version.split()[0])
    yield Requirement("torch", "; ".join(filter(None, (f"{torch.__version__}", torch_note()))))
    yield _host_compiler()
    yield _python_headers()
    yield _cuda_compiler()
    yield _torch_build_needs()
    yield _cache()
    yield from _device()
    yield _sandbox()


def _sandbox() -> Requirement:
    """Only files of strangers need it."""
    states = layers.examine()
    holding = ", ".join(state.layer for state in states if not state.hole) or "nothing"
    missing = ", ".join(f"{state.layer} ({state.hole})" for state in states if state.hole)
    if not missing:
        return Requirement("sandbox", f"holds: {holding}")
    reason, _, remedy = layers.why_open().partition("; run: ")
    parts = (f"holds: {holding}", f"does not hold: {missing}", reason)
    state = "; ".join(filter(None, parts))
    return Requirement("sandbox", state, remedy, is_optional=True)


def _host_compiler() -> Requirement:
    cuda = None
    with suppress(ToolchainError):  # said in nvcc's own line
        cuda = find_cuda_compiler(cuda_here())
    try:
        compiler = find_host_compiler(cuda)
    except ToolchainError as error:
        state, _, remedy = str(error).partition("; run: ")
        return Requirement("C++ compiler", state, remedy)
    return Requirement("C++ compiler", f"{compiler.path} ({compiler.version})")


def _python_headers() -> Requirement:
    folder = Path(sysconfig.get_path("include", scheme="posix_prefix"))
    if (folder / "Python.h").is_file():
        return Requirement("Python headers", str(folder))
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    return Requirement("Python headers", f"no Python.h in {folder}", f"apt-get install {package}")


def _cuda_compiler() -> Requirement:
    try:
        compiler = find_cuda_compiler(cuda_here())
    except ToolchainError as error:
        state, _, remedy = str(error).partition("; run: ")
        return Requirement("nvcc", state, remedy)
    why = f"; {compiler.why}" if compiler.why else ""
    found = f"{compiler.version} from {compiler.home} ({compiler.origin}){why}"
    return Requirement("nvcc", found)


def _torch_build_needs() -> Requirement:
    if find_spec("setuptools") is None:
        return Requirement(
            "setuptools", "torch.utils.cpp_extension needs it", "pip install setuptools"
        )
    return Requirement("setuptools", "present")


def _cache() -> Requirement:
    root = default_root()
    probe = root / "probe"
    try:
        root.mkdir(parents=True, exist_ok=True)
        try:
            # A full disk takes a file, but nothing into it.
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return Requirement("cache", f"{root}: {error.strerror}", _elsewhere())
    return Requirement("cache", str(root))


def _elsewhere() -> str:
    return f"export XDG_CACHE_HOME={Path.cwd()}"


def _device() -> Iterator[Requirement]:
    try:
        device = choose("auto")
    except DeviceError as error:
        state, _, remedy = str(error).partition("; run: ")
        yield Requirement("device", state, remedy)
        return
    if device == "cuda":
        yield Requirement("device", f"cuda: {torch.cuda.get_device_name()}")
        return
    yield Requirement("device", "simulator: torch sees no GPU")
    try:
        build_libraries(Cache(default_root()), find_toolchain())
    except ToolchainError:
        return  # said above
    except OSError as error:
        yield Requirement("simulator", f"{error.filename}: {error.strerror}", _elsewhere())
    except CompileError as error:
        yield Requirement(
            "simulator", f"does not compile: {error}; {LAST_TRIED}", INSTALL_LAST_TRIED
        )
    else:
        yield Requirement("simulator", "compiles with this torch")
