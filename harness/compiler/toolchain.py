"""Find what compiles a submission: nvcc (a toolkit, or PyPI wheels) and a C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import preinstall
from harness.preinstall import Lack

DEFAULT_ARCHITECTURE = "90"
CUDA_MAJOR = 13

# One compiler taken apart, as pyproject.toml's extra has it: this package itself is on no index.
_WHEELS = ("cuda-nvcc", "nvvm", "cuda-crt", "cuda-runtime", "cuda-cccl", "nvtx")
INSTALL_NVCC = " ".join(
    (
        "pip install",
        *(f"'nvidia-{wheel}==13.0.*'" for wheel in _WHEELS),
        "'nvidia-curand==10.4.0.*'",
    )
)


class ToolchainError(RuntimeError):
    """A compiler is missing or cannot be used; the message says how to get one."""


@dataclass(frozen=True)
class CudaCompiler:
    """An nvcc with its headers: `home` is what CUDA_HOME would be."""

    home: Path
    version: str
    origin: str
    """`toolkit` for an installed CUDA toolkit, `wheels` for PyPI's packages."""

    @property
    def nvcc(self) -> Path:
        """The compiler driver."""
        return self.home / "bin" / "nvcc"

    @property
    def include(self) -> Path:
        """The folder of cuda_runtime.h."""
        return self.home / "include"


@dataclass(frozen=True)
class HostCompiler:
    """A C or C++ compiler."""

    path: Path
    version: str


@dataclass(frozen=True)
class Toolchain:
    """Everything that compiles a submission."""

    cuda: CudaCompiler
    host: HostCompiler


def find_toolchain() -> Toolchain:
    """Find nvcc and a C++ compiler, and see that Python's headers are there.

    Raises:
        ToolchainError: one of them is missing.
    """
    find_python_headers()
    return Toolchain(cuda=find_cuda_compiler(), host=find_host_compiler())


def find_host_compiler() -> HostCompiler:
    """Find the C++ compiler: what `CXX` names, else g++, else c++.

    Raises:
        ToolchainError: there is none.
    """
    return _compiler("C++")


def find_c_compiler() -> HostCompiler:
    """Find the C compiler: what `CC` names, else cc, else gcc.

    Raises:
        ToolchainError: there is none.
    """
    return _compiler("C")


def find_python_headers() -> Path:
    """Find the folder of Python.h, which the bindings of every extension include.

    Raises:
        ToolchainError: there is none.
    """
    _refuse(preinstall.no_headers())
    return preinstall.headers()


def _compiler(language: str) -> HostCompiler:
    _refuse(preinstall.no_compiler(language))
    path = preinstall.compiler(language) or ""
    return HostCompiler(Path(path), _first_line(path, "--version"))


def _refuse(lack: Lack | None) -> None:
    if lack:
        raise ToolchainError(lack.line)


def find_cuda_compiler() -> CudaCompiler:
    """Find nvcc: an installed toolkit of the right version first, else the wheels.

    Raises:
        ToolchainError: there is none; names the toolkits that were passed over.
    """
    passed_over = []
    for home, origin in _cuda_homes():
        version = nvcc_version(home)
        if version is None:
            passed_over.append(f"{home} (no working bin/nvcc)")
        elif int(version.split(".")[0]) != CUDA_MAJOR:
            passed_over.append(f"{home} (CUDA {version})")
        elif not (home / "include" / "cuda_runtime.h").is_file():
            passed_over.append(f"{home} (no include/cuda_runtime.h)")
        else:
            return CudaCompiler(home, version, origin)
    seen = f" (passed over: {', '.join(passed_over)})" if passed_over else ""
    raise ToolchainError(f"no nvcc of CUDA {CUDA_MAJOR} found{seen}; run: {INSTALL_NVCC}")


def _cuda_homes() -> Iterator[tuple[Path, str]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]), "toolkit"
    on_path = shutil.which("nvcc")
    if on_path and (home := _home_of(on_path)):
        yield home, "toolkit"
    if Path("/usr/local/cuda").is_dir():
        yield Path("/usr/local/cuda"), "toolkit"
    for home in wheel_homes():
        if (home / "bin" / "nvcc").is_file():
            yield home, "wheels"


def wheel_homes() -> list[Path]:
    """Where PyPI's packages of CUDA lie, which share a folder for each major version."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    homes = (Path(folder) / f"cu{CUDA_MAJOR}" for folder in folders)
    return [home for home in homes if home.is_dir()]


def _home_of(nvcc: str) -> Path | None:
    """CUDA_HOME of an nvcc on the PATH, which may be a link or a wrapper script.

    A dry run prints the settings of nvcc.profile, TOP among them.
    """
    command = [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    return Path(found[1]).resolve() if found else None


def nvcc_version(home: Path) -> str | None:
    """The release of `home`'s nvcc, such as `13.0.88`, or None where it does not run."""
    try:
        output = subprocess.run(
            [home / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return None
    found = re.search(r"\bV(\d+\.\d+\.\d+)", output)
    return found[1] if found else None


def _first_line(program: str, *arguments: str) -> str:
    output = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return (output.stdout or output.stderr).partition("\n")[0].strip()
