"""The compiler commands of an extension, for the simulator and for a GPU.

They are torch's own (`torch.utils.cpp_extension`, whose releases `tried.py` names) plus what each
target needs.
"""

from __future__ import annotations

import inspect
import os
import platform
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch.utils import cpp_extension

from harness.compiler.cuda_homes import wheel_homes
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE, CudaCompiler, Toolchain
from harness.system.device import Device

OVERLAY = Path(__file__).parent / "include"

Headers = Literal["slim", "light", "full"]
"""How much of torch a source gets to see; `full` is torch's own headers."""

_INTERFACE = "-DTORCH_API_INCLUDE_EXTENSION_H"
"""What torch defines for each extension."""

# torch.utils.cpp_extension.COMMON_NVCC_FLAGS, which also keeps half-precision operators from
# compiling under both.
_NVCC_FLAGS: tuple[str, ...] = tuple(cpp_extension.COMMON_NVCC_FLAGS)


# What of these libraries the simulator has is there without them; what it lacks is named when the
# extension is loaded.
_CUDA_LIBRARY = re.compile(
    r"^(-l:?(lib)?|.*/lib)"
    r"(cuda|cudart|cudart_static|cudadevrt|c10_cuda|torch_cuda|cublas|cublasLt|cudnn|cusparse"
    r"|cusolver|cufft|curand|nvrtc|nccl|nvToolsExt|nvidia-ml|cupti)(_static)?([.]so[.\d]*|[.]a)?$"
)


@dataclass(frozen=True)
class Target:
    """What an extension is compiled for."""

    device: Device
    architecture: str = DEFAULT_ARCHITECTURE
    """A compute capability without its dot, such as `90` or `90a`."""


@dataclass(frozen=True)
class Extension:
    """What a submission asked `load_inline` or `load` to build."""

    name: str
    sources: tuple[tuple[str, str], ...]
    """(file name, text) each; `.cu` and `.cuh` go to nvcc."""
    # Words of a command line, complete as torch has them.
    cpp_flags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    with_cuda: bool = True


def is_cuda_source(name: str) -> bool:
    """Whether nvcc compiles this file."""
    return name.endswith((".cu", ".cuh"))


def torch_language_standard() -> str:
    """The `-std=` flag that this release of torch gives its extensions."""
    source = inspect.getsource(cpp_extension._write_ninja_file_to_build_library)
    found = re.search(r"-std=c\+\+\d+", source)
    return found[0] if found else "-std=c++17"


def include_flags(
    extension: Extension, toolchain: Toolchain, target: Target, *, headers: Headers
) -> list[str]:
    """Where headers come from; ours stand before torch's, which stand before CUDA's."""
    ours = [] if headers == "full" else [OVERLAY / headers]
    if target.device == "simulator":
        ours.append(OVERLAY / "simulator")
    theirs = [Path(path) for path in cpp_extension.include_paths("cpu")]
    theirs.append(Path(sysconfig.get_path("include", scheme="posix_prefix")))
    if extension.with_cuda:
        cuda = toolchain.cuda
        theirs += cuda.include_paths
        # CUDA 13 moved the C++ core libraries' headers here; nvcc finds them by itself, g++ not.
        # CUDA 12 has them in `include`.
        theirs.append(cuda.include / "cccl")
        # What the toolkit was installed without, such as cuRAND's headers, PyPI's packages have.
        theirs += [home / "include" for home in wheel_homes(cuda.release[0])]
    flags = [f"-I{Path(path).absolute()}" for path in extension.include_paths]
    flags += [f"-I{path}" for path in ours]
    for path in theirs:
        flags += ["-isystem", str(path)]
    return flags


def headers_by_use(source: str) -> list[str]:
    """Flags that include what a source uses beyond the light headers, in small headers.

    The light headers have the operators that nearly every submission calls (`torch::NAME`,
    `at::NAME`), and conversions to Python for the host compiler alone; each of the other operators
    has a header of its own, and a CUDA source may have the bindings in it.
    """
    folder = Path(cpp_extension.include_paths("cpu")[0])
    names = sorted(set(re.findall(r"\b(?:torch|at)::(\w+)\s*\(", source)))
    headers = [f"ATen/ops/{name}.h" for name in names if (folder / f"ATen/ops/{name}.h").is_file()]
    if any("ITensorListRef" in (folder / header).read_text() for header in headers):
        # They only declare the type, to which a call converts its list of tensors.
        headers.append("ATen/core/IListRef.h")
    if "PYBIND11_MODULE" in source:
        headers += ["torch/csrc/Exceptions.h", "torch/csrc/utils/pybind.h"]
    needs_thrust = re.search(r"\b(thrust|cub)\b|complex", source, re.IGNORECASE)
    return [
        *(["-DHARNESS_WHOLE_THRUST"] if needs_thrust else []),
        *(word for header in headers for word in ("-include", header)),
    ]


def _definitions(extension: Extension) -> list[str]:
    return [f"-DTORCH_EXTENSION_NAME={extension.name}", _INTERFACE]


def _cpp_options(
    extension: Extension, toolchain: Toolchain, target: Target, *, headers: Headers
) -> list[str]:
    return [
        *include_flags(extension, toolchain, target, headers=headers),
        "-fPIC",
        torch_language_standard(),
        *extension.cpp_flags,
    ]


def cpp_command(
    extension: Extension, toolchain: Toolchain, target: Target, source: str, *, headers: Headers
) -> tuple[str, ...]:
    """Compile a C++ source to an object file."""
    return (
        str(toolchain.host.path),
        "-MMD",
        "-MF",
        f"{source}.d",
        *_definitions(extension),
        *_cpp_options(extension, toolchain, target, headers=headers),
        "-c",
        source,
        "-o",
        f"{source}.o",
    )


