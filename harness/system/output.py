"""Output of text for users and of JSON lines; a write that fails does not stop other output."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from harness.system.escape import one_line
from harness.system.files import write_or_nothing


def say(line: str, out: IO[str]) -> None:
    """Print one line for users, with control characters of untrusted text replaced."""
    print(one_line(line), file=out, flush=True)


class JsonLines:
    """The target of `--json`: standard output, or a file that never holds a partial line."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    @property
    def is_standard_output(self) -> bool:
        """True if the lines go to standard output; text for users must then go to stderr."""
        return self._file is None

    def write(self, line: str) -> None:
        """Append a line of JSON to the target.

        Raises:
            OSError: The line cannot be written; the file still ends with the previous line.
        """
        if self._file is None:
            print(line, flush=True)
        else:
            write_or_nothing(self._file, f"{line}\n".encode())


def open_json(target: str, stack: ExitStack) -> JsonLines:
    """Open the target of `--json`: a file, or standard output for `-`; `stack` closes it.

    Raises:
        OSError: The file cannot be opened.
    """
    if target == "-":
        return JsonLines(None)
    return JsonLines(stack.enter_context(Path(target).open("wb", buffering=0)))


# Errors that concern one file or its name, and not the folder or disk to write to.
_OF_ONE_FILE = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR)


class FaultTolerantWriter:
    """Writes to several destinations; reports the errors of one and continues with the others.

    If a destination fails (full disk, no permission), the error is reported once, and the
    destination is skipped from then on. If the error concerns only one
    file of a destination (such as an invalid name), it is reported. The destination's next file is
    then still written.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._given_up: set[str] = set()
        self._left_out = 0

    @property
    def all_well(self) -> bool:
        """True if no write has failed."""
        return not self._given_up and not self._left_out

    def write(self, where: str, write: Callable[[], None]) -> None:
        """Call `write` for the destination named `where`, unless it has failed before."""
        if where in self._given_up:
            return
        try:
            write()
        except ValueError as error:
            self._leave_out(where, str(error))
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in _OF_ONE_FILE:
                self._leave_out(where, f"{error.filename2 or error.filename}: {reason}")
                return
            self._given_up.add(where)
            self._say(one_line(f"harness: {where}: {reason}; nothing more is written there"))

    def _leave_out(self, where: str, reason: str) -> None:
        self._left_out += 1
        self._say(one_line(f"harness: {where}: {reason}; this one is not written there"))
