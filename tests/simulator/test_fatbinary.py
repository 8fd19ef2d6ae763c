"""The search for fat binaries in a library, on an input that was built to make the search slow."""

from __future__ import annotations

import struct

from harness.simulator.ptx.fatbinary import images_in


def image(content: bytes) -> bytes:
    """Return a fat binary: the header that nvcc writes, and the content."""
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def test_no_fat_binary_lies_within_another() -> None:
    """A fat binary that contains 131,072 more headers counts as one fat binary.

    The search then finds the fat binary that follows it.
    """
    nested = b"".join(image(b"")[:-8] + struct.pack("<Q", 1 << 20) for _ in range(1 << 17))
    whole = image(nested)
    library = b"code" + whole + b"data" + image(b"second") + image(b"")[:10]
    assert list(images_in(library)) == [whole, image(b"second")]
