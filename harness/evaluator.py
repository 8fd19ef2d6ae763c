"""Evaluate, with one line for what keeps a request from it; and the process that does so.

`python -m harness.evaluator` takes requests from standard input, one JSON object a line. Answers
are lines of JSON on standard output: `progress` and then `report` or `error` for each request.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from dataclasses import asdict

import torch

from harness.build.ninja import CompileError
from harness.build.toolchain import ToolchainError
from harness.evaluate import OnProgress, Progress, Request, evaluate
from harness.report import Report


class EvaluationError(RuntimeError):
    """A request could not be evaluated at all; the message says what is wrong and what to do."""


def attempt(request: Request, on_progress: OnProgress) -> Report:
    """Evaluate a request in this process.

    Raises:
        EvaluationError: It cannot be evaluated.
    """
    try:
        return evaluate(request, on_progress)
    except (ValueError, ToolchainError, OSError) as error:
        raise EvaluationError(str(error)) from None
    except CompileError as error:
        message = f"the simulator does not compile: {error}\n{error.output}"
        raise EvaluationError(message) from None


def main() -> None:
    """Serve until standard input ends."""
    # So that the worker under way is seen to its end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Several evaluators run side by side, and their tensors are small.
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = Request.from_json(line)
        try:
            report = attempt(request, _tell_progress)
        except EvaluationError as error:
            _tell("error", str(error))
        else:
            _tell("report", report.to_json())


def _tell_progress(progress: Progress) -> None:
    _tell("progress", json.dumps(asdict(progress)))


def _tell(kind: str, text: str) -> None:
    print(json.dumps([kind, text]), flush=True)


if __name__ == "__main__":
    # Whoever interrupts the harness interrupts this process too, and needs no second message.
    with contextlib.suppress(KeyboardInterrupt):
        main()
