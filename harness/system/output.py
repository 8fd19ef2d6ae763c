"""Where the reports of a run go as each is there: what cannot be written hurts nothing else."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from harness.system.escape import one_line
from harness.system.files import write_or_nothing


def say(line: str, out: IO[str]) -> None:
    """Print a line for people, whatever text of strangers is in it."""
    print(one_line(line), file=out, flush=True)


class JsonLines:
    """What `--json` names: a file that holds whole lines whatever happens, or standard output."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    @property
    def is_standard_output(self) -> bool:
        """Whether text for people has to go elsewhere."""
        return self._file is None

    def write(self, line: str) -> None:
        """Add a line.

        Raises:
            OSError: it cannot be written; the file ends with the line before.
        """
        if self._file is None:
            print(line, flush=True)
        else:
            write_or_nothing(self._file, f"{line}\n".encode())


def open_json(target: str, stack: ExitStack) -> JsonLines:
    """Open what `--json` names, `-` being standard output; the stack closes it.

    Raises:
        OSError: it cannot be opened.
    """
    if target == "-":
        return JsonLines(None)
    return JsonLines(stack.enter_context(Path(target).open("wb", buffering=0)))


# What is wrong with one file, or its name, and not with the place where it belongs.
_OF_ONE_FILE = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR)


class CarefulWriter:
    """Writes to several places; says once of each that cannot be written to, and leaves it then.

    What is the matter with one file alone is said of that, and the next one is written.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._given_up: set[str] = set()
        self._left_out = 0

    @property
    def all_well(self) -> bool:
        """Whether everything was written."""
        return not self._given_up and not self._left_out

    def write(self, where: str, write: Callable[[], None]) -> None:
        """Write, where that has worked so far."""
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
