"""The trusted side of a worker: start it, give it deadlines, and see to its end."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, Self

import torch

from harness.defaults import BUILD_SECONDS, CHECK_SECONDS, STEP_SECONDS
from harness.messages.channel import (
    MAX_TENSOR_BYTES,
    Answer,
    Channel,
    DeadlineExceeded,
    Disconnected,
    Message,
    ProtocolError,
)
from harness.sandbox.confined import ProcessTree
from harness.system.allowance import Allowance

Step = Literal[
    "start",
    "import",
    "construct",
    "weights",
    "forward",
    "profile",
    "time",
    "leaks",
]

_OUTPUT_TAIL_BYTES = 2000
_EXIT_SECONDS = 5.0


@dataclass(frozen=True)
class Deadlines:
    """Seconds that a step may take before its worker is killed."""

    start: float = 120.0
    build: float = 900.0
    """For each extension; the time of a build does not count towards the step that asked for it."""
    step: float = STEP_SECONDS
    """For importing the submission, constructing it, or one call."""
    first_call: float = 300.0
    """For a baseline's first call, in which cuDNN tries algorithms or torch compiles."""
    all_steps: float = CHECK_SECONDS
    """For all steps together, but for the start, wherever a worker was replaced meanwhile."""
    all_builds: float = BUILD_SECONDS
    """For all builds together."""

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """What the options of `cli.option_types.add_limits` ask for."""
        return cls(
            step=options.step_seconds,
            all_steps=options.check_seconds,
            all_builds=options.build_seconds,
        )


class TimeLeft:
    """What is left of the deadlines that several workers of one check have together."""

    def __init__(self, deadlines: Deadlines) -> None:
        self.steps = Allowance(deadlines.all_steps)
        self.builds = Allowance(deadlines.all_builds)


class WorkerFailure(RuntimeError):
    """A worker did not answer, or not sensibly; it is dead by now.

    Attributes:
        step: what it was asked to do.
        cause: `timeout`, `crash` or `protocol`.
    """

    def __init__(
        self, step: Step, cause: Literal["timeout", "crash", "protocol"], message: str
    ) -> None:
        super().__init__(message)
        self.step = step
        self.cause = cause


class BuildTimeout(TimeoutError):
    """A build took too long; the text is what was built."""


