"""The engine that runs several evaluations at a time, each in its own evaluator process."""

from __future__ import annotations

import contextlib
import json
import math
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from harness.engines.engine import EngineKind
from harness.engines.evaluator import EvaluationError
from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import Report
from harness.speed.contender import ContenderError
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system import codec, interpreter, leash
from harness.system.errors import MachineError

_EXIT_SECONDS = 10.0
_CLOSED = "the engine is closed"


T = TypeVar("T")


class Lost(EvaluationError):
    """The error of an evaluation whose evaluator process died before it wrote a result."""


class Processes:
    """An engine of evaluator processes, each of which starts when it is first needed.

    Args:
        jobs: Largest number of evaluator processes.
        variables: Environment variables to set in the evaluator processes.
    """

    def __init__(self, jobs: int, variables: Mapping[str, str] | None = None) -> None:
        self._variables = dict(variables or {})
        # Twice as many requests as processes, so that no process waits while the caller prints a
        # report.
        self.capacity = 2 * jobs
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[str]] = set()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="evaluation")
        self._gpu = _SharedOrExclusive()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Queue the evaluation of a request; another thread calls `on_progress`."""
        return self._later("report", request, Report.from_json, on_progress)

    def build(self, request: Request, on_progress: OnProgress) -> Future[tuple[Path, ...]]:
        """Queue the build of a request's submission; return a future of the builds' folders."""
        return self._later("builds", request, _paths, on_progress)

    def measure(self, plan: SpeedPlan) -> Future[Measurement]:
        """Queue a speed measurement, which runs while no other task of this engine runs."""
        return self._later("times", plan, _measurement, alone=True)

    @property
    def is_closed(self) -> bool:
        """True if the engine accepts no more requests."""
        return self._closed

    def close(self) -> None:
        """End all evaluator processes, and the workers that they started."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.terminate()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            # If a process has to be killed, its worker dies with it.
            leash.end(process, _EXIT_SECONDS)

    def _later(
        self,
        what: str,
        asked: Request | SpeedPlan,
        read: Callable[[str], T],
        on_progress: OnProgress = lambda _: None,
        *,
        alone: bool = False,
    ) -> Future[T]:
        """Queue a request of the kind `what` for an evaluator process; `read` decodes the result.

        If `alone`, the request runs while no other request of this engine runs.
        """

        def ask() -> T:
            with self._gpu.entered(alone=alone):
                return read(self._ask(what, asked, on_progress))

        try:
            return self._threads.submit(ask)
        except RuntimeError:
            # A caller that waits for a report and then asks for its times may be too late.
            late: Future[T] = Future()
            late.set_exception(EvaluationError(_CLOSED))
            return late

    def _ask(self, what: str, asked: Request | SpeedPlan, on_progress: OnProgress) -> str:
        process = self._take()
        try:
            answer = _converse(process, what, asked, on_progress)
        except (BrokenPipeError, EOFError):
            self._drop(process)
            raise Lost(f"not evaluated: {_exit_reason(process)}; check it again") from None
        except (ContenderError, EvaluationError, MachineError):
            self._idle.put(process)
            raise
        self._idle.put(process)
        return answer

    def _take(self) -> subprocess.Popen[str]:
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._lock:
            if self._closed:
                raise EvaluationError(_CLOSED)
            process = subprocess.Popen(
                leash.command(interpreter.command("harness.engines.evaluator")),
                env={**interpreter.environment(), **self._variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                # Ctrl-C reaches only this process, which then ends the evaluators.
                start_new_session=True,
            )
            self._processes.add(process)
        return process

    def _drop(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)


class _SharedOrExclusive:
    """A lock that many threads hold together, or one thread holds alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._claims = 0

    @contextlib.contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Hold the lock in a `with` block, together with other threads or, if `alone`, exclusively.

        While a thread waits for exclusive use, no other thread gets the lock. Otherwise a steady
        flow of evaluations would delay a measurement for ever.
        """
        with self._changed:
            self._claims += alone
            self._changed.wait_for(lambda: not (self._inside if alone else self._claims))
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._claims -= alone
                self._changed.notify_all()


def _exit_reason(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return f"the harness's evaluator process {how}"


def _converse(
    process: subprocess.Popen[str],
    what: str,
    asked: Request | SpeedPlan,
    on_progress: OnProgress,
) -> str:
    assert process.stdin is not None  # noqa: S101 - for the type checker
    assert process.stdout is not None  # noqa: S101 - for the type checker
    process.stdin.write(json.dumps([what, codec.encode(asked)]) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        kind, text = json.loads(line)
        if kind == "error":
            raise EvaluationError(text)
        if kind == "machine":
            raise MachineError(text)
        if kind == "untimed":
            raise ContenderError(text)
        if kind == what:
            return str(text)
        on_progress(codec.decode(text, Progress))
    raise EOFError


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(map(Path, json.loads(text)))


def _measurement(text: str) -> Measurement:
    return codec.decode(text, Measurement)


ENGINE = EngineKind(math.inf, lambda jobs, _scheduler: Processes(jobs))
