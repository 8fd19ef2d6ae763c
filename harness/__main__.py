"""`python -m harness`, and the command `harness`: the command line as a process."""

from __future__ import annotations

import os
import signal
import sys

_CANNOT, _INTERRUPTED, _TERMINATED = 2, 130, 143
_STANDARD_OUTPUT = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a command as Ctrl-C does, so that nothing that is known is lost."""


def main() -> int:
    """Run the command line; what ends it before its time is one line, however early it comes."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # Importing torch takes seconds.
        from harness.cli.main import main as run
        from harness.system import interpreter

        interpreter.settle()
        return run()
    except KeyboardInterrupt as interrupt:
        # One Ctrl-C is enough: a second one would only tear what the first one ends.
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
    """Say what the machine refused; answers the exit status."""
    # A reader who has gone, such as `head`, has seen what it wanted to see.
    if not isinstance(error, BrokenPipeError):
        where = error.filename or "standard output"
        from harness.system.output import say

        say(f"harness: {where}: {error.strerror or error}", sys.stderr)
    # What standard output did not take would be tried once more at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
    return _CANNOT


if __name__ == "__main__":
    sys.exit(main())
