"""Evaluation with one-line errors, and the evaluator process, which evaluates requests from a pipe.

`python -m harness.engines.evaluator` reads one line of JSON for each request from standard input. A
line has a kind (`report`, `builds` or `times`) and the request or, for `times`, a speed plan.

For each request, the process writes lines of JSON to standard output: any number of `progress`,
then one of these:

- the kind of the request, with the result;
- `error`, if the request cannot be evaluated;
- `machine`, if this machine cannot evaluate anything;
- `untimed`, if a submission of the plan cannot be timed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import torch

from harness.building import build
from harness.evaluate import OnProgress, Progress, Request, evaluate
from harness.preflight import raising_machine_errors
from harness.records.report import Report
from harness.sandbox.confined import SandboxError
from harness.speed.contender import ContenderError
from harness.speed.measure import measure
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system import codec, interpreter
from harness.system.errors import MachineError
from harness.system.warning import without_user_warnings


class EvaluationError(RuntimeError):
    """A request that cannot be evaluated; the message says what is wrong and what to do.

    Other requests may still be evaluated. If none can, MachineError is raised instead.
    """


def attempt(request: Request, on_progress: OnProgress) -> Report:
    """Evaluate a request in this process; convert known errors to one-line errors.

    Raises:
        EvaluationError: The request cannot be evaluated.
        MachineError: This machine cannot evaluate anything.
    """
    with _in_one_line():
        return evaluate(request, on_progress)


def attempt_build(request: Request, on_progress: OnProgress) -> tuple[Path, ...]:
    """Build a request's submission in this process; return the folders of the builds in the cache.

    Raises:
        EvaluationError: The submission cannot be built.
        MachineError: This machine cannot build anything.
    """
    with _in_one_line():
        return build(request, on_progress)


def attempt_measure(plan: SpeedPlan) -> Measurement:
    """Time the submissions of a plan on this process's GPU.

    Raises:
        ContenderError: A submission cannot be timed, or returned a wrong output while it was timed.
        EvaluationError: The plan cannot be timed.
        MachineError: This machine cannot time anything.
    """
    with _in_one_line():
        return measure(plan)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        with raising_machine_errors(), without_user_warnings():
            yield
    except OSError as error:
        said = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise EvaluationError(f"{where}{said}") from None
    except (ValueError, SandboxError) as error:
        raise EvaluationError(str(error)) from None


def main() -> None:
    """Read requests from standard input, and write their results, until the input ends."""
    interpreter.settle()
    # leash.py sends SIGTERM too if the parent dies. The handler unwinds, so that the running worker
    # is ended as well.
    signal.signal(signal.SIGTERM, _leave)
    # Several evaluators run side by side, and their tensors are small.
    torch.set_num_threads(1)
    answers = _Answers(_take_standard_output())
    for line in sys.stdin:
        asked, text = json.loads(line)
        try:
            answers.tell(asked, _answer(asked, text, answers.progress))
        except EvaluationError as error:
            answers.tell("error", str(error))
        except MachineError as error:
            answers.tell("machine", str(error))
        except ContenderError as error:
            answers.tell("untimed", str(error))


def _answer(asked: str, text: str, on_progress: OnProgress) -> str:
    if asked == "times":
        return codec.encode(attempt_measure(codec.decode(text, SpeedPlan)))
    request = codec.decode(text, Request)
    if asked == "builds":
        return json.dumps(list(map(str, attempt_build(request, on_progress))))
    return attempt(request, on_progress).to_json()


def _leave(*_: object) -> None:
    # Ignore further signals: a second one would interrupt the cleanup of the first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _take_standard_output() -> IO[str]:
    """Return a file for answers on standard output; redirect all other prints to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


class _Answers:
    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def progress(self, progress: Progress) -> None:
        self.tell("progress", codec.encode(progress))

    def tell(self, kind: str, text: str) -> None:
        print(json.dumps([kind, text]), file=self._file, flush=True)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The reader has gone. A normal exit would try to flush the answers once more.
        os._exit(1)
