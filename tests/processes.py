"""The harness as a process that is stopped at a place, and what the tests do to it there."""

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
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Running:
    """A command under way, in a process group of its own as a terminal would make it one."""

    def __init__(self, command: list[str], folder: Path, **variables: str) -> None:
        self._out = (folder / f"{os.urandom(4).hex()}.out").open("w+")
        self._err = (folder / f"{os.urandom(4).hex()}.err").open("w+")
        self._process = subprocess.Popen(
            # A test that fails leaves nothing behind either.
            leash.command(command),
            cwd=folder,
            env={**interpreter.environment(), **variables},
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            # In the background Ctrl-C is ignored, also by whatever is started there.
            preexec_fn=_hear_ctrl_c,
        )

    @property
    def pid(self) -> int:
        """Of the command itself."""
        return self._process.pid

    def has_ended(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_for(self, text: str) -> None:
        """Wait until it has printed something."""
        while text not in Path(self._out.name).read_text():
            assert not self.has_ended(0.02), self.outcome()

    def wait_for_error(self, text: str, count: int) -> None:
        """Wait until it has printed something so often on standard error."""
        while Path(self._err.name).read_text().count(text) < count:
            assert not self.has_ended(0.02), self.outcome()

    def interrupt(self) -> None:
        """What a terminal does at Ctrl-C."""
        os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """End it and what it started as the machine does when it is out of memory."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def outcome(self) -> Outcome:
        """Wait for its end."""
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
    """Start `harness ARGUMENTS`, or another module's command, in a folder."""
    return Running(interpreter.command(module, *map(str, arguments)), folder, **variables)


class Gate:
    """A named pipe: whoever opens it to read stops there. Nothing is timed, and nobody sleeps."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = -1

    def wait_for(self, running: Running) -> None:
        """Wait until a process of the command has come to the gate."""
        while self._end < 0:
            try:
                self._end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                # Nobody reads yet. What waits here is for the command's end, which must not come.
                assert not running.has_ended(0.02), running.outcome()

    def open(self) -> None:
        """Let it through: it reads an empty file."""
        os.close(self._end)

    def wait_until_left(self) -> None:
        """Wait until the process that stopped here is gone."""
        watched = select.poll()
        watched.register(self._end, 0)
        assert watched.poll(_MINUTES * 1000), f"somebody still reads {self.path}"
        os.close(self._end)


class Watched:
    """A process whose end is awaited, though it is no child of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._end = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it as the machine does when it is out of memory."""
        os.kill(self.pid, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        """Wait for its end."""
        readable, _, _ = select.select([self._end], [], [], _MINUTES)
        assert readable, f"process {self.pid} still runs"
        os.close(self._end)


def worker_of(harness: int, submission: str) -> tuple[Watched, Watched]:
    """The process that runs a submission, and the one of the harness's that started it.

    Args:
        harness: The process that started that one.
        submission: The beginning of the file's name.
    """
    for process, evaluator, above in _running(submission):
        if above == harness:
            return Watched(process), Watched(evaluator)
    raise AssertionError(f"nobody runs {submission}")


def wait_for_submission(running: Running, name: str) -> tuple[Watched, Watched]:
    """Wait until a submission runs, wherever; its process, and the one that has its evaluator.

    Args:
        running: What must not end meanwhile.
        name: The beginning of the file's name, which nobody else has.
    """
    while True:
        for process, _, above in _running(name):
            # It may have ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                return Watched(process), Watched(above)
        assert not running.has_ended(0.02), running.outcome()


def descendants(ancestor: int) -> Iterator[tuple[int, str]]:
    """What a process has started, and what that has, each with its name and its command."""
    processes = dict(_processes())
    for process, (name, _) in processes.items():
        if ancestor in _above(process, processes):
            # It may have ended meanwhile.
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
                yield process, f"{name} {command}"


def _running(submission: str) -> Iterator[tuple[int, int, int]]:
    """Processes of a submission, each with its evaluator, and what has started that and runs.

    Args:
        submission: The beginning of the file's name.
    """
    processes = dict(_processes())
    for process, (name, _) in processes.items():
        # Between it and its evaluator are its sandbox's guard and the server that forks.
        parents = list(islice(_above(process, processes), 2, 4))
        if name.startswith(submission) and len(parents) > 1 and parents[1] in processes:
            yield process, parents[0], parents[1]


def _above(process: int, processes: Mapping[int, tuple[str, int]]) -> Iterator[int]:
    """Its parent, the parent's, and so on."""
    while process in processes:
        _, process = processes[process]
        yield process


def _processes() -> Iterator[tuple[int, tuple[str, int]]]:
    """Every process that runs, with its name and its parent.

    Not those that have ended and wait for their parent to look: who is that may have changed since.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        # It may have ended meanwhile.
        with contextlib.suppress(OSError):
            before, _, after = (entry / "stat").read_text().rpartition(")")
            state, parent = after.split()[:2]
            if state != "Z":
                yield int(entry.name), (before.partition("(")[2], int(parent))
