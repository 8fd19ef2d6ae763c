"""Measure how many small mistakes the harness finds, with mutants of submissions.

    PYTHONPATH=. python benchmarks/mutation.py run FILE --seed N --each 15
    PYTHONPATH=. python benchmarks/mutation.py summary FILE --words results/mutants.toml
    PYTHONPATH=. python benchmarks/mutation.py list FILE --words results/mutants.toml

`run` draws mutants of each submission with a seed. It checks each mutant against the references
that its submission fits, until the harness rejects the mutant. It appends a line of JSON for each
mutant to FILE, and skips mutants that FILE already has.

The first few cases run first. If they fail for a reason other than wrong outputs, such as a race,
no other cases run. Otherwise the whole quick grid runs, because a diagnosis needs all cases.
`--jobs` mutants are compiled and checked at a time. Their compilers share a cache of headers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path

from mutants.draw import drawn
from mutants.equivalence import digest_of
from mutants.mutant import Mutant, changed
from mutants.outcome import DIAGNOSED, Outcome, killed_by, outcome_of
from mutants.table import listing, summary

from harness import devices
from harness.engines.processes import Processes
from harness.evaluate import Request, fresh_run
from harness.problems.discovery import Submission, discover, fits
from harness.problems.grid import cases_for
from harness.problems.problem import Problem
from harness.problems.references import load_references
from harness.records.report import Report
from harness.system import codec
from harness.worker.supervisor import Deadlines

SUBMISSIONS = Path("submissions")
# A mutant may loop forever. No call of a submission takes a tenth of these deadlines.
_DEADLINES = Deadlines(step=20.0, all_steps=120.0)
_CALL_BUDGET = 10**9
# The first cases are the problem's own configuration, and corner cases.
_FIRST_CASES = 8


class Checks:
    """Checks of mutants against the references that the original submissions fit."""

    def __init__(
        self, processes: Processes, folder: Path, seed: int, kept: Path | None = None
    ) -> None:
        """Prepare checks that write mutants to `folder` and draw all values from `seed`.

        If `kept` is given, one report of each mutant is appended to that file: the one that killed
        the mutant, or else the last.
        """
        self._processes = processes
        self._folder = folder
        self._seed = seed
        self._kept = kept
        self._problems = load_references([Path("reference")])
        self._run = fresh_run()
        self._digest = cache(digest_of)
        self._usual = cache(self._reports_of)

    def outcome(self, original: Submission, mutant: Mutant) -> Outcome:
        """Check a mutant of the submission `original`, and return the mutant's outcome."""
        path = self._folder / mutant.id / original.path.name
        path.parent.mkdir()
        path.write_bytes(changed(original.path.read_bytes(), mutant.edit))
        if not discover([path]).submissions:
            return Outcome(mutant, "not compiled", message="no submission")
        reports = self._reports_of(path)
        if self._kept:
            with self._kept.open("a") as file:
                print(replace(reports[-1], submission=mutant.id).to_json(), file=file)
        # The original's reports are needed only for a mutant that passes.
        usual = self._usual(original.path) if reports[-1].is_right else ()
        result = outcome_of(mutant, reports, usual)
        may_be_same = result.fate == "survived" and mutant.part != "python"
        if may_be_same and self._digest(path) == self._digest(original.path):
            return replace(result, fate="equivalent")
        return result

    def _reports_of(self, path: Path) -> tuple[Report, ...]:
        reports: list[Report] = []
        (submission,) = discover([path]).submissions
        for problem in self._problems:
            if fits(submission, problem) is None:
                reports.append(self._report(self._request(submission, problem)))
                if not reports[-1].is_right:
                    break
        return tuple(reports)

    def _report(self, request: Request) -> Report:
        """Return the report on the first cases if they settle the outcome, else that on all cases.

        The first cases settle the outcome if they fail for a reason other than wrong numbers or a
        wrong shape. For these two reasons, the harness makes a diagnosis, which needs all cases.
        """
        few = replace(request, cases=request.cases[:_FIRST_CASES], is_whole=False)
        report = self._processes.submit(few).result()
        if report.is_right or killed_by(report) in DIAGNOSED:
            return self._processes.submit(request).result()
        return report

    def _request(self, submission: Submission, problem: Problem) -> Request:
        return Request(
            submission=submission.path,
            problem=problem.path,
            device="simulator",
            cases=cases_for(problem, submission, "quick", "simulator", seed=self._seed),
            seed=self._seed,
            deadlines=_DEADLINES,
            call_budget=_CALL_BUDGET,
            run=self._run,
        )


def outcomes(
    checks: Checks, seed: int, each: int, done: Sequence[str], jobs: int
) -> Iterator[Outcome]:
    """Check mutants in `jobs` threads, and yield each outcome as soon as it is known.

    `each` mutants are drawn of every submission, and the submissions take turns. Mutants whose ids
    are in `done` are skipped.
    """
    found = [(s, drawn(s.path, each, seed)) for s in discover([SUBMISSIONS]).submissions]
    wanted = [
        (submission, mutants[turn])
        for turn in range(each)
        for submission, mutants in found
        if turn < len(mutants) and mutants[turn].id not in done
    ]
    with ThreadPoolExecutor(jobs) as threads:
        futures = [threads.submit(checks.outcome, *one) for one in wanted]
        for future in as_completed(futures):
            yield future.result()


def recorded(file: Path) -> tuple[Outcome, ...]:
    """Return the outcomes that an earlier run wrote to a file, or none if it does not exist."""
    lines = file.read_text().splitlines() if file.exists() else []
    return tuple(codec.decode(line, Outcome) for line in lines)


def main() -> None:
    """Check mutants, or print tables of outcomes from earlier checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="draw mutants and check them")
    run.add_argument("file", type=Path, help="where outcomes are appended")
    run.add_argument("--seed", type=int, required=True, help="of the draw, and of all values")
    run.add_argument("--each", type=int, default=15, help="mutants of each submission")
    jobs = devices.default_jobs("simulator")
    run.add_argument("--jobs", type=int, default=jobs, help="how many at a time")
    run.add_argument("--reports", type=Path, help="where their reports are appended, whole")
    tables = {"summary": summary, "list": listing}
    for name, what in (("summary", "the numbers of mutants"), ("list", "the mutants")):
        shown = commands.add_parser(name, help=f"print {what}, as Markdown")
        shown.add_argument("file", type=Path, help="what `run` wrote")
        shown.add_argument("--words", type=Path, help="TOML: a person's judgement of mutants")
    options = parser.parse_args()
    known = recorded(options.file)
    if options.command in tables:
        print(tables[options.command](known, options.words))
        return
    done = [outcome.mutant.id for outcome in known]
    with Processes(options.jobs) as processes, tempfile.TemporaryDirectory() as folder:
        checks = Checks(processes, Path(folder), options.seed, options.reports)
        for outcome in outcomes(checks, options.seed, options.each, done, options.jobs):
            with options.file.open("a") as file:
                print(codec.encode(outcome), file=file)
            print(outcome.mutant.id, outcome.fate, outcome.mutant.kind, outcome.by, flush=True)


if __name__ == "__main__":
    main()
