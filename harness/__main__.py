"""The entry point of the command line: `python -m harness`, and the command `harness`."""

from __future__ import annotations

import os
import signal
import sys

_CANNOT, _INTERRUPTED, _TERMINATED = 2, 130, 143
_STANDARD_OUTPUT = 1


class Terminated(KeyboardInterrupt):
    """The exception for SIGTERM; like Ctrl-C, it ends a command and keeps finished results."""


def main() -> int:
    """Run the command line; report an interrupt or an OSError in one line, even during imports."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # Imported here, because importing torch takes seconds in which a signal may come.
        from harness.cli.main import main as run
        from harness.system import interpreter

        interpreter.settle()
        return run()
    except KeyboardInterrupt as interrupt:
        # Ignore further signals: a second Ctrl-C would interrupt the cleanup of the first.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        is_ended = isinstance(interrupt, Terminated)
        how = "terminated" if is_ended else "interrupted"
        print("; ".join((f"harness: {how}", *interrupt.args)), file=sys.stderr)
        return _TERMINATED if is_ended else _INTERRUPTED
    except OSError as error:
        return _refused(error)


def _terminate(*_: object) -> None:
    raise Terminated


def _refused(error: OSError) -> int:
    """Print the file and reason of an OSError (nothing for a closed pipe); return exit status 2."""
    # A reader that has closed the pipe, such as `head`, has read all it needs.
    if not isinstance(error, BrokenPipeError):
        where = error.filename or "standard output"
        from harness.system.output import say

        say(f"harness: {where}: {error.strerror or error}", sys.stderr)
    # Python would try to flush standard output once more at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
    return _CANNOT


if __name__ == "__main__":
    sys.exit(main())
