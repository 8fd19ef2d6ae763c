"""The supervisor, the trusted side of a worker.

It starts the worker, sets deadlines for it, and ends it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, Self, TypeVar

from msgspec.json import Decoder
from torch import Tensor

from harness.defaults import BUILD_SECONDS, CHECK_SECONDS, JUDGING_SECONDS, STEP_SECONDS
from harness.finding import Finding
from harness.messages.channel import (
    Answer,
    Channel,
    DeadlineExceeded,
    Disconnected,
    Message,
    ProtocolError,
)
from harness.messages.faults import Fault
from harness.messages.protocol import Asked
from harness.sandbox.confined import ProcessTree
from harness.system.allowance import Allowance
from harness.worker.steps import DOING, PROTOCOL, READY, STARTING, Build, Doing, Failed

A = TypeVar("A")
Cause = Literal["timeout", "crash", "protocol"]
"""Why a worker gave no valid answer; `protocol` is an invalid message."""

_OUTPUT_TAIL_BYTES = 2000
_EXIT_SECONDS = 5.0


@dataclass(frozen=True)
class Deadlines:
    """Time limits in seconds; a worker that exceeds one is killed.

    Attributes:
        start: Limit for the start of a worker.
        build: Limit for the build of each extension. A build does not count towards the step that
            requested it.
        step: Limit for the import of the submission, its construction, or one forward call.
        first_call: Limit for a baseline's first call, in which cuDNN tries algorithms or torch
            compiles.
        all_steps: Limit for all steps of a check together, even if the worker was replaced. The
            starts of workers do not count.
        all_builds: Limit for all builds of a check together.
        judgement: Limit for the judgement of one call's outputs, in which no worker takes part.
    """

    start: float = 120.0
    build: float = 900.0
    step: float = STEP_SECONDS
    first_call: float = 300.0
    all_steps: float = CHECK_SECONDS
    all_builds: float = BUILD_SECONDS
    judgement: float = JUDGING_SECONDS


class TimeLeft:
    """Time that is left to all workers of one check together, for steps and for builds.

    A check replaces a worker that has failed. Without common limits, each new worker would get
    the full time again.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self.steps = Allowance(deadlines.all_steps)
        self.builds = Allowance(deadlines.all_builds)


class WorkerFailure(RuntimeError):
    """A worker gave no answer or an invalid answer, and was killed.

    Attributes:
        cause: The kind of the reason.
    """

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class StepFailed(RuntimeError):
    """A step of a worker raised an exception, or an error stopped its device.

    Attributes:
        fault: The reason.
        findings: Findings that the step had already made when it failed.
    """

    def __init__(self, fault: Fault, findings: Sequence[Finding] = ()) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.findings = tuple(findings)


class BuildTimeout(TimeoutError):
    """A build took too long; the exception's text is the extension's name."""


