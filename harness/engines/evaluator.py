"""Evaluate, with one line for what keeps a request from it; and the process that does so.

`python -m harness.engines.evaluator` takes requests from standard input: lines of JSON with what is
asked for, `report`, `builds` or `times`, and the request, or the plan of what is to be timed.
Answers are lines of JSON on standard output: any number of `progress`, and then what was asked for,
or `error`, or `untimed` where it is a contender that cannot be timed.
"""

from __future__ import annotations

import errno
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
from harness.compiler.ninja import CompileError
from harness.compiler.toolchain import ToolchainError
from harness.compiler.tried import LAST_TRIED
from harness.evaluate import OnProgress, Progress, Request, evaluate
from harness.records.report import Report
from harness.sandbox.confined import SandboxError
from harness.speed.contender import ContenderError
from harness.speed.measure import measure
from harness.speed.measurement import Measurement
from harness.speed.plan import SpeedPlan
from harness.system import codec, interpreter


class EvaluationError(RuntimeError):
    """A request could not be evaluated at all; the message says what is wrong and what to do."""


def attempt(request: Request, on_progress: OnProgress) -> Report:
    """Evaluate a request in this process.

    Raises:
        EvaluationError: It cannot be evaluated.
    """
    with _in_one_line():
        return evaluate(request, on_progress)


def attempt_build(request: Request, on_progress: OnProgress) -> tuple[Path, ...]:
    """Build what a request's submission needs, in this process; answers `building.build`'s folders.

    Raises:
        EvaluationError: Nothing can be built.
    """
    with _in_one_line():
        return build(request, on_progress)


def attempt_measure(plan: SpeedPlan) -> Measurement:
    """Time what a plan names, on the GPU of this process.

    Raises:
        ContenderError: A submission cannot be timed, or gave a wrong output.
        EvaluationError: Nothing can be timed.
    """
    with _in_one_line():
        return measure(plan)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise EvaluationError(f"{where}{said}") from None
    except (ValueError, ToolchainError, SandboxError) as error:
        raise EvaluationError(str(error)) from None
    except CompileError as error:
        # A full disk is told in one line, not one for each source.
        full = os.strerror(errno.ENOSPC)
        said = full if full in error.output else f"{error}\n{error.output}"
        raise EvaluationError(f"the simulator does not compile ({LAST_TRIED}): {said}") from None


def main() -> None:
    """Serve until standard input ends."""
    interpreter.settle()
    # Also when the harness has gone (leash.py): so that the worker under way is seen to its end.
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
    # Once is enough: a second one would come in the middle of what the first led to.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _take_standard_output() -> IO[str]:
    """Standard output for answers alone: what a reference prints goes elsewhere from now on."""
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
        # Who would read the answers has gone. Ending as usual would try once more to send them.
        os._exit(1)
