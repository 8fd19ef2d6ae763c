"""Search for functions that an extension would take from a real GPU's libraries.

A torch that was built for CUDA loads these libraries. If the simulator lacks a function, the
dynamic linker would take the function from one of these libraries. A call of that function would
fail because there is no GPU, and the message would not name the missing function.
"""

from __future__ import annotations

import ctypes
import io
import re
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_OF_A_GPU = re.compile(
    r"lib(c10_cuda|torch_cuda\w*|torch_nvshmem|cuda|cudart|cu[a-z]+(Lt)?|nv[\w-]+|nccl)\.so[.\d]*"
)


class _Where(ctypes.Structure):
    """`Dl_info` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def symbols_of_a_gpu(library: bytes) -> list[str]:
    """Return a shared object's undefined symbols that this process finds in CUDA's libraries."""
    table = ELFFile(io.BytesIO(library)).get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return []
    undefined = [each.name for each in table.iter_symbols() if each["st_shndx"] == "SHN_UNDEF"]
    return sorted(name for name in filter(None, undefined) if _is_of_a_gpu(name))


def _is_of_a_gpu(name: str) -> bool:
    """Return whether this process would find a symbol in one of CUDA's own libraries."""
    process = ctypes.CDLL(None)
    try:
        address = ctypes.cast(process[name], ctypes.c_void_p)
    except AttributeError:
        return False
    where = _Where()
    found = process.dladdr(address, ctypes.byref(where))
    return bool(found) and _OF_A_GPU.fullmatch(Path(where.file.decode()).name) is not None
