"""The trusted side of a worker: start it, give it deadlines, and see to its end."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, Any, Literal, NoReturn, Self

import torch

from harness.compiler.compiler import CompileTimeout
from harness.defaults import BUILD_SECONDS, CHECK_SECONDS, STEP_SECONDS
from harness.messages.channel import (
    MAX_TENSOR_BYTES,
    Channel,
    DeadlineExceeded,
    Disconnected,
    Message,
    ProtocolError,
)
from harness.sandbox import bubblewrap
from harness.sandbox.confined import Confined, Confinement, ProcessTree, places
from harness.sandbox.fork_server import FIRST_DESCRIPTOR, Program
from harness.sandbox.forked import CannotFork, Forked, ForkServer
from harness.sandbox.limits import Limits
from harness.simulator.native.library import Libraries
from harness.system import codec, interpreter
from harness.system.allowance import Allowance
from harness.system.shared import Shared
from harness.worker import answers
from harness.worker.build_service import Answer as Served
from harness.worker.build_service import BuildEvent, BuildService
from harness.worker.settings import Instructions, Settings

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


class _BuildTimeout(TimeoutError):
    """A build took too long; the text is what was built."""


class Worker:
    """One worker process. Use as a context manager; leaving it kills the process and its tree.

    A submission runs in a sandbox, and what it has compiled is compiled on this side. A baseline
    is the reference, in which nothing is untrusted: it runs as this process does.
    """

    def __init__(
        self,
        settings: Settings,
        deadlines: Deadlines,
        on_build: Callable[[BuildEvent], None],
        left: TimeLeft | None = None,
    ) -> None:
        """`left` is what the workers before it have left of the deadlines."""
        self._deadlines = deadlines
        self._left = left or TimeLeft(deadlines)
        self._paused = 0.0
        self._submission = settings.submission
        self._build_service = BuildService(settings, deadlines.build, self._left.builds, on_build)
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = self._start_process(settings, theirs.fileno())

    def _start_process(self, settings: Settings, descriptor: int) -> ProcessTree:
        if settings.baseline:
            return _start_trusted(settings, descriptor, self._output)
        return start_confined(settings, descriptor, self._output)

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
        """The submission's text."""
        return self._submission.read_text(errors="replace")

    @property
    def built(self) -> Sequence[bytes]:
        """The shared objects that were built for it so far."""
        return self._build_service.built

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
        except _BuildTimeout as late:
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

    def _check(self, step: Step, nonce: str, answer: Message) -> None:
        answers.check(step, nonce, answer)

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

    def _served(self, header: dict[str, Any]) -> Served:
        try:
            return self._build_service.serve(header)
        except CompileTimeout:
            raise _BuildTimeout(self._build_service.name_of(header)) from None

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


def start_confined(
    settings: Settings, descriptor: int, output: IO[bytes], device: int | None = None
) -> ProcessTree:
    """The process of a worker for a submission; on `device` its device process answers."""
    limits = Limits.for_this_machine(settings.cores)
    readable = list(settings.readable)
    if settings.libraries:
        readable += [settings.libraries.runtime, settings.libraries.device]
    # CUDA's own libraries may lie beside the toolkit.
    readable.append(settings.toolchain.cuda.home)
    placed = places(settings.submission)
    told = replace(settings.instructions(limits, device), submission=placed[settings.submission])
    confinement = Confinement(
        tuple(readable),
        placed,
        limits,
        with_gpu=settings.libraries is None and settings.device == "cuda",
        must_hold=settings.untrusted,
    )
    descriptors = [descriptor] if device is None else [descriptor, device]
    # Without a sandbox there is nothing to fork into.
    if settings.libraries and bubblewrap.usable():
        with contextlib.suppress(CannotFork):
            return _forked(settings.libraries, told, confinement, output, descriptors)
    words = [str(descriptor), codec.encode(told)]
    command = (
        interpreter.command(
            "harness.worker.inside.simulated", str(settings.libraries.runtime), *words
        )
        if settings.libraries
        else interpreter.command("harness.worker.inside.main", *words)
    )
    return Confined(command, confinement, stdout=output, stderr=output, pass_fds=descriptors)


_fork_servers = Shared(ForkServer)


def _forked(
    libraries: Libraries,
    told: Instructions,
    confinement: Confinement,
    output: IO[bytes],
    descriptors: Sequence[int],
) -> ProcessTree:
    """A worker on the simulator, which need not import torch: that takes longer than most cases."""
    # A real CUDA runtime that torch brings along must find that its functions are there already.
    program = Program((libraries.runtime,), "harness.worker.inside.main")
    channel, device = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + len(descriptors))
    words = [str(channel), codec.encode(replace(told, device=device))]
    server, title = _fork_servers.get(program), told.submission.stem
    return Forked(server, words, title, confinement, output, descriptors)


def _start_trusted(settings: Settings, descriptor: int, output: IO[bytes]) -> ProcessTree:
    """A worker for a baseline."""
    told = settings.instructions(None, None)
    return ProcessTree(
        subprocess.Popen(
            interpreter.command("harness.worker.inside.main", str(descriptor), codec.encode(told)),
            env=interpreter.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[descriptor],
            start_new_session=True,
        )
    )


_BY_STEP_SECONDS: tuple[Step, ...] = ("import", "construct", "weights", "forward", "profile")
"""Steps whose deadline users can set."""

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
