"""The evaluations behind `harness check`: each report is shown and kept when it is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import IO

from harness import render, store
from harness.escape import one_line
from harness.evaluate import Request
from harness.evaluator import EvaluationError
from harness.finished import Finished
from harness.output import Careful, JsonLines
from harness.pool import evaluations
from harness.progress import ProgressLine
from harness.report import Report


class Checking:
    """One run.

    Attributes:
        all_passed: Whether every report so far says so.
    """

    def __init__(self, finished: Finished, json_lines: JsonLines | None, out: IO[str]) -> None:
        self.all_passed = True
        self._finished = finished
        self._json_lines = json_lines
        self._out = out
        self._careful = Careful(partial(print, file=sys.stderr, flush=True))
        self._not_evaluated = 0

    @property
    def has_trouble(self) -> bool:
        """Whether something could not be evaluated, or not be written."""
        return bool(self._not_evaluated) or not self._careful.all_well

    def take_over(self, requests: Sequence[Request], seed: int | None) -> list[Request]:
        """Show what an earlier run had finished; answers what is left to run."""
        found = [(request, self._finished.find(request, seed)) for request in requests]
        count = sum(report is not None for _, report in found)
        print(
            f"--resume: {count} of {len(requests)} reports are an earlier run's",
            file=self._out,
            flush=True,
        )
        for _, report in found:
            if report:
                self._publish(report)
        return [request for request, report in found if report is None]

    def run(self, requests: Sequence[Request], jobs: int) -> None:
        """Evaluate, saying each result when it is there."""
        for place, result in evaluations(requests, jobs, ProgressLine):
            request = requests[place]
            if isinstance(result, EvaluationError):
                self._not_evaluated += 1
                title = one_line(f"{request.submission.stem} on {request.problem.stem}")
                print(f"{title}: {result}", file=self._out, flush=True)
                continue
            if request.only is not None:
                every = len(request.only)
                what = f"{every} case{'s' * (every > 1)} only (--case); no report was kept"
                self._show(replace(result, notes=(*result.notes, what)))
                continue
            # Kept before it is shown: whoever has seen it may rely on that.
            keep = partial(self._finished.keep, request, result)
            self._careful.write("reports for --resume (.harness/finished)", keep)
            self._publish(result)

    def _publish(self, report: Report) -> None:
        """Keep a report where others look for it, and show it."""
        save = partial(store.save, report, store.FOLDER)
        self._careful.write("reports for the leaderboard (.harness/reports)", save)
        if self._json_lines:
            self._careful.write("--json", partial(self._json_lines.write, report.to_json()))
        self._show(report)

    def _show(self, report: Report) -> None:
        self.all_passed = self.all_passed and report.verdict == "passed"
        print(render.full(report), file=self._out, flush=True)
