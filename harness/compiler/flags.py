"""Compiler commands of an extension, for the simulator and for a GPU.

They are torch's own (`torch.utils.cpp_extension`; `tried.py` lists the releases) with additions for
each target.
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
"""Folder of the harness's own headers."""

Headers = Literal["slim", "light", "full"]
"""Levels of torch headers that a source is compiled with; `full` is torch's own headers."""

_INTERFACE = "-DTORCH_API_INCLUDE_EXTENSION_H"
"""The macro that torch defines for every extension."""

# They disable CUDA's half-precision operators and conversions (-D__CUDA_NO_HALF_OPERATORS__, ...),
# so a submission sees on the simulator what it sees on a GPU.
_NVCC_FLAGS: tuple[str, ...] = tuple(cpp_extension.COMMON_NVCC_FLAGS)


# Flags that link CUDA libraries; the simulator drops them. Functions that it has of these libraries
# need no linking. Functions that it lacks are named when the extension is loaded.
_CUDA_LIBRARY = re.compile(
    r"^(-l:?(lib)?|.*/lib)"
    r"(cuda|cudart|cudart_static|cudadevrt|c10_cuda|torch_cuda|cublas|cublasLt|cudnn|cusparse"
    r"|cusolver|cufft|curand|nvrtc|nccl|nvToolsExt|nvidia-ml|cupti)(_static)?([.]so[.\d]*|[.]a)?$"
)


@dataclass(frozen=True)
class Target:
    """The device and the architecture that an extension is compiled for.

    Attributes:
        device: The device.
        architecture: A compute capability without its dot, such as `90` or `90a`.
    """

    device: Device
    architecture: str = DEFAULT_ARCHITECTURE


@dataclass(frozen=True)
class Extension:
    """The arguments of a submission's `load_inline` or `load`.

    Attributes:
        name: Name of the extension module.
        sources: Pairs (file name, text); nvcc compiles `.cu` and `.cuh`.
        cpp_flags: Arguments for the C++ compiler, complete, as torch passes them.
        cuda_flags: Arguments for nvcc.
        link_flags: Arguments for the linker.
        include_paths: Absolute paths of folders with headers.
        with_cuda: True if CUDA's headers and libraries are used.
    """

    name: str
    sources: tuple[tuple[str, str], ...]
    cpp_flags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    with_cuda: bool = True


def is_cuda_source(name: str) -> bool:
    """Return whether nvcc compiles this file."""
    return name.endswith((".cu", ".cuh"))


def torch_language_standard() -> str:
    """Return the `-std=` flag that this release of torch gives its extensions."""
    source = inspect.getsource(cpp_extension._write_ninja_file_to_build_library)
    found = re.search(r"-std=c\+\+\d+", source)
    return found[0] if found else "-std=c++17"


def include_flags(
    extension: Extension, toolchain: Toolchain, target: Target, *, headers: Headers
) -> list[str]:
    """Return the flags for header folders: the harness's, then torch's, then CUDA's."""
    ours = [] if headers == "full" else [OVERLAY / headers]
    if target.device == "simulator":
        ours.append(OVERLAY / "simulator")
    theirs = [Path(path) for path in cpp_extension.include_paths("cpu")]
    theirs.append(Path(sysconfig.get_path("include", scheme="posix_prefix")))
    if extension.with_cuda:
        cuda = toolchain.cuda
        theirs += cuda.include_paths
        # CUDA 13 moved the headers of the C++ core libraries here, and only nvcc finds them by
        # itself. CUDA 12 has them in `include`.
        theirs.append(cuda.include / "cccl")
        # A minimal toolkit lacks headers, such as cuRAND's, that PyPI's packages have.
        theirs += [home / "include" for home in wheel_homes(cuda.release[0])]
    flags = [f"-I{Path(path).absolute()}" for path in extension.include_paths]
    flags += [f"-I{path}" for path in ours]
    for path in theirs:
        flags += ["-isystem", str(path)]
    return flags


def headers_by_use(source: str) -> list[str]:
    """Return flags that include the small headers which a source needs beyond the light headers.

    The light headers contain the operators that nearly every submission calls (`torch::NAME`,
    `at::NAME`). Each other operator has a header of its own. They contain Python conversions for
    the host compiler only, so a CUDA source with bindings gets further headers.
    """
    folder = Path(cpp_extension.include_paths("cpu")[0])
    names = sorted(set(re.findall(r"\b(?:torch|at)::(\w+)\s*\(", source)))
    headers = [f"ATen/ops/{name}.h" for name in names if (folder / f"ATen/ops/{name}.h").is_file()]
    if any("ITensorListRef" in (folder / header).read_text() for header in headers):
        # The operators' headers only declare this type; a call converts its list of tensors to it.
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
    """Return the command that compiles a C++ source to an object file."""
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
    """Return the command that precompiles a header.

    All C++ sources with the same options and the light headers can use it. The extension's name
    differs between them, so the command does not define it.
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
    """Return the command that compiles a CUDA source to an object file.

    The object registers its kernels when it is loaded.
    """
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
        # Findings and profiles need the source lines.
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
    # Only uncompressed PTX, and no CUDA runtime: the host code calls the simulator's own runtime
    # (simulator/cudart/).
    return [
        *flags,
        f"-gencode=arch={virtual},code={virtual}",
        "-no-compress",
        "-cudart=none",
    ]


def _without_device_linking(flags: Sequence[str]) -> list[str]:
    """Return nvcc's flags without those whose code needs a runtime that the simulator lacks.

    Each file's device code is complete in itself, as in load_inline's single file. Every stream of
    the simulator runs its work at once, so the choice of the default stream has no effect.
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
    """Separate the architecture options from nvcc's other flags.

    Returns:
        The newest named architecture that a device of architecture `ours` runs, else the newest
        named one, or None if none is named; and the other flags.
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
    """Return the command that links object files to an extension module."""
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
    """Return the path of the CUDA runtime's library.

    The name of a wheel's library contains the major version.
    """
    names = ("lib64/libcudart.so", "lib/libcudart.so", f"lib/libcudart.so.{cuda.release[0]}")
    paths = [cuda.home / name for name in names]
    if not cuda.include_paths:
        # Debian's own toolkit uses the system's folders.
        paths.append(Path("/usr/lib") / f"{platform.machine()}-linux-gnu" / "libcudart.so")
    return next((path for path in paths if path.exists()), paths[0])


def torch_version() -> str:
    """Return the release of torch, with its build label."""
    return str(torch.__version__)


def without_torch_folder(words: Iterable[str]) -> Iterator[str]:
    """Yield a command's words for a build's key, independent of the folder that contains torch.

    The ABI tag of its Python stands for the folder. A build contains no path to torch's libraries,
    which are loaded before it. So another environment with the same torch can use the build, unless
    its Python has another ABI.
    """
    folder = os.path.dirname(cpp_extension.include_paths("cpu")[0])  # noqa: PTH120 - as a text
    name = f"torch-{sysconfig.get_config_var('SOABI')}"
    return (word.replace(folder, name) for word in words)
