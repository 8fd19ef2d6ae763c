"""What somebody asks of a report beside that nothing in it is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.records.report import Report


@dataclass(frozen=True)
class Requirements:
    """Shares from 0 to 1.

    Attributes:
        cases: Of the cases that must have passed: not declined, and not left out.
        coverage: Of the lines of device code that must have run in some case.
    """

    cases: float = 0.0
    coverage: float = 0.0

    def unmet(self, report: Report) -> Iterator[str]:
        """Say what a report lacks, a line each; nothing of one that is not right anyhow."""
        if not report.is_right:
            return
        passed, total = report.count("passed"), len(report.cases)
        if passed < self.cases * total:
            yield f"{passed} of {total} cases passed, and --require asks for {self.cases:.0%}"
        if not self.coverage:
            return
        if report.coverage is None:
            yield "nobody saw which lines ran; --require-coverage needs the simulator"
        elif report.coverage.share < self.coverage:
            reached = len(report.coverage.reached)
            lines = reached + len(report.coverage.missed)
            yield (
                f"{reached} of {lines} lines of device code ran, "
                f"and --require-coverage asks for {self.coverage:.0%}"
            )
