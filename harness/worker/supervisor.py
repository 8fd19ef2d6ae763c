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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, Self

import torch

from harness.defaults import BUILD_SECONDS, CHECK_SECONDS, JUDGING_SECONDS, STEP_SECONDS
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
        step: The step that was requested.
        cause: `timeout`, `crash` or `protocol` (an invalid message).
    """

    def __init__(
        self, step: Step, cause: Literal["timeout", "crash", "protocol"], message: str
    ) -> None:
        super().__init__(message)
        self.step = step
        self.cause = cause


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
        self._attempt("start", self._deadlines.start, None)

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

    def request(
        self,
        step: Step,
        header: dict[str, Any] | None = None,
        tensors: Sequence[torch.Tensor] = (),
        seconds: float | None = None,
        max_tensor_bytes: int = MAX_TENSOR_BYTES,
    ) -> Message:
        """Request one step, and return the worker's answer.

        Args:
            step: The step.
            header: Further keys of the request.
            tensors: The request's tensors.
            seconds: Time limit; None for `Deadlines.step`.
            max_tensor_bytes: Largest size in bytes of all tensors of the answer together.

        Raises:
            WorkerFailure: The worker did not answer in time, died, or gave an invalid answer.
        """
        asked = {**(header or {}), "step": step, "nonce": secrets.token_hex(16)}
        return self._attempt(
            step, seconds or self._deadlines.step, asked, tensors, max_tensor_bytes
        )

    def close(self) -> None:
        """Kill the worker and all processes that it started."""
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
        """Send a request, if `asked` is not None, and return the worker's next answer.

        A worker that fails is killed. The time counts towards the limit for all steps of the check,
        except the time that the worker waits for the supervisor.
        """
        # A start does not count: it is the harness's own work, mostly the import of torch.
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
                words = (
                    f"all steps together took more than {every:g} s, the last one while "
                    f"{_PHRASE[step]}"
                )
                words += "; killed; --check-seconds allows more"
            elif step in _BY_STEP_SECONDS:
                words += "; --step-seconds allows more"
            failure = WorkerFailure(step, "timeout", words)
        except BuildTimeout as late:
            words = f"no answer within {self._deadlines.build:.0f} s while building {late}; killed"
            if self._left.builds.is_used_up:
                every = self._left.builds.seconds
                words = (
                    f"all builds together took more than {every:.0f} s, the last one {late}; killed"
                )
                words += "; --build-seconds allows more"
            failure = WorkerFailure(step, "timeout", words)
        except Disconnected:
            failure = WorkerFailure(step, "crash", self._epitaph(step))
        except ProtocolError as error:
            words = f"the worker sent an invalid message ({error}) while {_PHRASE[step]}"
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
        """Kill the worker, and raise a `WorkerFailure` with `words` and the step in its message."""
        self._give_up(WorkerFailure(step, cause, f"{words} while {_PHRASE[step]}"))

    def _give_up(self, failure: WorkerFailure) -> NoReturn:
        """Kill the worker, and raise the failure."""
        self._process.kill()
        raise failure

    @abstractmethod
    def _check(self, step: Step, nonce: str, answer: Message) -> None:
        """Check that a worker's message is a valid answer to a request.

        Raises:
            ProtocolError: The message is not a valid answer.
        """

    def _ask(self, asked: dict[str, Any], tensors: Sequence[torch.Tensor], deadline: float) -> None:
        if self._channel.has_unread():
            raise ProtocolError("a message that was not requested")
        # If the worker has died, waiting for the answer gives the reason.
        with contextlib.suppress(Disconnected):
            self._channel.send(asked, tensors, deadline)

    def _answer(self, deadline: float, max_tensor_bytes: int) -> Message:
        """Return the worker's next answer, and serve the requests that the worker sends before it.

        The time that the supervisor takes to serve these requests is added to the deadline.
        """
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
        """Wait until the worker sends a message; return the deadline.

        A subclass may do other work while it waits, and return a later deadline.
        """
        return deadline

    def _pause_since(self, start: float) -> float:
        """Return the seconds since `start`, and count them as time that the worker has waited."""
        seconds = time.monotonic() - start
        self._paused += seconds
        return seconds

    def _served(self, header: dict[str, Any]) -> Answer:
        """Return the answer to a request that the worker itself sends, such as one for a build.

        This class refuses every request.

        Raises:
            ProtocolError: The request is invalid.
            BuildTimeout: A build took too long.
        """
        raise ProtocolError(f"a request for {str(header['ask'])[:40]!r}")

    def _epitaph(self, step: Step) -> str:
        """Return a message that says how the process ended, with the last line that it printed."""
        if not self._process.wait(_EXIT_SECONDS):
            return f"the worker closed the connection while {_PHRASE[step]}"
        last = last_line(self._output)
        how = f"the worker {self._process.how_it_ended} while {_PHRASE[step]}"
        return how + (f": {last}" if last else "")


def last_line(output: IO[bytes]) -> str:
    """Return the last line of a process's output file, cut to at most 200 characters."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _OUTPUT_TAIL_BYTES))
    text = output.read().decode(errors="replace").strip()
    return text.rpartition("\n")[2][:200]


_BY_STEP_SECONDS: tuple[Step, ...] = ("import", "construct", "weights", "forward", "profile")
"""Steps whose deadline users can set by --step-seconds."""

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
