"""Search for the compilers of submissions: nvcc (a toolkit or PyPI wheels) and a C++ compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import preinstall
from harness.compiler.cuda_homes import (
    CUDA_MAJORS,
    SYSTEM_HEADERS,
    cuda_homes,
    include_folder,
    nvcc_version,
    release_of,
)
from harness.preinstall import Lack

DEFAULT_ARCHITECTURE = "90"

OLDEST_CUDA = (12, 4)

# The same packages as in pyproject.toml's extra; this package itself is not on an index.
INSTALL_NVCC = "pip install 'cuda-toolkit[nvcc,cccl,nvtx,curand]'"
_NO_NVCC_IN_WHEELS = "PyPI's packages of CUDA 12 have no nvcc; install a toolkit"


class ToolchainError(RuntimeError):
    """A compiler is missing or cannot be used; the message says how to get one."""


@dataclass(frozen=True)
class CudaCompiler:
    """An nvcc with its headers.

    Attributes:
        home: The folder that CUDA_HOME would name.
        version: Release of nvcc, such as `13.0.88`.
        origin: `toolkit` for an installed CUDA toolkit, `wheels` for PyPI's packages.
        why: Reason why this nvcc was chosen for a GPU; empty for the simulator.
    """

    home: Path
    version: str
    origin: str
    why: str = ""

    @property
    def nvcc(self) -> Path:
        """The path of the nvcc program.

        For Debian's toolkit this is the script /usr/bin/nvcc, which finds the other programs.
        """
        return self.home / "bin" / "nvcc" if self.include_paths else Path("/usr/bin/nvcc")

    @property
    def include(self) -> Path:
        """The folder that contains cuda_runtime.h."""
        return include_folder(self.home) or self.home / "include"

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """The folders to pass to compilers so that they find cuda_runtime.h.

        The tuple is empty for Debian's toolkit, whose headers are in /usr/include. If /usr/include
        were passed, it would precede the C++ headers, which then would not find the C headers.
        """
        return () if self.include == SYSTEM_HEADERS else (self.include,)

    @property
    def newest_gcc(self) -> int | None:
        """Major version of the newest gcc that nvcc accepts; None if its headers state no limit."""
        limits = self.include / "crt" / "host_config.h"
        text = limits.read_text(errors="replace") if limits.is_file() else ""
        found = re.search(r"gcc versions later than (\d+) are not supported", text)
        return int(found[1]) if found else None

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor number of nvcc's version."""
        return release_of(self.version)


@dataclass(frozen=True)
class CudaOfGpu:
    """The CUDA versions of a machine with a GPU, which decide the choice of an nvcc.

    Attributes:
        driver: Newest CUDA release (major, minor) that the driver supports.
        torch: CUDA release (major, minor) that torch was built for.
    """

    driver: tuple[int, int]
    torch: tuple[int, int]

    def loads(self, release: tuple[int, int]) -> bool:
        """Return whether the driver loads machine code that nvcc of this CUDA release made.

        A driver loads code of every release of its own major version, even newer releases, and of
        older major versions; https://docs.nvidia.com/deploy/cuda-compatibility, "Minor Version
        Compatibility".
        """
        return release[0] <= self.driver[0]

    def preference(self, release: tuple[int, int]) -> tuple[bool, bool]:
        """Return a sort key for CUDA releases that the driver loads; the smallest key is preferred.

        First come releases of torch's major version, because torch has loaded that version's CUDA
        runtime, whose structures differ from those of other versions. Among equals, first come
        releases not newer than the driver's. The reason is that an extension may contain PTX, and
        the driver does not compile PTX of a newer release.
        """
        return release[0] != self.torch[0], release > self.driver


@dataclass(frozen=True)
class HostCompiler:
    """A C or C++ compiler: its path, and the first line of `--version`."""

    path: Path
    version: str


@dataclass(frozen=True)
class Toolchain:
    """The compilers for submissions: nvcc and a C++ compiler."""

    cuda: CudaCompiler
    host: HostCompiler


def find_toolchain(gpu: CudaOfGpu | None = None) -> Toolchain:
    """Return nvcc for a GPU or the simulator, and a C++ compiler; check that Python.h exists too.

    Raises:
        ToolchainError: A compiler or Python.h is missing.
    """
    find_python_headers()
    cuda = find_cuda_compiler(gpu)
    return Toolchain(cuda, find_host_compiler(cuda))


def find_host_compiler(cuda: CudaCompiler | None = None) -> HostCompiler:
    """Return the C++ compiler: the one that `CXX` names, else g++, else c++.

    nvcc refuses a g++ that is newer than its limit. If g++ is too new for `cuda`, the newest
    `g++-VERSION` that nvcc accepts is returned.

    Raises:
        ToolchainError: There is no C++ compiler, or none that nvcc accepts.
    """
    named = os.environ.get("CXX")
    for name in (named, "g++", "c++"):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        compiler = HostCompiler(Path(path), _first_line(path, "--version"))
        newest = cuda.newest_gcc if cuda and name != named else None
        if cuda is None or newest is None or _gcc_major(path) <= newest:
            return compiler
        # Distributions install several versions side by side, as g++-12, g++-13.
        for older in range(newest, _OLDEST_GCC - 1, -1):
            if path := shutil.which(f"g++-{older}"):
                return HostCompiler(Path(path), _first_line(path, "--version"))
        raise ToolchainError(
            f"{compiler.path} ({compiler.version}) is too new for nvcc {cuda.version}; "
            f"run: apt-get install g++-{newest}"
        )
    return _compiler("C++")


