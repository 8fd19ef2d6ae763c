"""Writing of files in a way that is safe against crashes, full disks and concurrent writers.

A write that fails leaves no partly written file or line.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from harness.system.errors import UsageError


def require(paths: Iterable[Path], option: str = "") -> None:
    """Check that all given files and folders exist.

    Args:
        paths: The files and folders.
        option: The option that gave the paths, with a trailing space, for the message.

    Raises:
        UsageError: A path does not exist.
    """
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"{option}{missing[0]}: no such file or folder")


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content atomically: a reader sees either the old or the new text.

    Raises:
        OSError: The file cannot be written; it keeps its old content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A symbolic link stays a link; the file that it points to is replaced.
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(suffix=".tmp", prefix=".", dir=target.parent)
    try:
        with open(descriptor, "w") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(text)
            file.flush()
            # Without this, a power failure may keep the new name but lose the file's content.
            os.fsync(descriptor)
        os.chmod(name, _usual_mode())  # noqa: PTH101 - mkstemp's files are private to the user
        os.replace(name, target)  # noqa: PTH105 - mkstemp returns text
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - mkstemp returns text
        raise


def _usual_mode() -> int:
    """Return the permission bits that this process gives to a new file.

    The umask can only be read by setting it.
    """
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def append_line(path: Path, line: str) -> None:
    """Append a line to a file; it begins a new line even if the file's last line is incomplete.

    Raises:
        OSError: The line cannot be written; the file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        glue = "\n" if end and not _ends_a_line(path) else ""
        # One call in append mode: the kernel then puts the line at the end even if another process
        # writes too.
        write_or_nothing(file, f"{glue}{line}\n".encode())


def write_or_nothing(file: IO[bytes], data: bytes) -> None:
    """Write all of `data` at the end of an unbuffered file; if that fails, write nothing.

    Raises:
        OSError: The data cannot be written; a seekable file is cut back to its old length.
    """
    start = file.tell() if file.seekable() else None
    try:
        written = file.write(data)
        while written < len(data):
            # A full disk accepts a part; the next call then raises.
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
