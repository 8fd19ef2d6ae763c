"""Extraction of PTX from a fat binary, which nvcc puts into an object file.

NVIDIA does not document the layout; it was derived from the output of nvcc 13.0. A fat binary has a
header (magic number, version, size of the header, size of the rest), followed by entries. Each
entry has a header (kind, version, size of the entry's header, size of the payload) and a payload.
If nvcc ran with `-no-compress`, the payload of a PTX entry is the PTX text. The entry's header
contains nvcc's options for ptxas.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = 0xBA55ED50
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_HEADER = struct.Struct("<IHHQ")
_BEGINNING = struct.pack("<IHH", _MAGIC, 1, _HEADER.size)
"""First bytes of a fat binary; its version, 1, is the only one that exists."""
_ENTRY = struct.Struct("<HHIQ")
_KIND_PTX = 1


@dataclass(frozen=True)
class DeviceCode:
    """The PTX of a fat binary.

    Attributes:
        ptx: The PTX text.
        options: The options that nvcc was told to pass to ptxas; only `-maxrregcount` is kept.
    """

    ptx: str
    options: tuple[str, ...] = ()


class FatBinaryError(ValueError):
    """The bytes are not a fat binary with uncompressed PTX text."""


def images_in(library: bytes) -> Iterator[bytes]:
    """Yield the bytes of each fat binary in a shared object, in order.

    A header within a fat binary that was already yielded is skipped. Otherwise, an untrusted
    library with many nested headers could have its bytes yielded many times.
    """
    start = library.find(_BEGINNING)
    while start >= 0:
        end = start + 1
        if start + _HEADER.size <= len(library):
            size = _HEADER.unpack_from(library, start)[-1]
            if size <= len(library) - start - _HEADER.size:
                end = start + _HEADER.size + size
                yield library[start:end]
        start = library.find(_BEGINNING, end)


def device_code_of(image: bytes) -> DeviceCode:
    """Return the first PTX text in a fat binary, with its `-maxrregcount` option.

    Raises:
        FatBinaryError: The bytes are not a fat binary, or have no PTX text in UTF-8.
    """
    if len(image) < _HEADER.size or not image.startswith(_MAGIC_BYTES):
        raise FatBinaryError(f"not a fat binary: it begins with 0x{image[3::-1].hex()}")
    _, _, header_size, size = _HEADER.unpack_from(image)
    body = image[header_size : header_size + size]
    offset = 0
    while offset + _ENTRY.size <= len(body):
        kind, _, entry_header, payload = _ENTRY.unpack_from(body, offset)
        if entry_header < _ENTRY.size:
            break
        text = body[offset + entry_header : offset + entry_header + payload]
        if kind == _KIND_PTX and text.lstrip().startswith((b"//", b".version")):
            header = body[offset : offset + entry_header]
            # This is the only option that changes the resources that a kernel takes of a
            # multiprocessor.
            options = re.findall(rb"-maxrregcount[ =]\d+", header)
            return DeviceCode(_decoded(text.rstrip(b"\0")), tuple(o.decode() for o in options))
        offset += entry_header + payload
    raise FatBinaryError("no PTX text in the fat binary; was it compiled without -no-compress?")


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise FatBinaryError("the PTX in the fat binary is no text") from None
