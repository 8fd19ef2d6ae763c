"""Evaluate many requests side by side, each in one of a few processes of its own."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import torch

from harness.engines.evaluator import EvaluationError, attempt
from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import Report, case_from_json
from harness.system import interpreter, leash

_EXIT_SECONDS = 10.0


def evaluations(
    requests: Sequence[Request], jobs: int, follow: Callable[[Request], OnProgress]
) -> Iterator[tuple[int, Report | EvaluationError]]:
    """Evaluate requests, `jobs` of them at a time; each one's place and result, when it is there.

    One at a time runs in this process: another costs seconds before it begins, and buys nothing.

    Args:
        requests: What to evaluate.
        jobs: How many at a time.
        follow: Gives what is told of a request's progress, perhaps from another thread.
    """
    if min(jobs, len(requests)) <= 1:
        # As in the processes of a pool, whose numbers are then the same ones.
        torch.set_num_threads(1)
        for place, request in enumerate(requests):
            try:
                # What a reference prints is no part of what the caller has to say.
                with contextlib.redirect_stdout(sys.stderr):
                    report = attempt(request, follow(request))
                yield place, report
            except EvaluationError as error:
                yield place, error
        return
    with Pool(jobs) as pool:
        places = {
            pool.submit(request, follow(request)): place for place, request in enumerate(requests)
        }
        for future in as_completed(places):
            try:
                yield places[future], future.result()
            except EvaluationError as error:
                yield places[future], error


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
            # If it must be killed, its worker dies with it.
            leash.end(process, _EXIT_SECONDS)

    def _evaluate(self, request: Request, on_progress: OnProgress) -> Report:
        process = self._take()
        try:
            report = _converse(process, request, on_progress)
        except (BrokenPipeError, EOFError):
            self._drop(process)
            raise EvaluationError(f"not evaluated: {_epitaph(process)}; check it again") from None
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
                leash.command(interpreter.command("harness.engines.evaluator")),
                env=interpreter.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                # Ctrl-C is for this process, which then ends that one.
                start_new_session=True,
            )
            self._processes.add(process)
        return process

    def _drop(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)


def _epitaph(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return f"the harness's process that saw to it {how}"


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
    known = None if case is None else case_from_json(case)
    return Progress(data["event"], data["name"], data["cases"], known)
