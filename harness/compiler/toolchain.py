"""Find what compiles a submission: nvcc (a toolkit, or PyPI wheels) and a C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

DEFAULT_ARCHITECTURE = "90"

CUDA_MAJORS = (12, 13)
"""Major versions whose compilers are taken; docs/machines.md says which were run."""
OLDEST_CUDA = (12, 4)

# As pyproject.toml's extra has it: this package itself is on no index.
INSTALL_NVCC = "pip install 'cuda-toolkit[nvcc,cccl,nvtx,curand]>=13.0,<14'"
_SYSTEM_HEADERS = Path("/usr/include")
_NO_NVCC_IN_WHEELS = "PyPI's packages of CUDA 12 have no nvcc; install a toolkit"
INSTALL_COMPILER = "apt-get install g++"


class ToolchainError(RuntimeError):
    """A compiler is missing or cannot be used; the message says how to get one."""


@dataclass(frozen=True)
class CudaCompiler:
    """An nvcc with its headers: `home` is what CUDA_HOME would be."""

    home: Path
    version: str
    origin: str
    """`toolkit` for an installed CUDA toolkit, `wheels` for PyPI's packages."""
    why: str = ""
    """Why it was taken, where there was a choice or a GPU to suit."""

    @property
    def nvcc(self) -> Path:
        """The compiler driver."""
        return self.home / "bin" / "nvcc"

    @property
    def include(self) -> Path:
        """The folder of cuda_runtime.h."""
        return _include(self.home) or self.home / "include"

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """What compilers have to be told to find cuda_runtime.h.

        That is nothing for Debian's own toolkit, whose headers are the system's: named explicitly,
        /usr/include comes before the headers of C++, which then do not find those of C.
        """
        return () if self.include == _SYSTEM_HEADERS else (self.include,)

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version."""
        return _release(self.version)


@dataclass(frozen=True)
class CudaOfGpu:
    """The CUDA that a machine with a GPU can run.

    Attributes:
        driver: The newest release that the driver supports.
        torch: The release that torch was built for.
    """

    driver: tuple[int, int]
    torch: tuple[int, int]

    def loads(self, release: tuple[int, int]) -> bool:
        """Whether the driver loads machine code of a compiler.

        It loads that of every release of its own major version, newer ones included, and of older
        major versions; https://docs.nvidia.com/deploy/cuda-compatibility, "Minor Version
        Compatibility".
        """
        return release[0] <= self.driver[0]

    def preference(self, release: tuple[int, int]) -> tuple[bool, bool]:
        """Sorts releases that load; the smallest comes first.

        The runtime of torch's major version is in the process already, and its structures are not
        those of another. The driver compiles PTX, which an extension may hold, of no newer release.
        """
        return release[0] != self.torch[0], release > self.driver


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


def find_toolchain(gpu: CudaOfGpu | None = None) -> Toolchain:
    """Find nvcc and a C++ compiler, for a GPU or the simulator.

    Raises:
        ToolchainError: one of them is missing.
    """
    return Toolchain(cuda=find_cuda_compiler(gpu), host=find_host_compiler())


def find_host_compiler() -> HostCompiler:
    """Find the C++ compiler: what `CXX` names, else g++, else c++.

    Raises:
        ToolchainError: there is none.
    """
    for name in (os.environ.get("CXX"), "g++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            return HostCompiler(Path(path), _first_line(path, "--version"))
    raise ToolchainError(f"no C++ compiler found; run: {INSTALL_COMPILER}")


def find_c_compiler() -> HostCompiler:
    """Find the C compiler: what `CC` names, else cc, else gcc.

    Raises:
        ToolchainError: there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc"):
        path = shutil.which(name) if name else None
        if path:
            return HostCompiler(Path(path), _first_line(path, "--version"))
    raise ToolchainError(f"no C compiler found; run: {INSTALL_COMPILER}")


def find_cuda_compiler(gpu: CudaOfGpu | None = None) -> CudaCompiler:
    """Find nvcc.

    The simulator takes the first: CUDA_HOME's, the PATH's, an installed toolkit's, the wheels'. A
    GPU takes the first of those that suit its driver and torch best.

    Raises:
        ToolchainError: there is none; names the toolkits that were passed over.
    """
    found, passed_over = _look_for_compilers()
    if gpu is None:
        if found:
            return found[0]
        raise ToolchainError(f"no nvcc found{_seen(passed_over)}; run: {INSTALL_NVCC}")
    loaded = [compiler for compiler in found if gpu.loads(compiler.release)]
    if loaded:
        # Of equal ones it is the first.
        best = min(loaded, key=lambda compiler: gpu.preference(compiler.release))
        return replace(best, why=_why(gpu, best, found))
    passed_over += [f"{each.home} (CUDA {each.version})" for each in found]
    raise ToolchainError(
        f"no nvcc found whose machine code the driver loads, which supports CUDA "
        f"{_text(gpu.driver)}{_seen(passed_over)}; {_remedy(gpu)}"
    )