class Worker(ABC):
    """One worker process. Use as a context manager; leaving it kills the process and its tree."""

    def __init__(self, file: Path, deadlines: Deadlines, left: TimeLeft) -> None:
        """Begin it.

        Args:
            file: What it runs.
            deadlines: Its own.
            left: What the workers before it have left of them.
        """
        self._file = file
        self._deadlines = deadlines
        self._left = left
        self._paused = 0.0
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = self._start_process(theirs.fileno())

    @abstractmethod
    def _start_process(self, descriptor: int) -> ProcessTree:
        """The process, which is to serve this side on the descriptor."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Wait until the process, which has begun already, can be asked for something.

        Raises:
            WorkerFailure: it cannot.
        """
        self._attempt("start", self._deadlines.start, None)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_spent(self) -> bool:
        """Whether it can be asked for nothing more."""
        return False

    @cached_property
    def source(self) -> str:
        """The file's text."""
        return self._file.read_text(errors="replace")

    def request(
        self,
        step: Step,
        header: dict[str, Any] | None = None,
        tensors: Sequence[torch.Tensor] = (),
        seconds: float | None = None,
        max_tensor_bytes: int = MAX_TENSOR_BYTES,
    ) -> Message:
        """Ask for one step and wait for its answer, for so many seconds or the step's deadline.

        Raises:
            WorkerFailure: it did not answer in time, died, or answered nonsense.
        """
        asked = {**(header or {}), "step": step, "nonce": secrets.token_hex(16)}
        return self._attempt(
            step, seconds or self._deadlines.step, asked, tensors, max_tensor_bytes
        )

    def close(self) -> None:
        """Kill the worker and everything that it started."""
        self._channel.close()
        self._process.end()
        self._output.close()

    def _attempt(
        self,
        step: Step,
        seconds: float,
        asked: dict[str, Any] | None,
        tensors: Sequence[torch.Tensor] = (),
        max_tensor_bytes: int = 0,
    ) -> Message:
        """Send a request, if there is one, and await its answer; a worker that fails is killed.

        An answer that comes late must not be taken for that to the next request.
        """
        limit = seconds if step == "start" else self._left.steps.limit(seconds)
        start, self._paused = time.monotonic(), 0.0
        try:
            deadline = start + limit
            if asked is not None:
                self._ask(asked, tensors, deadline)
            answer = self._answer(deadline, max_tensor_bytes)
            self._check(step, asked["nonce"] if asked else "", answer)
        except DeadlineExceeded:
            words = f"no answer within {seconds:.0f} s while {_PHRASE[step]}; killed"
            if limit < seconds:
                every = self._left.steps.seconds
                words = f"no answer within {every:g} s in all, the last while {_PHRASE[step]}"
                words += "; killed; --check-seconds gives it longer"
            elif step in _BY_STEP_SECONDS:
                words += "; --step-seconds gives it longer"
            failure = WorkerFailure(step, "timeout", words)
        except BuildTimeout as late:
            words = f"no answer within {self._deadlines.build:.0f} s while building {late}; killed"
            if self._left.builds.is_used_up:
                every = self._left.builds.seconds
                words = (
                    f"no answer within {every:.0f} s of building in all, the last {late}; killed"
                )
                words += "; --build-seconds gives it longer"
            failure = WorkerFailure(step, "timeout", words)
        except Disconnected:
            failure = WorkerFailure(step, "crash", self._epitaph(step))
        except ProtocolError as error:
            words = f"the worker sent {error} while {_PHRASE[step]}"
            failure = WorkerFailure(step, "protocol", words)
        else:
            return answer
        finally:
            if step != "start":
                self._left.steps.spend(time.monotonic() - start - self._paused)
        return self._give_up(failure)

    def _fail(
        self, step: Step, cause: Literal["timeout", "crash", "protocol"], words: str
    ) -> NoReturn:
        """Give the worker up for what it, or what it needs, has done."""
        self._give_up(WorkerFailure(step, cause, f"{words} while {_PHRASE[step]}"))

    def _give_up(self, failure: WorkerFailure) -> NoReturn:
        self._process.kill()
        raise failure

    @abstractmethod
    def _check(self, step: Step, nonce: str, answer: Message) -> None:
        """See that a message is the answer to a request.

        Raises:
            ProtocolError: it is not.
        """

    def _ask(self, asked: dict[str, Any], tensors: Sequence[torch.Tensor], deadline: float) -> None:
        if self._channel.has_unread():
            raise ProtocolError("a message that nobody asked for")
        # A worker that died says why when its answer is awaited.
        with contextlib.suppress(Disconnected):
            self._channel.send(asked, tensors, deadline)

    def _answer(self, deadline: float, max_tensor_bytes: int) -> Message:
        """The next message that is no request; the time that requests take does not count."""
        while True:
            deadline = self._await_message(deadline)
            message = self._channel.receive(deadline, max_tensor_bytes)
            if "ask" not in message.header:
                return message
            start = time.monotonic()
            header, tensors = self._served(message.header)
            deadline += self._pause_since(start)
            with contextlib.suppress(Disconnected):
                self._channel.send(header, tensors, deadline)

    def _await_message(self, deadline: float) -> float:
        """Do what is to be done until the worker says something; answers the new deadline."""
        return deadline

    def _pause_since(self, start: float) -> float:
        """The time since then, in which the worker had to wait for this side."""
        seconds = time.monotonic() - start
        self._paused += seconds
        return seconds

    def _served(self, header: dict[str, Any]) -> Answer:
        """Do what a worker asks for.

        Raises:
            ProtocolError: it is nothing that can be asked for.
            BuildTimeout: a build took too long.
        """
        raise ProtocolError(f"a request for {str(header['ask'])[:40]!r}")

    def _epitaph(self, step: Step) -> str:
        """How the process ended, and the last thing it printed."""
        if not self._process.wait(_EXIT_SECONDS):
            return f"the worker hung up while {_PHRASE[step]}"
        last = last_line(self._output)
        how = f"the worker {self._process.how_it_ended} while {_PHRASE[step]}"
        return how + (f": {last}" if last else "")


def last_line(output: IO[bytes]) -> str:
    """The last thing that a process printed into a file, or the end of it."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _OUTPUT_TAIL_BYTES))
    text = output.read().decode(errors="replace").strip()
    return text.rpartition("\n")[2][:200]


_BY_STEP_SECONDS: tuple[Step, ...] = ("import", "construct", "weights", "forward", "profile")
"""Steps whose deadline users can set."""

_PHRASE: dict[Step, str] = {
    "start": "starting",
    "import": "importing the submission",
    "construct": "constructing ModelNew",
    "weights": "setting the weights",
    "forward": "running forward",
    "profile": "running forward",
    "time": "running a timed call",
    "leaks": "looking for memory that was not freed",
}
