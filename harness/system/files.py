"""Write files so that a crash, a full disk or a second writer leaves no half of anything."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from harness.system.errors import UsageError


def require(paths: Iterable[Path], option: str = "") -> None:
    """See that files and folders are there; `option` is what named them, with a space behind it.

    Raises:
        UsageError: one of them is not.
    """
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"{option}{missing[0]}: no such file or folder")


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content at once: a reader sees the old text or the new one.

    Raises:
        OSError: it cannot be written; the old content is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A link stays one, and what it leads to is replaced.
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(suffix=".tmp", prefix=".", dir=target.parent)
    try:
        with open(descriptor, "w") as file:  # noqa: PTH123 - it is open already
            file.write(text)
            file.flush()
            # Else a machine that loses power may keep the new name and not what is in the file.
            os.fsync(descriptor)
        os.chmod(name, _usual_mode())  # noqa: PTH101 - mkstemp's files are for one user alone
        os.replace(name, target)  # noqa: PTH105 - mkstemp gives text
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - mkstemp gives text
        raise


def _usual_mode() -> int:
    """The permissions that a new file of this process gets."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, on a line of its own even if somebody's last one was broken off.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        glue = "\n" if end and not _ends_a_line(path) else ""
        write_or_nothing(file, f"{glue}{line}\n".encode())


def write_or_nothing(file: IO[bytes], data: bytes) -> None:
    """Write all of `data` at the end of an unbuffered file, in one call, or none of it.

    Raises:
        OSError: it cannot be written.
    """
    start = file.tell() if file.seekable() else None
    try:
        written = file.write(data)
        while written < len(data):
            # A full disk takes a part, and refuses the rest.
            written += file.write(data[written:])
    except OSError:
        if start is not None:
            with contextlib.suppress(OSError):
                file.truncate(start)
        raise


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
