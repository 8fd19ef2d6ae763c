"""The trusted side of a worker: start it, give it deadlines, and see to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from harness import interpreter
from harness.worker.protocol import (
    Channel,
    DeadlineExceeded,
    Disconnected,
    Message,
    ProtocolError,
)
from harness.worker.settings import Settings

Step = Literal[
    "start",
    "import",
    "construct",
    "weights",
    "forward",
    "profile",
    "attach",
    "time",
    "repeat",
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
    step: float = 120.0
    """For importing the submission, constructing it, or one call."""
    first_call: float = 300.0
    """For a baseline's first call, in which cuDNN tries algorithms or torch compiles."""


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


class Worker:
    """One worker process. Use as a context manager; leaving it kills the process and its tree."""

    def __init__(
        self,
        settings: Settings,
        deadlines: Deadlines,
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        self._deadlines = deadlines
        self._on_event = on_event
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = subprocess.Popen(
                interpreter.command(
                    "harness.worker.main", str(theirs.fileno()), settings.to_json()
                ),
                env=interpreter.environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def __enter__(self) -> Worker:
        self.start()
        return self

    def start(self) -> None:
        """Wait until the process, which has begun already, can be asked for something.

        Raises:
            WorkerFailure: it cannot.
        """
        self._await_answer("start", self._deadlines.start)

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self,
        step: Step,
        header: dict[str, Any] | None = None,
        tensors: Sequence[torch.Tensor] = (),
        seconds: float | None = None,
    ) -> Message:
        """Ask for one step and wait for its answer, for so many seconds or the step's deadline.

        Raises:
            WorkerFailure: it did not answer in time, died, or answered nonsense.
        """
        # A worker that died says why when its answer is awaited.
        with contextlib.suppress(Disconnected):
            self._channel.send({**(header or {}), "step": step}, tensors)
        return self._await_answer(step, seconds or self._deadlines.step)

    def close(self) -> None:
        """Kill the worker and everything that it started."""
        self._channel.close()
        self._kill()
        self._output.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _await_answer(self, step: Step, seconds: float) -> Message:
        try:
            return self._answer(step, seconds)
        except WorkerFailure:
            # An answer that comes late must not be taken for that to the next request.
            self._kill()
            raise

    def _answer(self, step: Step, seconds: float) -> Message:
        building: str | None = None
        left = seconds
        while True:
            start = time.monotonic()
            limit = self._deadlines.build if building else left
            try:
                message = self._channel.receive(start + limit)
            except DeadlineExceeded:
                doing = f"building {building}" if building else _PHRASE[step]
                raise WorkerFailure(
                    step, "timeout", f"no answer within {limit:.0f} s while {doing}; killed"
                ) from None
            except Disconnected:
                raise WorkerFailure(step, "crash", self._epitaph(step)) from None
            except ProtocolError as error:
                raise WorkerFailure(step, "protocol", f"the worker sent {error}") from None
            if not building:
                left -= time.monotonic() - start
            event = message.header.get("event")
            if event is None or event == "ready":
                return message
            self._on_event(message.header)
            building = str(message.header.get("name")) if event == "build started" else None

    def _epitaph(self, step: Step) -> str:
        """How the process ended, and the last thing it printed."""
        try:
            code = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return f"the worker hung up while {_PHRASE[step]}"
        if code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        else:
            how = f"exited with status {code}"
        last = self._last_line()
        return f"the worker {how} while {_PHRASE[step]}" + (f": {last}" if last else "")

    def _last_line(self) -> str:
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _OUTPUT_TAIL_BYTES))
        text = self._output.read().decode(errors="replace").strip()
        return text.rpartition("\n")[2][:200]


_PHRASE: dict[Step, str] = {
    "start": "starting",
    "import": "importing the submission",
    "construct": "constructing ModelNew",
    "weights": "setting the weights",
    "forward": "running forward",
    "profile": "running forward",
    "attach": "opening shared memory",
    "time": "running a timed call",
    "repeat": "running calls in a row",
    "leaks": "looking for memory that was not freed",
}
