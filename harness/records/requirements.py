"""Requirements on a report beyond a right result, such as a minimum coverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.records.report import Report


@dataclass(frozen=True)
class Requirements:
    """Minimum shares that a submission must reach, each from 0 to 1.

    Attributes:
        cases: Share of the cases that must have passed: neither declined nor left out.
        coverage: Share of the lines of device code that must have run in some case.
        own_work: Share of the reference's work that the submission's own kernels must have done.
    """

    cases: float = 0.0
    coverage: float = 0.0
    own_work: float = 0.0

    def unmet(self, report: Report) -> Iterator[str]:
        """Yield one line for each requirement that a right report does not meet.

        Nothing is yielded for a report that is not right, because such a report fails anyway.
        """
        if not report.is_right:
            return
        passed, total = report.count("passed"), len(report.cases)
        if passed < self.cases * total:
            yield f"{passed} of {total} cases passed, but --require asks for {self.cases:.0%}"
        yield from self._lacks_coverage(report)
        yield from self._lacks_own_work(report)

    def _lacks_coverage(self, report: Report) -> Iterator[str]:
        if not self.coverage:
            return
        if report.coverage is None:
            yield (
                "it is not known on this device which lines ran; --require-coverage needs "
                "the simulator"
            )
        elif report.coverage.share < self.coverage:
            reached = len(report.coverage.reached)
            lines = reached + len(report.coverage.missed)
            yield (
                f"{reached} of {lines} lines of device code ran, but --require-coverage "
                f"asks for {self.coverage:.0%}"
            )

    def _lacks_own_work(self, report: Report) -> Iterator[str]:
        if not self.own_work:
            return
        if report.own_work is None:
            yield (
                "the share of work that its own kernels did is not known, but "
                "--require-own-work asks for it"
            )
        elif report.own_work < self.own_work:
            yield (
                f"its own kernels did {report.own_work:.1%} of the work, but "
                f"--require-own-work asks for {self.own_work:.0%}"
            )
