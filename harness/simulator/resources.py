"""What a kernel takes of a multiprocessor: ptxas's figures, and how many warps fit."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from harness.build.cache import Cache, Product, digest
from harness.build.toolchain import CudaCompiler

_WARP = 32
_REGISTERS = 65536
_PARTITIONS = 4
_REGISTER_UNIT = 256
"""Registers are given to a warp in pieces of this many."""
_SHARED_UNIT = 128
_SHARED_OF_THE_SYSTEM = 1024
"""Bytes of shared memory that each block takes besides its own, from compute capability 8.0 on."""


@dataclass(frozen=True)
class Resources:
    """What ptxas says of one kernel: registers of a thread, bytes of a thread or block."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one multiprocessor, from the table of compute capabilities in CUDA's guide."""

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
"""By compute capability."""


@dataclass(frozen=True)
class Occupancy:
    """How many of a multiprocessor's warps a kernel can keep there, and what keeps it from more."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def occupancy(
    registers: int, shared_bytes: int, threads: int, architecture: str = "90"
) -> Occupancy:
    """The theoretical occupancy, by the rules of NVIDIA's cuda_occupancy.h.

    Args:
        registers: of one thread.
        shared_bytes: of one block, static and dynamic.
        threads: of one block.
        architecture: compute capability without the dot.

    Raises:
        KeyError: the architecture's limits are not known.

    >>> occupancy(32, 0, 256).fraction
    1.0
    >>> occupancy(64, 48 << 10, 128)
    Occupancy(blocks=4, warps=16, fraction=0.25, limited_by='shared memory')
    """
    limits = MULTIPROCESSORS[architecture]
    warps = -(-threads // _WARP)
    registers_per_warp = _up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    warps_per_partition = _REGISTERS // _PARTITIONS // registers_per_warp
    shared = _up(shared_bytes + _SHARED_OF_THE_SYSTEM, _SHARED_UNIT)
    fitting = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": warps_per_partition * _PARTITIONS // warps,
        "shared memory": limits.shared_bytes // shared,
    }
    limited_by = min(fitting, key=lambda name: fitting[name])
    blocks = fitting[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.warps, limited_by)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def resource_usage(
    compiler: CudaCompiler, cache: Cache, ptx_texts: Iterable[str]
) -> dict[str, Resources]:
    """The figures of ptxas for every kernel of some PTX files, by mangled name.

    They are kept in the cache. A file that ptxas refuses, or a compiler without ptxas, gives none.
    """
    ptxas = compiler.home / "bin" / "ptxas"
    found: dict[str, Resources] = {}
    for text in ptx_texts:
        key = digest(("ptxas -v", compiler.version, text))
        try:
            entry = cache.get_or_build(key, partial(_assemble, ptxas, text))
        except (OSError, subprocess.CalledProcessError):
            continue
        found |= parse_usage(entry.library.read_text())
    return found


def _assemble(ptxas: Path, text: str, folder: Path) -> Product:
    (folder / "kernels.ptx").write_text(text)
    target = re.search(r"^\.target\s+(\w+)", text, re.MULTILINE)
    command = [str(ptxas), "-v", "--gpu-name", target[1] if target else "sm_90"]
    command += ["kernels.ptx", "-o", "kernels.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (folder / "kernels.cubin").unlink()
    (folder / "usage.txt").write_text(done.stderr + done.stdout)
    return Product(folder / "usage.txt")


def parse_usage(output: str) -> dict[str, Resources]:
    """Resources by mangled name, from what `ptxas -v` prints."""
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
