"""The execution of `harness check`: evaluates submissions, and shows and stores the reports.

Each report is shown and stored as soon as it is finished.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from harness.cli.notes import open_json, print_notes, print_refusals, refusals
from harness.cli.options import (
    NOT_PASSED,
    PASSED,
    USAGE,
    engine_choice,
    reference_paths,
)
from harness.cli.selection import Selected, select_cases
from harness.cli.terminal import print_report
from harness.defaults import RESULTS
from harness.engines.engine import Engine, EngineChoice, evaluate_all
from harness.engines.evaluator import EvaluationError
from harness.engines.finished import FOLDER as FINISHED
from harness.engines.finished import ReportCache
from harness.engines.progress import ProgressLines
from harness.evaluate import Request
from harness.leaderboard.page import page as leaderboard
from harness.leaderboard.standings import boards
from harness.options import Options
from harness.problems.discovery import Submission, discover, fits
from harness.problems.problem import Problem
from harness.problems.references import load_references, named
from harness.records import store
from harness.records.coverage import Coverage, lcov
from harness.records.junit import TestCase, junit, no_submission, not_evaluated, tests_of
from harness.records.report import Report
from harness.records.requirements import Requirements
from harness.report_page.data import pairs_of
from harness.report_page.page import LEADERBOARD, NAME, page, subtitle_for, target
from harness.requesting import Requests
from harness.sandbox import layers
from harness.speed.result import of_problems
from harness.system.files import write_whole
from harness.system.output import FaultTolerantWriter, JsonLines, say
from harness.system.processors import cores_each


def check(options: argparse.Namespace) -> int:
    """Run `harness check` with parsed options, and return the exit status.

    Raises:
        harness.system.errors.HarnessError: The options, references or machine do not allow any
            check, or the machine fails during the checks.
    """
    problems = named(load_references(reference_paths(options)), options.problem)
    engine = engine_choice(options)
    hardware = engine.hardware(options.device)
    layers.require_for(options.readable, untrusted=options.untrusted and not options.scheduler)
    found = discover(options.paths)
    making = Requests.of(Options.of(options), hardware.device)
    pairs = [
        Selected(submission, problem, making.cases(problem, submission))
        for submission in found.submissions
        for problem in problems
        if fits(submission, problem, problems) is None
    ]
    if options.case:
        pairs = select_cases(pairs, options.case, options.grid, making.seed)
    jobs = options.jobs or hardware.jobs
    requests = [
        making.request(
            pair.submission.path,
            pair.problem.path,
            pair.cases,
            is_whole=not options.case,
            search=making.search(pair.problem, pair.submission),
            cores=cores_each(jobs, len(pairs)),
        )
        for pair in pairs
    ]
    if requests:
        engine.prepare()
    with ExitStack() as stack:
        json_lines = open_json(options.json, stack)
        # With `--json -`, standard output holds JSON alone, and people read standard error.
        out = sys.stderr if json_lines and json_lines.is_standard_output else sys.stdout
        print_notes(out)
        refused = print_refusals(found, problems, out)
        required = Requirements(options.require, options.require_coverage, options.require_own_work)
        finished = ReportCache(FINISHED, hardware.gpu)
        checking = Checking(finished, json_lines, out, required, no_color=options.no_color)
        if options.junitxml:
            tests = [no_submission(*each) for each in refusals(found, problems)]
            stack.callback(checking.write_junit, options.junitxml, tests)
        if options.html:
            stack.callback(checking.write_html, options.html, problems, found.submissions)
        if options.coverage:
            stack.callback(checking.write_coverage, options.coverage)
        if options.resume:
            requests = checking.take_over(requests, options.seed)
        try:
            checking.run(requests, engine, jobs)
        except KeyboardInterrupt as interrupt:
            goes_on = () if options.case else ("run it again with --resume to continue from here",)
            raise type(interrupt)(*goes_on) from None
    if checking.has_trouble:
        return USAGE
    return PASSED if checking.all_passed and not refused else NOT_PASSED


class Checking:
    """The results of `harness check` so far; this class also stores and prints them.

    Attributes:
        all_passed: True if every report so far is right and meets the `--require` options.
    """

    def __init__(
        self,
        finished: ReportCache,
        json_lines: JsonLines | None,
        out: IO[str],
        required: Requirements,
        *,
        no_color: bool,
    ) -> None:
        self.all_passed = True
        self._required = required
        self._no_color = no_color
        self._finished = finished
        self._json_lines = json_lines
        self._out = out
        self._careful = FaultTolerantWriter(partial(print, file=sys.stderr, flush=True))
        self._not_evaluated = 0
        self._tests: list[TestCase] = []
        self._covered: list[tuple[str, str, Coverage]] = []
        self._reports: list[Report] = []

    @property
    def has_trouble(self) -> bool:
        """True if a request could not be evaluated, or a file could not be written."""
        return bool(self._not_evaluated) or not self._careful.all_well

    def write_junit(self, path: Path, before: Sequence[TestCase]) -> None:
        """Write the results so far to `path` as JUnit XML, after the test cases in `before`."""
        text = junit((*before, *self._tests))
        self._careful.write(f"--junitxml {path}", partial(write_whole, path, text))

    def write_html(
        self, path: Path, problems: Sequence[Problem], submissions: Sequence[Submission]
    ) -> None:
        """Write all reports as an HTML page; if `path` is a folder, also write the leaderboard."""
        pairs = pairs_of(self._reports, of_problems(RESULTS, {r.problem for r in self._reports}))
        file = target(path)
        links = () if file == path else (("leaderboard", LEADERBOARD),)
        text = page(pairs, subtitle_for(len(self._reports)), links)
        self._careful.write(f"--html {file}", partial(write_whole, file, text))
        if links:
            ranked = [
                board
                for problem in problems
                for board in boards(problem, submissions, store.FOLDER, RESULTS, problems)
            ]
            beside = partial(write_whole, file.with_name(LEADERBOARD), leaderboard(ranked, NAME))
            self._careful.write(f"--html {path}", beside)

    def write_coverage(self, path: Path) -> None:
        """Write to `path`, in lcov's format, which lines of device code ran."""
        write = partial(write_whole, path, lcov(self._covered))
        self._careful.write(f"--coverage {path}", write)

    def take_over(self, requests: Sequence[Request], seed: int | None) -> list[Request]:
        """Show the stored reports of an earlier run; return requests that have no stored report."""
        found = [(request, self._finished.find(request, seed)) for request in requests]
        count = sum(report is not None for _, report in found)
        print(
            f"--resume: {count} of {len(requests)} reports were taken over from an earlier run",
            file=self._out,
            flush=True,
        )
        for _, report in found:
            if report:
                self._publish(report)
        return [request for request, report in found if report is None]

    def run(self, requests: Sequence[Request], engine: EngineChoice, jobs: int) -> None:
        """Evaluate requests on an engine, and show each result as soon as it is finished."""
        progress = ProgressLines(self._out)
        try:
            self._take_results(requests, engine.start(jobs, len(requests)), progress)
        except KeyboardInterrupt:
            for line in progress.broken_off():
                say(line, self._out)
            raise

    def _take_results(
        self, requests: Sequence[Request], engine: Engine, progress: ProgressLines
    ) -> None:
        for place, result in evaluate_all(engine, requests, progress.follow):
            request = requests[place]
            progress.ended(request)
            if isinstance(result, EvaluationError):
                self._not_evaluated += 1
                say(f"{request.title}: {result}", self._out)
                names = (request.submission.stem, request.problem.stem)
                self._tests.append(not_evaluated(*names, str(result)))
                continue
            if not request.is_whole:
                every = len(request.cases)
                what = f"{every} case{'s' * (every > 1)} only (--case); no report was kept"
                self._show(replace(result, notes=(*result.notes, what)))
                continue
            # Store the report before showing it, so that --resume finds every report that was
            # shown.
            keep = partial(self._finished.keep, request, result)
            self._careful.write("reports for --resume (.harness/finished)", keep)
            self._publish(result)

    def _publish(self, report: Report) -> None:
        """Store a report for the leaderboard, write it to the target of `--json`, and show it."""
        save = partial(store.save, report, store.FOLDER)
        self._careful.write("reports for the leaderboard (.harness/reports)", save)
        if self._json_lines:
            self._careful.write("--json", partial(self._json_lines.write, report.to_json()))
        self._show(report)

    def _show(self, report: Report) -> None:
        self.all_passed = self.all_passed and report.is_right
        self._tests += tests_of(report)
        self._reports.append(report)
        if report.coverage:
            title = f"{report.submission} on {report.problem}"
            self._covered.append((title, report.path, report.coverage))
        print_report(report, self._out, no_color=self._no_color)
        for unmet in self._required.unmet(report):
            self.all_passed = False
            say(f"{report.submission} on {report.problem}: requirement not met: {unmet}", self._out)