class Worker(ABC):
    """One worker process, as a context manager.

    Leaving the context kills the process and all processes that it started. The worker may run
    untrusted code. So each request has a deadline and a new nonce, and each answer is checked.
    After the first failure the worker is killed, because an answer that comes late must not be
    taken for the answer to a later request.
    """

    def __init__(self, file: Path, deadlines: Deadlines, left: TimeLeft) -> None:
        """Start the process.

        Args:
            file: The Python file that the worker runs: a submission or a reference.
            deadlines: Time limits of the worker.
            left: The time that is left to all workers of the check.
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
        """Start and return the process, which will answer requests on the file descriptor."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Wait until the process accepts requests.

        The constructor has already started the process. So several workers can start side by side.

        Raises:
            WorkerFailure: The process does not accept requests.
        """
        self._attempt(STARTING, READY, self._deadlines.start, lambda _: "")

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_spent(self) -> bool:
        """True if the worker can serve no further request."""
        return False

    @cached_property
    def source(self) -> str:
        """Source text of the submission or reference that the worker runs."""
        return self._file.read_text(errors="replace")

    def _request(
        self,
        asked: Asked[A],
        tensors: Sequence[Tensor] = (),
        seconds: float | None = None,
        doing: Doing | None = None,
    ) -> A | Failed:
        """Request one step, and return the worker's answer.

        Args:
            asked: The request.
            tensors: The request's tensors.
            seconds: Time limit; None for `Deadlines.step`.
            doing: Words for the step; None for those in `DOING`.

        Raises:
            WorkerFailure: The worker did not answer in time, died, or gave an invalid answer.
        """

        def ask(deadline: float) -> str:
            nonce = secrets.token_hex(16)
            self._ask(asked, tensors, deadline, nonce)
            return nonce

        answers: Decoder[A | Failed] = PROTOCOL.answers[type(asked)]
        limit = seconds or self._deadlines.step
        return self._attempt(doing or DOING[type(asked)], answers, limit, ask)

    def close(self) -> None:
        """Kill the worker and all processes that it started."""
        self._channel.close()
        self._process.end()
        self._output.close()

    def _attempt(
        self, doing: Doing, answers: Decoder[A], seconds: float, ask: Callable[[float], str]
    ) -> A:
        """Have `ask` send a request, and return the worker's next answer.

        A worker that fails is killed. The time counts towards the limit for all steps of the check,
        except the time that the worker waits for the supervisor.

        Args:
            doing: Words for what the worker does.
            answers: Decoder of the answer.
            seconds: Time limit.
            ask: Function that sends the request until a deadline, and returns its nonce.
        """
        # A start does not count: it is the harness's own work, mostly the import of torch.
        is_start = doing is STARTING
        limit = seconds if is_start else self._left.steps.limit(seconds)
        start, self._paused = time.monotonic(), 0.0
        try:
            deadline = start + limit
            nonce = ask(deadline)
            answer = self._answer(answers, deadline, nonce)
            answer.require(nonce)
        except DeadlineExceeded:
            words = f"no answer within {seconds:.0f} s while {doing.words}; killed"
            if limit < seconds:
                every = self._left.steps.seconds
                words = (
                    f"all steps together took more than {every:g} s, the last one while "
                    f"{doing.words}"
                )
                words += "; killed; --check-seconds allows more"
            elif doing.has_option:
                words += "; --step-seconds allows more"
            failure = WorkerFailure("timeout", words)
        except BuildTimeout as late:
            words = f"no answer within {self._deadlines.build:.0f} s while building {late}; killed"
            if self._left.builds.is_used_up:
                every = self._left.builds.seconds
                words = (
                    f"all builds together took more than {every:.0f} s, the last one {late}; killed"
                )
                words += "; --build-seconds allows more"
            failure = WorkerFailure("timeout", words)
        except Disconnected:
            failure = WorkerFailure("crash", self._epitaph(doing))
        except ProtocolError as error:
            words = f"the worker sent an invalid message ({error}) while {doing.words}"
            failure = WorkerFailure("protocol", words)
        else:
            return answer.body
        finally:
            if not is_start:
                self._left.steps.spend(time.monotonic() - start - self._paused)
        return self._give_up(failure)

    def _fail(self, doing: Doing, cause: Cause, words: str) -> NoReturn:
        """Kill the worker, and raise a `WorkerFailure` with `words` and the step in its message."""
        self._give_up(WorkerFailure(cause, f"{words} while {doing.words}"))

    def _give_up(self, failure: WorkerFailure) -> NoReturn:
        """Kill the worker, and raise the failure."""
        self._process.kill()
        raise failure

    def _ask(
        self, asked: Asked[Any], tensors: Sequence[Tensor], deadline: float, nonce: str
    ) -> None:
        if self._channel.has_unread():
            raise ProtocolError("a message that was not requested")
        # If the worker has died, waiting for the answer gives the reason.
        with contextlib.suppress(Disconnected):
            self._channel.send(asked, tensors, deadline, nonce)

    def _answer(self, answers: Decoder[A], deadline: float, nonce: str) -> Message[A]:
        """Return the worker's next answer, and serve the requests that the worker sends before it.

        The time that the supervisor takes to serve these requests is added to the deadline.
        """
        while True:
            deadline = self._await_message(deadline)
            # A worker has no tensors to send: its outputs are on its device.
            # A request for a build has no nonce.
            message = self._channel.receive(answers, deadline, 0, ("", nonce))
            if not isinstance(message.body, Build):
                return message
            start = time.monotonic()
            body, tensors = self._served(message.body)
            deadline += self._pause_since(start)
            with contextlib.suppress(Disconnected):
                self._channel.send(body, tensors, deadline)

    def _await_message(self, deadline: float) -> float:
        """Wait until the worker sends a message; return the deadline.

        A subclass may do other work while it waits, and return a later deadline.
        """
        return deadline

    def _pause_since(self, start: float) -> float:
        """Return the seconds since `start`, and count them as time that the worker has waited."""
        seconds = time.monotonic() - start
        self._paused += seconds
        return seconds

    def _served(self, wanted: Build) -> Answer:
        """Return the answer to a request for a build, which the worker itself sends.

        This class refuses every request.

        Raises:
            ProtocolError: The request is invalid.
            BuildTimeout: A build took too long.
        """
        raise ProtocolError(f"a request for {wanted.name!r}")

    def _epitaph(self, doing: Doing) -> str:
        """Return a message that says how the process ended, with the last line that it printed."""
        if not self._process.wait(_EXIT_SECONDS):
            return f"the worker closed the connection while {doing.words}"
        last = last_line(self._output)
        how = f"the worker {self._process.how_it_ended} while {doing.words}"
        return how + (f": {last}" if last else "")


def last_line(output: IO[bytes]) -> str:
    """Return the last line of a process's output file, cut to at most 200 characters."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _OUTPUT_TAIL_BYTES))
    text = output.read().decode(errors="replace").strip()
    return text.rpartition("\n")[2][:200]
