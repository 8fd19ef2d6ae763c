"""Compilation of the simulator's shared objects.

The device process, which simulates kernels, needs one shared object with C functions. A worker,
which runs a submission's Python code, needs three: a CUDA runtime, a PyTorch device and Python
bindings.
"""

from __future__ import annotations

import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from torch.utils import cpp_extension

from harness.compiler.builder import build_shared_library
from harness.compiler.cache import Cache, Entry, Product, digest
from harness.compiler.flags import OVERLAY, SIMULATED, torch_language_standard
from harness.compiler.toolchain import Toolchain, find_c_compiler
from harness.simulator.layout.header import NAME, header

_HERE = Path(__file__).parent
_MACHINE_SOURCES = tuple(sorted(_HERE.glob("*.c")))
# Libraries stand on the command line before the sources that need them. Without this option the
# linker would drop them.
_LINK_ALL = "-Wl,--no-as-needed"


@dataclass(frozen=True)
class Libraries:
    """Paths of the simulator's compiled shared objects.

    A worker is the process that runs a submission's Python and host code.

    Attributes:
        runtime: The CUDA runtime of a worker, which sends calls to the device process.
        device: The implementation of PyTorch's `cuda` device in a worker.
        bindings: The part of a submission's extensions that converts Python arguments and results
            (pybind11), compiled once for all extensions.
        machine: The C functions that the device process needs to run kernels.
    """

    runtime: Path
    device: Path
    bindings: Path
    machine: Path


def build_machine_library(cache: Cache) -> Path:
    """Compile the C functions that simulate kernels, unless the cache has them.

    Return the path of the shared object.

    Raises:
        harness.compiler.toolchain.ToolchainError: There is no C compiler.
    """
    return build_shared_library(
        cache,
        "libsimulator.so",
        find_c_compiler(),
        ["-O2", f"-I{_layout(cache)}"],
        [*_MACHINE_SOURCES],
        # Its functions call each other even in a process that has also loaded a worker's runtime,
        # which defines some of the same names.
        ["-Wl,-Bsymbolic", _LINK_ALL, "-lm"],
    ).library


def build_libraries(cache: Cache, toolchain: Toolchain) -> Libraries:
    """Compile all shared objects of the simulator that the cache does not have.

    Return their paths. The compilation takes half a minute.

    Raises:
        harness.compiler.ninja.CompileError: A shared object does not compile. If it is the PyTorch
            device, this release of torch has changed its internals.
        harness.compiler.toolchain.ToolchainError: There is no C compiler.
    """
    layout = _layout(cache)
    with ThreadPoolExecutor(3) as side_by_side:
        runtime = side_by_side.submit(_build_runtime, cache, toolchain, layout)
        device = side_by_side.submit(_build_device, cache, toolchain, layout)
        bindings = side_by_side.submit(_build_bindings, cache, toolchain)
        machine = build_machine_library(cache)
    return Libraries(
        runtime.result().library, device.result().library, bindings.result().library, machine
    )


def _build_runtime(cache: Cache, toolchain: Toolchain, layout: Path) -> Entry:
    includes = [word for path in toolchain.cuda.include_paths for word in ("-isystem", str(path))]
    return build_shared_library(
        cache,
        "libharness_cudart.so",
        find_c_compiler(),
        ["-O2", "-Wall", "-Wextra", f"-I{layout}", *includes],
        [_HERE / "tensor_map.c", *sorted(_HERE.glob("cudart/*.c"))],
        [_LINK_ALL, "-lpthread", "-ldl"],
    )


def _build_device(cache: Cache, toolchain: Toolchain, layout: Path) -> Entry:
    return _build_for_torch(
        cache,
        toolchain,
        "libharness_device.so",
        [f"-I{SIMULATED}", f"-I{_HERE}", f"-I{layout}"],
        [_HERE / "device.cpp", _HERE / "slim.cpp"],
        # With a static libstdc++, torch could not catch the exceptions that this library throws.
        ["-l:libstdc++.so.6"],
        [*(_HERE / "cudart").glob("*.h"), *SIMULATED.rglob("*.h")],
    )


def _build_bindings(cache: Cache, toolchain: Toolchain) -> Entry:
    python = ["-isystem", sysconfig.get_path("include", scheme="posix_prefix")]
    sources = [_HERE / "bindings.cpp"]
    name = "libharness_bindings.so"
    return _build_for_torch(cache, toolchain, name, python, sources, ["-ltorch_python"], [])


def _build_for_torch(
    cache: Cache,
    toolchain: Toolchain,
    name: str,
    includes: list[str],
    sources: list[Path],
    libraries: list[str],
    headers: list[Path],
) -> Entry:
    folders = [*cpp_extension.include_paths("cpu"), *map(str, toolchain.cuda.include_paths)]
    theirs = [word for folder in folders for word in ("-isystem", folder)]
    places = [f"-L{path}" for path in cpp_extension.library_paths("cpu")]
    return build_shared_library(
        cache,
        name,
        toolchain.host,
        [torch_language_standard(), "-O1", *includes, *theirs],
        sources,
        [*places, _LINK_ALL, "-lc10", "-ltorch_cpu", *libraries],
        [*headers, OVERLAY / "slim" / "harness" / "functions.h"],
    )


def _layout(cache: Cache) -> Path:
    """Write the C header `layout.h`, which is generated from Python; return its folder.

    The folder's name is the digest of the header. The compiler's flags contain this name, so the
    shared objects are rebuilt if the header changes.
    """
    text = header()

    def write(folder: Path) -> Product:
        (folder / NAME).write_text(text)
        return Product(folder / NAME)

    return cache.get_or_build(digest((NAME, text)), write).library.parent
