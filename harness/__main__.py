"""`python -m harness`, and the command `harness`: the command line as a process."""

from __future__ import annotations

import os
import signal
import sys

_CANNOT, _INTERRUPTED = 2, 130
_STANDARD_OUTPUT = 1


def main() -> int:
    """Run the command line; what ends it before its time is one line, however early it comes."""
    try:
        # Importing torch takes seconds.
        from harness import interpreter
        from harness.cli import main as run

        interpreter.settle()
        return run()
    except KeyboardInterrupt as interrupt:
        # One Ctrl-C is enough: a second one would only tear what the first one ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("; ".join(("harness: interrupted", *interrupt.args)), file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        return _refused(error)


def _refused(error: OSError) -> int:
    """Say what the machine refused; answers the exit status."""
    # A reader who has gone, such as `head`, has seen what it wanted to see.
    if not isinstance(error, BrokenPipeError):
        where = error.filename or "standard output"
        print(f"harness: {where}: {error.strerror or error}", file=sys.stderr)
    # What standard output did not take would be tried once more at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
    return _CANNOT


if __name__ == "__main__":
    sys.exit(main())
