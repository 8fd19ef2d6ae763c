"""Search for a configuration that fails, and then for the smallest one.

Sizes are drawn at random, or near those of a configuration that has run. A submission often takes
another path at sizes near the numbers in its text, so draws prefer such sizes. Draws also prefer
sizes near a configuration that reached new lines of device code. Hypothesis also draws and shrinks.
It is not used here, because it neither starts from a given example nor learns from the coverage of
a whole run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Protocol

from harness.judging.case_outcome import CaseOutcome
from harness.problems.configuration import Configuration
from harness.problems.families.family import Family
from harness.problems.search import Search
from harness.records.report import AMISS

# Share of draws from all configurations; among the others, share near those that reached new lines.
_FRESH = 0.25
_NEAR_NEWS = 0.5


class Trials(Protocol):
    """The interface of an object that runs configurations of one submission."""

    @property
    def is_over(self) -> bool:
        """True if no time is left."""

    @property
    def reached(self) -> int:
        """The number of lines of device code that have run so far, in any configuration."""

    def try_out(self, configuration: Configuration) -> CaseOutcome:
        """Run a configuration, and return its outcome."""


class Searcher:
    """A search for a configuration of one problem in which one submission fails.

    Attributes:
        tried: Names of the configurations that ran.
        failures: Outcomes of the configurations that failed, in the order in which they ran.
    """

    def __init__(
        self,
        family: Family,
        search: Search,
        known: Sequence[Configuration],
        chance: random.Random,
        trials: Trials,
    ) -> None:
        """Start from the configurations that are known to be right."""
        self.tried: set[str] = set()
        self.failures: list[CaseOutcome] = []
        self._family = family
        self._search = search
        self._known = known
        self._right = {family.spell(each) for each in known}
        self._chance = chance
        self._trials = trials
        self._news: list[Configuration] = []

    def run(self) -> CaseOutcome | None:
        """Search, and return the smallest failure found in time, or None if nothing failed."""
        wrong = next(self._failures(), None)
        return wrong and self._smallest(wrong)

    def _failures(self) -> Iterator[CaseOutcome]:
        while not self._trials.is_over:
            configuration = self._draw()
            if configuration is None:
                return
            before = self._trials.reached
            outcome = self._try(configuration)
            if self._trials.reached > before:
                self._news.append(configuration)
            if outcome:
                yield outcome

    def _draw(self) -> Configuration | None:
        chance, taken = self._chance, self._search.taken
        if not self._known or chance.random() < _FRESH:
            return self._family.drawn(taken, chance)
        is_near_news = self._news and chance.random() < _NEAR_NEWS
        base = chance.choice(self._news if is_near_news else self._known)
        return self._family.near(base, taken, self._search.numbers, chance)

    def _try(self, configuration: Configuration) -> CaseOutcome | None:
        """Run a configuration that has not run yet, and return its outcome if it fails."""
        name = self._family.spell(configuration)
        if name in self._right or name in self.tried:
            return None
        outcome = self._trials.try_out(configuration)
        self.tried.add(name)
        if outcome.report.verdict not in AMISS:
            return None
        self.failures.append(outcome)
        return outcome

    def _smallest(self, wrong: CaseOutcome) -> CaseOutcome:
        """Return a failure with the same verdict and the smallest configuration that is found.

        The search is greedy: the first simpler configuration that fails is the next one to start
        from. `Family.simpler` yields much smaller configurations first, so that few steps are
        needed. The search ends when no simpler configuration has that verdict, or when no time is
        left.
        """
        found: CaseOutcome | None = wrong
        while found:
            wrong, found = found, next(self._simpler(found), None)
        return wrong

    def _simpler(self, wrong: CaseOutcome) -> Iterator[CaseOutcome]:
        for configuration in self._family.simpler(wrong.case, self._search.taken):
            if self._trials.is_over:
                return
            outcome = self._try(configuration)
            if outcome and outcome.report.verdict == wrong.report.verdict:
                yield outcome
