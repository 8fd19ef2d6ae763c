"""Helpers that stop the harness's processes at a known point, and kill or interrupt them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from harness.system import interpreter, leash
from tests.support import Outcome

_MINUTES = 5 * 60.0


def _hear_ctrl_c() -> None:
    """Restore the default action of SIGINT, which ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Running:
    """A running command in a session and process group of its own."""

    def __init__(self, command: list[str], folder: Path, **variables: str) -> None:
        self._out = (folder / f"{os.urandom(4).hex()}.out").open("w+")
        self._err = (folder / f"{os.urandom(4).hex()}.err").open("w+")
        self._process = subprocess.Popen(
            # The command ends with this process, so that a failing test leaves nothing behind.
            leash.command(command),
            cwd=folder,
            env={**interpreter.environment(), **variables},
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            # If the tests run as a shell's background job, they ignore SIGINT, and so would the
            # command.
            preexec_fn=_hear_ctrl_c,
        )

    @property
    def pid(self) -> int:
        """The command's process id."""
        return self._process.pid

    def has_ended(self, seconds: float) -> bool:
        """Return whether the command has ended, after waiting for at most `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_for(self, text: str) -> None:
        """Wait until the command has printed a text on standard output."""
        while text not in Path(self._out.name).read_text():
            assert not self.has_ended(0.02), self.outcome()

    def wait_for_error(self, text: str, count: int) -> None:
        """Wait until the command has printed a text `count` times on standard error."""
        while Path(self._err.name).read_text().count(text) < count:
            assert not self.has_ended(0.02), self.outcome()

    def interrupt(self) -> None:
        """Send SIGINT to the process group, as a terminal does at Ctrl-C."""
        os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Send SIGKILL to the process group, as a machine does when it is out of memory."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def outcome(self) -> Outcome:
        """Wait for the command's end, and return its exit status and output."""
        assert self.has_ended(_MINUTES)
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return Outcome(self._process.returncode, *texts)


def start(
    *arguments: str | Path, folder: Path, module: str = "harness", **variables: str
) -> Running:
    """Start `python -m MODULE ARGUMENTS` in a folder; the module is `harness` by default."""
    return Running(interpreter.command(module, *map(str, arguments)), folder, **variables)


class Gate:
    """A named pipe that stops a process which opens the pipe to read.

    The process's call of `open` blocks until the test opens the pipe to write. So the test knows
    exactly where the process is; a sleep or a timeout would not show that.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = -1

    def wait_for(self, running: Running) -> None:
        """Wait until a process of the command is about to open the pipe."""
        while self._end < 0:
            try:
                self._end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                # No process reads yet. The command must not end before one does.
                assert not running.has_ended(0.02), running.outcome()

    def open(self) -> None:
        """Let the stopped process go on; it reads an empty file."""
        os.close(self._end)

    def wait_until_left(self) -> None:
        """Wait until the process that stopped at the pipe has ended."""
        watched = select.poll()
        # Without a reader, poll reports an error on the pipe, and errors need no event mask.
        watched.register(self._end, 0)
        assert watched.poll(_MINUTES * 1000), f"somebody still reads {self.path}"
        os.close(self._end)


class Watched:
    """A process whose end can be awaited, even if it is not a child of the test's process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._end = os.pidfd_open(pid)

    def kill(self) -> None:
        """Send SIGKILL to the process, as a machine does when it is out of memory."""
        os.kill(self.pid, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        """Wait for the process's end."""
        readable, _, _ = select.select([self._end], [], [], _MINUTES)
        assert readable, f"process {self.pid} still runs"
        os.close(self._end)


def worker_of(harness: int, submission: str) -> tuple[Watched, Watched]:
    """Return the process that runs a submission, and the evaluator process that started it.

    Args:
        harness: Id of the process that started the evaluator.
        submission: The beginning of the submission's file name.

    Raises:
        AssertionError: No process runs this submission for this harness.
    """
    for process, evaluator, above in _running(submission):
        if above == harness:
            return Watched(process), Watched(evaluator)
    raise AssertionError(f"nobody runs {submission}")


def wait_for_submission(running: Running, name: str) -> tuple[Watched, Watched]:
    """Wait until a process runs a submission; return this process and its evaluator's parent.

    The evaluator is the process that started the submission's process.

    Args:
        running: The command, which must not end meanwhile.
        name: The beginning of the submission's file name. No other process may have a name that
            begins with this text.
    """
    while True:
        for process, _, above in _running(name):
            # The process may have ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                return Watched(process), Watched(above)
        assert not running.has_ended(0.02), running.outcome()


def descendants(ancestor: int) -> Iterator[tuple[int, str]]:
    """Yield the id of each descendant of a process, with its name and command line."""
    processes = dict(_processes())
    for process, (name, _) in processes.items():
        if ancestor in _above(process, processes):
            # The process may have ended meanwhile.
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
                yield process, f"{name} {command}"


def _running(submission: str) -> Iterator[tuple[int, int, int]]:
    """Yield three ids for each process that runs a submission.

    The first id is that of the process. The second id is that of its evaluator, the process that
    started it. The third id is that of the evaluator's parent. If this parent has ended, the
    submission's process is left out.

    Args:
        submission: The beginning of the submission's file name.
    """
    processes = dict(_processes())
    for process, (name, _) in processes.items():
        # Between the process and its evaluator are the sandbox's guard and the fork server.
        parents = list(islice(_above(process, processes), 2, 4))
        if name.startswith(submission) and len(parents) > 1 and parents[1] in processes:
            yield process, parents[0], parents[1]


def _above(process: int, processes: Mapping[int, tuple[str, int]]) -> Iterator[int]:
    """Yield the id of a process's parent, then of the parent's parent, and so on."""
    while process in processes:
        _, process = processes[process]
        yield process


def _processes() -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the id of every running process, with its name and its parent's id.

    Zombies are left out, since their parent may have changed.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        # The process may have ended meanwhile.
        with contextlib.suppress(OSError):
            before, _, after = (entry / "stat").read_text().rpartition(")")
            state, parent = after.split()[:2]
            if state != "Z":
                yield int(entry.name), (before.partition("(")[2], int(parent))
