"""The resources of a multiprocessor that a kernel uses, and the kernel's theoretical occupancy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from harness.compiler.cache import Cache, Product, digest
from harness.compiler.compiler import Compiler
from harness.compiler.job import Job
from harness.compiler.ninja import Step
from harness.compiler.toolchain import CudaCompiler
from harness.simulator.ptx.fatbinary import DeviceCode

_USAGE = "usage.txt"
_CUBIN = "kernels.cubin"
_WARP = 32
_REGISTERS = 65536
_PARTITIONS = 4
_THREADS_OF_A_BLOCK = 1024
_REGISTER_UNIT = 256
"""A multiprocessor allocates registers to a warp in units of this many."""
_SHARED_UNIT = 128
"""A multiprocessor allocates shared memory to a block in units of this many bytes."""
_SHARED_OF_THE_SYSTEM = 1024
"""Bytes of shared memory that CUDA reserves in each block, from compute capability 8.0 on."""


@dataclass(frozen=True)
class Resources:
    """The resource usage of one kernel, as ptxas reports it.

    Attributes:
        registers: Registers of a thread.
        spill_store_bytes: Bytes of spilled registers that a thread stores.
        spill_load_bytes: Bytes of spilled registers that a thread loads.
        stack_bytes: Stack frame of a thread, in bytes.
        shared_bytes: Static shared memory of a block, in bytes.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Multiprocessor:
    """The limits of one multiprocessor, from the table of compute capabilities in CUDA's guide.

    Attributes:
        warps: The most resident warps.
        blocks: The most resident blocks.
        shared_bytes: Shared memory of all resident blocks together, in bytes.
    """

    warps: int
    blocks: int
    shared_bytes: int


MULTIPROCESSORS: Final = MappingProxyType(
    {
        "80": Multiprocessor(64, 32, 164 << 10),
        "86": Multiprocessor(48, 16, 100 << 10),
        "89": Multiprocessor(48, 24, 100 << 10),
        "90": Multiprocessor(64, 32, 228 << 10),
    }
)
"""The limits by compute capability without the dot."""


@dataclass(frozen=True)
class Occupancy:
    """A kernel's occupancy: the fraction of a multiprocessor's warps that can be resident.

    Attributes:
        blocks: Resident blocks of a multiprocessor.
        warps: Resident warps of a multiprocessor.
        fraction: Resident warps over the most that a multiprocessor can hold.
        limited_by: The resource that limits the blocks: `warps`, `blocks`, `registers` or
            `shared memory`.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def occupancy(
    registers: int, shared_bytes: int, threads: int, architecture: str = "90"
) -> Occupancy:
    """Return a kernel's theoretical occupancy, by the rules of NVIDIA's cuda_occupancy.h.

    Args:
        registers: Registers of a thread.
        shared_bytes: Static and dynamic shared memory of a block, in bytes.
        threads: Threads of a block.
        architecture: Compute capability without its dot, such as `90`.

    Raises:
        KeyError: `MULTIPROCESSORS` does not have the architecture.

    >>> occupancy(32, 0, 256).fraction
    1.0
    >>> occupancy(64, 48 << 10, 128)
    Occupancy(blocks=4, warps=16, fraction=0.25, limited_by='shared memory')
    """
    limits = MULTIPROCESSORS[architecture]
    warps = -(-threads // _WARP)
    shared = _up(shared_bytes + _SHARED_OF_THE_SYSTEM, _SHARED_UNIT)
    fitting = {
        "warps": limits.warps // warps if threads <= _THREADS_OF_A_BLOCK else 0,
        "blocks": limits.blocks,
        "registers": _warps_by_registers(registers) // warps,
        "shared memory": limits.shared_bytes // shared,
    }
    limited_by = min(fitting, key=lambda name: fitting[name])
    blocks = fitting[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.warps, limited_by)


def max_threads_by_registers(registers: int) -> int:
    """Return the most threads that a block can have if each thread has `registers` registers.

    >>> max_threads_by_registers(64), max_threads_by_registers(65), max_threads_by_registers(16)
    (1024, 896, 1024)
    """
    return min(_warps_by_registers(registers) * _WARP, _THREADS_OF_A_BLOCK)


def _warps_by_registers(registers: int) -> int:
    """Return the most warps that a multiprocessor's registers suffice for.

    Each of the four partitions has its own registers and holds whole warps, so the result is a
    multiple of four. `registers` is the number of registers of a thread.
    """
    per_warp = _up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    return _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def resource_usage(home: CudaCompiler, compiler: Compiler, cache: Cache, code: DeviceCode) -> str:
    """Return the output of `ptxas -v` for all kernels of a fat binary; `parse_usage` parses it.

    The output is cached by the version of the toolkit, the PTX and the options.

    Args:
        home: The CUDA toolkit that has ptxas.
        compiler: Runs ptxas.
        cache: Stores the output.
        code: The PTX and the options for ptxas.

    Raises:
        harness.compiler.compiler.CompileTimeout: ptxas did not finish before the deadline.
        CompileError: ptxas rejects the code, or the toolkit has no ptxas.
    """
    key = digest(("ptxas -v", home.version, code.ptx, *code.options))
    entry = cache.get_or_build(key, partial(_assemble, home.home / "bin" / "ptxas", compiler, code))
    return entry.library.read_text()


def assembled(home: CudaCompiler, compiler: Compiler, cache: Cache, code: DeviceCode) -> bytes:
    """Return the cubin that ptxas makes of a fat binary's PTX.

    Arguments, caching and errors are those of `resource_usage`.
    """
    key = digest(("ptxas", home.version, code.ptx, *code.options))
    entry = cache.get_or_build(
        key, partial(_assemble, home.home / "bin" / "ptxas", compiler, code, product=_CUBIN)
    )
    return entry.library.read_bytes()


def _assemble(
    ptxas: Path, compiler: Compiler, code: DeviceCode, folder: Path, *, product: str = _USAGE
) -> Product:
    """Run ptxas as a job of the compiler, and write one of its products to a file in `folder`.

    The product is the text that `ptxas -v` prints, or the machine code.
    """
    target = re.search(r"^\.target\s+(\w+)", code.ptx, re.MULTILINE)
    command = [str(ptxas), "-v", "--gpu-name", target[1] if target else "sm_90", *code.options]
    command += ["kernels.ptx", "-o", _CUBIN]
    # ptxas prints the resources, so a shell redirects its output into a file. If ptxas fails, the
    # shell prints that file for the error message.
    printing = ("sh", "-c", f'"$@" >{_USAGE} 2>&1 || {{ cat {_USAGE}; false; }}', "sh", *command)
    job = Job(
        files=(("kernels.ptx", code.ptx),),
        attempts=((Step(product, printing, ("kernels.ptx",)),),),
        then=(),
        product=product,
    )
    (folder / product).write_bytes(compiler.run(job).product or b"")
    return Product(folder / product)


def parse_usage(output: str) -> dict[str, Resources]:
    """Parse the output of `ptxas -v` into the resource usage of each kernel, by mangled name."""
    found = {}
    for part in output.split("Compiling entry function '")[1:]:
        name, rest = part.split("'", 1)

        def number(pattern: str, rest: str = rest) -> int:
            match = re.search(pattern, rest)
            return int(match[1]) if match else 0

        found[name] = Resources(
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes spill stores"),
            number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes smem"),
        )
    return found