def prelude_command(
    extension: Extension, toolchain: Toolchain, target: Target, header: str, output: str
) -> tuple[str, ...]:
    """Compile a header for all C++ sources that have the same options and the light headers.

    The extension's name, which is not the same, may not be defined meanwhile.
    """
    return (
        str(toolchain.host.path),
        _INTERFACE,
        *_cpp_options(extension, toolchain, target, headers="light"),
        "-x",
        "c++-header",
        header,
        "-o",
        output,
    )


def cuda_command(
    extension: Extension, toolchain: Toolchain, target: Target, source: str, *, headers: Headers
) -> tuple[str, ...]:
    """Compile a CUDA source to an object file that registers its kernels when it is loaded."""
    return (
        str(toolchain.cuda.nvcc),
        "-ccbin",
        str(toolchain.host.path),
        "-MMD",
        "-MF",
        f"{source}.d",
        *_definitions(extension),
        *include_flags(extension, toolchain, target, headers=headers),
        *_NVCC_FLAGS,
        # Findings and profiles name the line of the submission.
        "-lineinfo",
        "--compiler-options",
        "-fPIC",
        *_architecture_flags(extension, target),
        "-c",
        source,
        "-o",
        f"{source}.o",
    )


def _architecture_flags(extension: Extension, target: Target) -> list[str]:
    if target.device == "cuda":
        own = any("arch" in flag or "gencode" in flag for flag in extension.cuda_flags)
        code = f"-gencode=arch=compute_{target.architecture},code=sm_{target.architecture}"
        return ([] if own else [code]) + list(extension.cuda_flags)
    kept = _without_device_linking(extension.cuda_flags)
    asked, flags = _split_architecture(kept, target.architecture)
    virtual = f"compute_{asked or target.architecture}"
    # PTX alone, as text, and host code that calls the runtime of simulator/cudart/.
    return [
        *flags,
        f"-gencode=arch={virtual},code={virtual}",
        "-no-compress",
        "-cudart=none",
    ]


def _without_device_linking(flags: Sequence[str]) -> list[str]:
    """Take out the options whose code needs more of a runtime than the simulator's.

    Each file's device code stands for itself, as load_inline's one file does anyway, and every
    stream does its work at once, so that it does not matter which one is the default.
    """
    kept: list[str] = []
    expect_value = False
    for flag in flags:
        option = re.match(
            r"--?(rdc|relocatable-device-code|cudart|default-stream|dc|device-c)(=|$)", flag
        )
        if option:
            expect_value = not option[2] and option[1] not in ("dc", "device-c")
        elif expect_value:
            expect_value = False
        else:
            kept.append(flag)
    return kept


def _split_architecture(flags: Sequence[str], ours: str) -> tuple[str | None, list[str]]:
    """Take the architecture options out of nvcc's flags.

    Returns:
        The newest architecture named that a device of architecture `ours` runs, or else the newest
        one, or None if none is named; and the other flags.
    """
    named: list[str] = []
    rest = []
    expect_value = False
    for flag in flags:
        option = re.match(r"--?(gencode|generate-code|arch|gpu-architecture|code|gpu-code)\b", flag)
        if option or expect_value:
            named += re.findall(r"(?:compute|sm)_(\d+[af]?)", flag)
            expect_value = bool(option) and "=" not in flag
        else:
            rest.append(flag)
    running = [name for name in named if _number(name) <= _number(ours)] or named
    return max(running, key=lambda name: (_number(name), name), default=None), rest


def _number(architecture: str) -> int:
    return int(re.sub(r"\D", "", architecture))


def link_command(
    extension: Extension, toolchain: Toolchain, target: Target, objects: Sequence[str], output: str
) -> tuple[str, ...]:
    """Link object files to an extension module."""
    libraries = [f"-L{path}" for path in cpp_extension.library_paths("cpu")]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    if extension.with_cuda and target.device == "cuda":
        libraries += ["-lc10_cuda", "-ltorch_cuda", str(_cuda_runtime(toolchain.cuda))]
    own = extension.link_flags
    if target.device == "simulator":
        own = tuple(flag for flag in own if not _CUDA_LIBRARY.search(flag))
    return (
        str(toolchain.host.path),
        *objects,
        "-shared",
        *own,
        *libraries,
        "-o",
        output,
    )


def _cuda_runtime(cuda: CudaCompiler) -> Path:
    """The runtime's library; of a wheel its name has the major version."""
    names = ("lib64/libcudart.so", "lib/libcudart.so", f"lib/libcudart.so.{cuda.release[0]}")
    paths = [cuda.home / name for name in names]
    if not cuda.include_paths:
        # Debian's own toolkit has no folders but the system's.
        paths.append(Path("/usr/lib") / f"{platform.machine()}-linux-gnu" / "libcudart.so")
    return next((path for path in paths if path.exists()), paths[0])


def torch_version() -> str:
    """The release of torch, with its build label."""
    return str(torch.__version__)


def wherever_torch_lies(words: Iterable[str]) -> Iterator[str]:
    """Yield a command's words for the key of a build, torch's folder by the name of its Python.

    The build has no path to torch's libraries in it: they are loaded before it is. So another
    environment with the same torch can use it; one of another Python cannot.
    """
    folder = os.path.dirname(cpp_extension.include_paths("cpu")[0])  # noqa: PTH120 - as a text
    name = f"torch-{sysconfig.get_config_var('SOABI')}"
    return (word.replace(folder, name) for word in words)