def _why(gpu: CudaOfGpu, best: CudaCompiler, found: Sequence[CudaCompiler]) -> str:
    others = [f"{each.version} of {each.home}" for each in found if each != best]
    reason = f"the driver supports CUDA {_text(gpu.driver)}, torch has {_text(gpu.torch)}"
    if best.release[0] != gpu.torch[0]:
        reason += ", whose major version is another: install a toolkit of that"
    return f"{reason}; instead of {', '.join(others)}" if others else reason


def _remedy(gpu: CudaOfGpu) -> str:
    if gpu.driver[0] >= 13:
        return f"run: {INSTALL_NVCC}"
    return f"install a CUDA toolkit of version {gpu.driver[0]} and set CUDA_HOME"


def _seen(passed_over: Sequence[str]) -> str:
    return f" (passed over: {', '.join(passed_over)})" if passed_over else ""


def _text(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def find_cuda_compilers() -> list[CudaCompiler]:
    """All that can be used, in the order in which the simulator takes them."""
    return _look_for_compilers()[0]


def _look_for_compilers() -> tuple[list[CudaCompiler], list[str]]:
    """All compilers that can be used, the first choice first; and what else there is, and why."""
    found: list[CudaCompiler] = []
    passed_over: list[str] = []
    seen: set[Path] = set()
    for home, origin in _cuda_homes():
        if home.resolve() in seen:
            continue
        seen.add(home.resolve())
        version = nvcc_version(home)
        if version is None:
            why = _NO_NVCC_IN_WHEELS if origin == "wheels" else "no working bin/nvcc"
            passed_over.append(f"{home} ({why})")
        elif _release(version) < OLDEST_CUDA or _release(version)[0] not in CUDA_MAJORS:
            passed_over.append(f"{home} (CUDA {version})")
        elif _include(home) is None:
            passed_over.append(f"{home} (no include/cuda_runtime.h)")
        else:
            found.append(CudaCompiler(home, version, origin))
    return found, passed_over


def _include(home: Path) -> Path | None:
    """The folder of cuda_runtime.h; Debian's own package has it among the system's headers."""
    folders = [home / "include"]
    if home.is_relative_to("/usr/lib"):
        folders.append(_SYSTEM_HEADERS)
    return next((each for each in folders if (each / "cuda_runtime.h").is_file()), None)


def _cuda_homes() -> Iterator[tuple[Path, str]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]), "toolkit"
    on_path = shutil.which("nvcc")
    if on_path and (home := _home_of(on_path)):
        yield home, "toolkit"
    installed = Path("/usr/local")
    if (installed / "cuda").is_dir():
        yield installed / "cuda", "toolkit"
    numbered = [
        each for each in installed.glob("cuda-*") if re.fullmatch(r"cuda-\d+\.\d+", each.name)
    ]
    for home in sorted(numbered, key=lambda each: _release(each.name[5:]), reverse=True):
        yield home, "toolkit"
    for major in sorted(CUDA_MAJORS, reverse=True):
        for home in wheel_homes(major):
            # That of CUDA 12 has none, which is worth a word where nothing else is found.
            if (home / "bin" / "nvcc").is_file() or home.name == _NVCC_OF_CUDA_12:
                yield home, "wheels"


_NVCC_OF_CUDA_12 = "cuda_nvcc"

# Where PyPI's packages put their files, below nvidia/: those of CUDA 13 all in one folder, those of
# CUDA 12 each in its own.
_FOLDERS_OF_WHEELS = {
    13: ("cu13",),
    12: (_NVCC_OF_CUDA_12, "cuda_runtime", "cuda_cccl", "curand", "nvtx"),
}


def wheel_homes(major: int) -> list[Path]:
    """Where PyPI's packages of a major version of CUDA lie, each with its `include`."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    homes = (Path(folder) / name for name in _FOLDERS_OF_WHEELS[major] for folder in folders)
    return [home for home in homes if home.is_dir()]


def _home_of(nvcc: str) -> Path | None:
    """CUDA_HOME of an nvcc on the PATH, which may be a link or a wrapper script.

    A dry run prints the settings of nvcc.profile, TOP among them; Debian's has only the folder of
    the program.
    """
    command = [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    if found:
        return Path(found[1]).resolve()
    here = re.search(r"^#\$ _HERE_=(.+)$", output, re.MULTILINE)
    return Path(here[1]).resolve().parent if here else None


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