_OLDEST_GCC = 9


def _gcc_major(path: str) -> int:
    """Return the major version of g++; 0 for another compiler, whose version numbers differ."""
    macros = subprocess.run(
        [path, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"^#define __GNUC__ (\d+)$", macros, re.MULTILINE)
    return int(found[1]) if found and "__clang__" not in macros else 0


def find_c_compiler() -> HostCompiler:
    """Return the C compiler: the one that `CC` names, else cc, else gcc.

    Raises:
        ToolchainError: There is no C compiler.
    """
    return _compiler("C")


def find_python_headers() -> Path:
    """Return the folder of Python.h, which the bindings of every extension include.

    Raises:
        ToolchainError: The headers are missing.
    """
    _refuse(preinstall.missing_headers())
    return preinstall.headers()


def _compiler(language: str) -> HostCompiler:
    _refuse(preinstall.missing_compiler(language))
    path = preinstall.compiler(language) or ""
    return HostCompiler(Path(path), _first_line(path, "--version"))


def _refuse(lack: Lack | None) -> None:
    if lack:
        raise ToolchainError(lack.line)


def find_cuda_compiler(gpu: CudaOfGpu | None = None) -> CudaCompiler:
    """Return the nvcc to use, for a GPU or for the simulator (`gpu` is None).

    The order of search is CUDA_HOME, the PATH, an installed toolkit, PyPI's packages. The simulator
    uses the first nvcc that is found. A GPU uses the first nvcc with the best
    `CudaOfGpu.preference`.

    Raises:
        ToolchainError: No nvcc is usable; the message names the unusable ones that were found.
    """
    found, passed_over = _look_for_compilers()
    if gpu is None:
        if found:
            return found[0]
        raise ToolchainError(f"no nvcc found{_seen(passed_over)}; run: {INSTALL_NVCC}")
    loaded = [compiler for compiler in found if gpu.loads(compiler.release)]
    if loaded:
        # min returns the first of equal ones, so the order of search decides.
        best = min(loaded, key=lambda compiler: gpu.preference(compiler.release))
        return replace(best, why=_why(gpu, best, found))
    passed_over += [f"{each.home} (CUDA {each.version})" for each in found]
    raise ToolchainError(
        "no nvcc found whose machine code the driver can load; the driver supports CUDA "
        f"{_text(gpu.driver)}{_seen(passed_over)}; {_remedy(gpu)}"
    )


def _why(gpu: CudaOfGpu, best: CudaCompiler, found: Sequence[CudaCompiler]) -> str:
    others = [f"{each.version} of {each.home}" for each in found if each != best]
    reason = f"the driver supports CUDA {_text(gpu.driver)}, torch has {_text(gpu.torch)}"
    if best.release[0] != gpu.torch[0]:
        reason += (
            ", and nvcc's major version differs from torch's: install a toolkit of torch's "
            "major version"
        )
    return f"{reason}; instead of {', '.join(others)}" if others else reason


def _remedy(gpu: CudaOfGpu) -> str:
    if gpu.driver[0] >= 13:
        return f"run: {INSTALL_NVCC}"
    return f"install a CUDA toolkit of version {gpu.driver[0]} and set CUDA_HOME"


def _seen(passed_over: Sequence[str]) -> str:
    return f" (found but not usable: {', '.join(passed_over)})" if passed_over else ""


def _text(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def find_cuda_compilers() -> list[CudaCompiler]:
    """Return all usable CUDA compilers, in the order of search."""
    return _look_for_compilers()[0]


def _look_for_compilers() -> tuple[list[CudaCompiler], list[str]]:
    """Return all usable nvccs in the order of search, and a text about each unusable one."""
    found: list[CudaCompiler] = []
    passed_over: list[str] = []
    seen: set[Path] = set()
    for home, origin in cuda_homes():
        if home.resolve() in seen:
            continue
        seen.add(home.resolve())
        version = nvcc_version(home)
        if version is None:
            why = _NO_NVCC_IN_WHEELS if origin == "wheels" else "no working bin/nvcc"
            passed_over.append(f"{home} ({why})")
        elif release_of(version) < OLDEST_CUDA or release_of(version)[0] not in CUDA_MAJORS:
            passed_over.append(f"{home} (CUDA {version})")
        elif include_folder(home) is None:
            passed_over.append(f"{home} (no include/cuda_runtime.h)")
        else:
            found.append(CudaCompiler(home, version, origin))
    return found, passed_over


def _first_line(program: str, *arguments: str) -> str:
    output = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return (output.stdout or output.stderr).partition("\n")[0].strip()
