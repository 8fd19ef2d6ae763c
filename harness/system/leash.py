"""Start of programs that end when the process that started them ends, even if it is killed.

The command line from `command` runs this file before the program: `leash.py PARENT SIGNAL PROGRAM
...`. This file asks Linux for a signal at the parent's death (`prctl(2)`, PR_SET_PDEATHSIG)
and then executes the program. A `preexec_fn` of subprocess could do the same, but may deadlock,
because other threads may hold locks at the fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_EXIT_SECONDS = 5.0


def command(program: Sequence[str], when_alone: signal.Signals = signal.SIGTERM) -> list[str]:
    """Return a command line for a program that gets signal `when_alone` once this process ends.

    Linux also sends the signal when the thread that started the program ends. So that thread must
    wait for the program.
    """
    own = str(Path(__file__).resolve())
    # -I and -S keep the user's packages and the current folder off the import path.
    return [sys.executable, "-I", "-S", own, str(os.getpid()), str(int(when_alone)), *program]


def run(program: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that ends its own children on SIGTERM; return its exit status and output.

    If an exception interrupts this call, the program gets SIGTERM and 5 seconds to end.
    """
    with subprocess.Popen(
        command(program),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A signal to this process's group must not reach the program: it needs time to end its
        # own children.
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            end(process)
            raise
    return subprocess.CompletedProcess(list(program), process.returncode, output, "")


def end(process: subprocess.Popen[str], seconds: float = _EXIT_SECONDS) -> None:
    """Send SIGTERM to a process, and SIGKILL if it does not end within `seconds`."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()


def main(parent: int, number: int, program: Sequence[str]) -> None:
    """Ask Linux for signal `number` when the parent ends, and execute the program."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        # The parent ended before prctl took effect, so that the signal would never come.
        sys.exit(1)
    os.execvp(program[0], list(program))  # noqa: S606 - the purpose of this file


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
