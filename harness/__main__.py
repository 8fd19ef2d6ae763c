"""`python -m harness`, which is what the command `harness` runs."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command line; an interrupt is one line, however early it comes."""
    try:
        # Importing torch takes seconds.
        from harness.cli import main as run
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("harness: interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
