"""Find the PTX in a fat binary, as nvcc puts it into an object file.

The layout is not documented; it was read off nvcc 13.0's output: a header (magic number, version,
own size, size of what follows) and then entries (kind, version, own header's size, payload size).
With `-no-compress` the payload of a PTX entry is its text.
"""

from __future__ import annotations

import ctypes
import struct

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_KIND_PTX = 1


class FatBinaryError(ValueError):
    """The image is not what nvcc makes of CUDA C++ with the harness's own flags."""


def ptx_of(address: int) -> str:
    """The PTX text of the fat binary in memory at `address`.

    Raises:
        FatBinaryError: it has none.
    """
    magic, _, header_size, size = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    if magic != _MAGIC:
        raise FatBinaryError(f"not a fat binary: it begins with 0x{magic:08x}")
    body = ctypes.string_at(address + header_size, size)
    offset = 0
    while offset + _ENTRY.size <= len(body):
        kind, _, entry_header, payload = _ENTRY.unpack_from(body, offset)
        text = body[offset + entry_header : offset + entry_header + payload]
        if kind == _KIND_PTX and text.lstrip().startswith((b"//", b".version")):
            return text.rstrip(b"\0").decode()
        offset += entry_header + payload
    raise FatBinaryError("no PTX text in the fat binary; was it compiled without -no-compress?")
