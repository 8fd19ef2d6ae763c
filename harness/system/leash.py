"""Processes that end when the process that started them ends, by SIGKILL too.

`command` puts this file, as a program, before the real one: `leash.py PARENT SIGNAL PROGRAM ...`
asks the kernel for a signal when the parent has gone, and becomes the program. A function between
fork and exec would do as well, were it not that other threads may hold locks then.
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
    """The command line that runs a program, which gets a signal when this process has gone.

    It gets it too when the thread that starts it ends, which therefore has to wait for it.
    """
    own = str(Path(__file__).resolve())
    # Neither the user's packages nor the current folder have a say in what is imported.
    return [sys.executable, "-I", "-S", own, str(os.getpid()), str(int(when_alone)), *program]


def run(program: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that sees to its own children when it gets SIGTERM; answer what it printed.

    If this call is broken off by an exception, the program is asked to end, and gets time to.
    """
    with subprocess.Popen(
        command(program),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # What kills this process's group must leave the program the time to end its children.
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            end(process)
            raise
    return subprocess.CompletedProcess(list(program), process.returncode, output, "")


def end(process: subprocess.Popen[str], seconds: float = _EXIT_SECONDS) -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()


def main(parent: int, number: int, program: Sequence[str]) -> None:
    """Become the program."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        # It went before the kernel was asked.
        sys.exit(1)
    os.execvp(program[0], list(program))  # noqa: S606 - that is what this file is for


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
