"""The workers of a search for failures, made after all cases of a grid have passed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Self

from harness.judging.case_outcome import CaseOutcome
from harness.judging.search import Searcher
from harness.problems.configuration import Configuration
from harness.problems.grid import Case, searched_case
from harness.problems.one_namespace import shared_constants
from harness.problems.problem import Problem
from harness.problems.search import Search
from harness.records.coverage import Coverage
from harness.worker.device_worker import DeviceWorker
from harness.worker.supervisor import StepFailed, WorkerFailure

# Limit of the failures that are returned beside the smallest.
_MOST_OTHERS = 11


@dataclass(frozen=True)
class Searched:
    """The result of a search for failures at other sizes.

    Attributes:
        failures: The smallest failing case first, then some larger failing cases for the diagnosis;
            empty if no case failed.
        note: One line that says how many configurations were tried, and how many of them fail.
        coverage: Lines of device code that ran in the grid's cases or in the search; None if
            coverage is not recorded.
    """

    failures: tuple[CaseOutcome, ...]
    note: str
    coverage: Coverage | None


class SearchRun:
    """Context manager for one search, which has its own workers; leaving it ends the last worker.

    `judging/search.py` chooses the configurations. This class runs them, and replaces a worker that
    died or cannot run more cases.

    Args:
        problem: The problem; the search tries it at other sizes than the grid does.
        seed: Seed of all random values.
        start: Function that starts a worker.
        check: Function that runs a case in a worker.
        lines: Function that returns the lines of device code that have run in a worker.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        start: Callable[[], DeviceWorker],
        check: Callable[[DeviceWorker, Case], CaseOutcome],
        lines: Callable[[DeviceWorker], Coverage | None],
    ) -> None:
        self._problem = problem
        self._seed = seed
        self._start = start
        self._check = check
        self._lines = lines
        self._worker: DeviceWorker | None = None
        self._stack = ExitStack()
        self._end = 0.0
        self._coverage: Coverage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, search: Search, right: Sequence[Case], coverage: Coverage | None) -> Searched:
        """Run the search, whose time limit starts now, and return the result.

        Args:
            search: The settings of the search.
            right: Cases of the grid that passed.
            coverage: Lines of device code that ran in the grid's cases; None if coverage is not
                recorded.

        Raises:
            WorkerFailure: A worker failed before or while it imported the submission.
        """
        self._end = time.monotonic() + search.seconds
        self._coverage = coverage
        before = self.reached
        chance = random.Random(f"search {self._seed}")  # noqa: S311 - the seed is the secret
        searcher = Searcher(self._problem.family, search, right, chance, self)
        found = searcher.run()
        count = len(searcher.tried)
        if found:
            wrong = len(searcher.failures)
            told = f"{wrong} of {count} more configurations fail; {found.case.id} is the smallest"
        elif count:
            told = f"{count} more configurations are right"
        else:
            told = "nothing was searched, since it is not known which sizes this reference takes"
        news = f"; lines of device code that only they reach: {self.reached - before}"
        note = f"--search: {told}{news if self.reached > before else ''}"
        others = (each for each in searcher.failures if each is not found)
        failures = (found, *islice(others, _MOST_OTHERS)) if found else ()
        return Searched(failures, note, self._coverage)

    @property
    def is_over(self) -> bool:
        """True if the search's time limit has passed."""
        return time.monotonic() >= self._end

    @property
    def reached(self) -> int:
        """Number of different lines of device code that ran so far, in grid cases or the search."""
        return len(self._coverage.reached) if self._coverage else 0

    def try_out(self, configuration: Configuration) -> CaseOutcome:
        """Run the case of one configuration in a worker, and return the outcome."""
        worker = self._ready()
        outcome = self._check(worker, searched_case(self._problem, configuration, self._seed))
        if outcome.worker_failed or worker.is_spent:
            self._stack.close()
            self._worker = None
        elif self._coverage:
            lines = self._lines(worker)
            self._coverage = self._coverage.joined(lines) if lines else self._coverage
        return outcome

    def _ready(self) -> DeviceWorker:
        if self._worker is None:
            self._worker = self._stack.enter_context(self._start())
            own = shared_constants(self._problem.tree, self._worker.source)
            try:
                self._worker.import_submission(own)
            except StepFailed:
                message = "the submission cannot be imported again"
                raise WorkerFailure("protocol", message) from None
        return self._worker
