"""Compiler commands of an extension, for the simulator and for a GPU.

The commands are those of `torch.utils.cpp_extension` with additions for each target. `tried.py`
lists the supported releases of torch.
"""

from __future__ import annotations

import functools
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

from harness.compiler.architectures import Image, image_for, images_of
from harness.compiler.cuda_homes import wheel_homes
from harness.compiler.toolchain import DEFAULT_ARCHITECTURE, CudaCompiler, Toolchain
from harness.system.device import Device

OVERLAY = Path(__file__).parent / "include"
# The headers of the simulated CUDA, which belong to the simulator's runtime. Only their place is
# known here.
SIMULATED = Path(__file__).parents[1] / "simulator" / "include"
"""Folder of the harness's own headers."""

Headers = Literal["slim17", "slim", "light", "full"]
"""Levels of torch headers that a source is compiled with; `full` is torch's own headers.

`slim17` is the slim headers with C++17 in place of torch's language standard.
"""

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
        device: The device that runs the extension: `simulator` or `cuda`.
        architecture: A compute capability without its dot, such as `90` or `90a`.
    """

    device: Device
    architecture: str = DEFAULT_ARCHITECTURE


@dataclass(frozen=True)
class Extension:
    """The sources and options of an extension, from a submission's call of `load_inline` or `load`.

    Attributes:
        name: Name of the extension module.
        sources: Pairs (file name, text). nvcc compiles `.cu` and `.cuh` files; the C++ compiler
            compiles the others.
        cpp_flags: The submission's arguments for the C++ compiler, split as torch would pass them.
        cuda_flags: Arguments for nvcc, from the submission and from torch's defaults.
        link_flags: The submission's arguments for the linker.
        include_paths: Absolute paths of folders with headers.
        with_cuda: True if CUDA's headers and libraries are to be used.
    """

    name: str
    sources: tuple[tuple[str, str], ...]
    cpp_flags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    with_cuda: bool = True


def is_slim(headers: Headers) -> bool:
    """Return whether a level of headers is the slim ones, in whichever language standard."""
    return headers in ("slim", "slim17")


def is_cuda_source(name: str) -> bool:
    """Return whether nvcc compiles a source of this name: `.cu` or `.cuh`."""
    return name.endswith((".cu", ".cuh"))


@functools.cache
def torch_language_standard() -> str:
    """Return the `-std=` flag that this release of torch passes for extensions."""
    source = inspect.getsource(cpp_extension._write_ninja_file_to_build_library)
    found = re.search(r"-std=c\+\+\d+", source)
    return found[0] if found else "-std=c++17"


def include_flags(
    extension: Extension, toolchain: Toolchain, target: Target, *, headers: Headers
) -> list[str]:
    """Return the include flags: the submission's folders, the harness's, torch's, then CUDA's."""
    ours = [] if headers == "full" else [OVERLAY / ("slim" if is_slim(headers) else headers)]
    if target.device == "simulator":
        ours.append(SIMULATED)
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
    """Return flags that include the headers which a source needs in addition to the light headers.

    The light headers contain the operators that nearly every submission calls (`torch::NAME`,
    `at::NAME`). Each other operator has a header of its own. For nvcc, the light headers contain no
    conversions to Python, so a CUDA source with bindings gets further headers.
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

    All C++ sources that are compiled with the same options and the light headers can use the
    result. The command does not define TORCH_EXTENSION_NAME, because the name differs between
    extensions.
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
    images, flags = images_of(kept)
    # Images for newer devices alone run, too; a note says so.
    newest = max(images, key=lambda each: each.number, default=None)
    image = image_for(images, int(target.architecture)) or newest
    virtual = f"compute_{image.virtual if image else target.architecture}"
    # Only uncompressed PTX, and no CUDA runtime: the host code calls the simulator's own runtime
    # (simulator/cudart/).
    return [
        *flags,
        f"-gencode=arch={virtual},code={virtual}",
        "-no-compress",
        "-cudart=none",
    ]


def _without_device_linking(flags: Sequence[str]) -> list[str]:
    """Return nvcc's flags without those for device linking, the CUDA runtime and default streams.

    The simulator does not link device code, so the device code of each file has to be complete. The
    only default stream of the simulator is CUDA's legacy default stream.
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


def images_for_other_devices(extension: Extension, target: Target) -> tuple[Image, ...]:
    """Return the images that a submission's flags ask for, if the target runs none of them."""
    if target.device == "cuda" or not extension.with_cuda:
        return ()
    images, _ = images_of(extension.cuda_flags)
    return () if image_for(images, int(target.architecture)) else images


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
    """Return the path of the CUDA runtime's shared library, libcudart.

    In PyPI's packages, the name of the library contains CUDA's major version.
    """
    names = ("lib64/libcudart.so", "lib/libcudart.so", f"lib/libcudart.so.{cuda.release[0]}")
    paths = [cuda.home / name for name in names]
    if not cuda.include_paths:
        # Debian's own toolkit uses the system's folders.
        paths.append(Path("/usr/lib") / f"{platform.machine()}-linux-gnu" / "libcudart.so")
    return next((path for path in paths if path.exists()), paths[0])


def torch_version() -> str:
    """Return the installed release of torch with its build label, such as `2.9.0+cpu`."""
    return str(torch.__version__)


def without_torch_folder(words: Iterable[str]) -> Iterator[str]:
    """Yield a command's words for a cache key, with torch's folder replaced by Python's ABI tag.

    A built extension contains no path to torch's libraries, because the libraries are loaded before
    the extension. So another environment with the same torch and the same ABI of Python can use the
    build.
    """
    folder = os.path.dirname(cpp_extension.include_paths("cpu")[0])  # noqa: PTH120 - as a text
    name = f"torch-{sysconfig.get_config_var('SOABI')}"
    return (word.replace(folder, name) for word in words)
