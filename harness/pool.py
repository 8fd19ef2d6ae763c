"""Evaluate many requests side by side, in a few processes; a single one in this process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from harness import interpreter
from harness.evaluate import OnProgress, Progress, Request
from harness.evaluator import EvaluationError, attempt
from harness.report import Report, case_from_json

_EXIT_SECONDS = 10.0


def usable_cores() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0))


def cores_each(jobs: int, evaluations: int) -> int:
    """The share of processors of each of so many evaluations, of which `jobs` run at a time."""
    return max(1, usable_cores() // max(1, min(jobs, evaluations)))


def evaluators(jobs: int, evaluations: int) -> Pool | ThisProcess:
    """What evaluates so many requests, `jobs` of them at a time; a context manager.

    A process of its own costs seconds before it begins, which for a single request buy nothing.
    """
    return Pool(jobs) if evaluations > 1 else ThisProcess()


class ThisProcess:
    """Evaluates where it is called, one request after the other."""

    def __enter__(self) -> ThisProcess:
        # As in the processes of a pool, whose numbers are then the same ones.
        torch.set_num_threads(1)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Evaluate a request at once; the future raises EvaluationError."""
        future: Future[Report] = Future()
        try:
            future.set_result(attempt(request, on_progress))
        except EvaluationError as error:
            future.set_exception(error)
        return future


class Pool:
    """A few evaluator processes. Use as a context manager; leaving it ends them at once."""

    def __init__(self, jobs: int) -> None:
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[str]] = set()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="evaluation")
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, request: Request, on_progress: OnProgress = lambda _: None) -> Future[Report]:
        """Evaluate a request when its turn comes.

        `on_progress` is called from another thread. The future raises EvaluationError.
        """
        return self._threads.submit(self._evaluate, request, on_progress)

    def close(self) -> None:
        """End everything that is under way, with the workers that it started."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.terminate()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            try:
                process.wait(_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                # Its worker dies with it.
                process.kill()
                process.wait()

    def _evaluate(self, request: Request, on_progress: OnProgress) -> Report:
        process = self._take()
        try:
            report = _converse(process, request, on_progress)
        except (BrokenPipeError, EOFError):
            self._drop(process)
            raise EvaluationError(
                f"{request.submission}: the evaluator died (status {process.wait()})"
            ) from None
        except EvaluationError:
            self._idle.put(process)
            raise
        self._idle.put(process)
        return report

    def _take(self) -> subprocess.Popen[str]:
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._lock:
            if self._closed:
                raise EvaluationError("the pool is closed")
            process = subprocess.Popen(
                interpreter.command("harness.evaluator"),
                env=interpreter.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.add(process)
        return process

    def _drop(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)


def _converse(process: subprocess.Popen[str], request: Request, on_progress: OnProgress) -> Report:
    assert process.stdin is not None  # noqa: S101 - for the type checker
    assert process.stdout is not None  # noqa: S101 - for the type checker
    process.stdin.write(request.to_json() + "\n")
    process.stdin.flush()
    answers: dict[str, Callable[[str], Any]] = {"report": Report.from_json, "error": _raise}
    for line in process.stdout:
        kind, text = json.loads(line)
        if kind in answers:
            report: Report = answers[kind](text)
            return report
        on_progress(_progress(json.loads(text)))
    raise EOFError


def _raise(message: str) -> Report:
    raise EvaluationError(message)


def _progress(data: dict[str, Any]) -> Progress:
    case = data["case"]
    return Progress(data["event"], data["name"], None if case is None else case_from_json(case))
