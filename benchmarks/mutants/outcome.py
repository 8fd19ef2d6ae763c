"""What became of a mutant, from its reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.records.comparison import PRECISIONS
from harness.records.findings import failing_findings
from harness.records.report import CaseReport, Report
from mutants.mutant import Mutant

Fate = Literal[
    "not compiled", "killed", "equivalent", "refuses more", "looser class", "noted", "survived"
]

DIAGNOSED = ("wrong numbers", "wrong shape")
"""What mutants are killed by of which the harness names the mistake, from all cases together."""


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant.

    Attributes:
        mutant: Which.
        fate: `equivalent` where the compiler makes the same code of it, `refuses more` where it
            passes and its constructor declines configurations that the submission takes, `looser
            class` where it passes in a looser precision class than the submission's, `noted` where
            it passes with a note that the submission does not get.
        problem: That of the report that killed it.
        by: What it was killed by, short; empty where it was not.
        message: That report's.
        labels: Labels of the cases that failed.
        failed: How many cases failed.
        numbers: Whether some outputs of the right shape were wrong and nothing else was told.
        diagnosis: What was said of them.
        pattern: What the failing cases have in common.
        is_covered: Whether some case ran the line, where it is of device code.
        seconds: What its reports took.
    """

    mutant: Mutant
    fate: Fate
    problem: str = ""
    by: str = ""
    message: str = ""
    labels: tuple[str, ...] = ()
    failed: int = 0
    numbers: bool = False
    diagnosis: str = ""
    pattern: str = ""
    is_covered: bool | None = None
    seconds: float = 0.0


def outcome_of(mutant: Mutant, reports: Sequence[Report], usual: Sequence[Report]) -> Outcome:
    """Judge the reports of a mutant, the last of which alone may say that something is wrong.

    Args:
        mutant: Which.
        reports: One for each problem that was tried.
        usual: The unchanged submission's of the same problems, in the same order.
    """
    last = reports[-1]
    seconds = sum(report.seconds for report in reports)
    covered = [report.coverage for report in reports if report.coverage]
    is_covered = None
    if covered and any(mutant.line in (*each.reached, *each.missed) for each in covered):
        is_covered = any(mutant.line in each.reached for each in covered)
    if last.is_right:
        fate = _fate_of_passed([*zip(reports, usual, strict=False)])
        return Outcome(mutant, fate, is_covered=is_covered, seconds=seconds)
    if not last.cases or "does not compile" in last.message:
        return Outcome(mutant, "not compiled", message=last.message, seconds=seconds)
    failed, shown = _amiss(last), _shown(last)
    by = killed_by(last)
    return Outcome(
        mutant,
        "killed",
        last.problem,
        by,
        last.message,
        tuple(sorted({case.label for case in failed})),
        len(failed),
        by == "wrong numbers",
        shown.diagnosis if shown else "",
        last.shared,
        is_covered,
        seconds,
    )


def killed_by(report: Report) -> str:
    """What a report that is not right is about, short."""
    shown = _shown(report)
    return _killer(shown) if shown and report.verdict != "declined" else report.verdict


def _amiss(report: Report) -> list[CaseReport]:
    return [c for c in report.cases if c.verdict not in ("passed", "declined", "not run")]


def _shown(report: Report) -> CaseReport | None:
    """The case that a report shows; None where none is amiss."""
    failed = _amiss(report)
    ids = [case.id for case in failed]
    at = ids.index(report.smallest_failure) if report.smallest_failure in ids else 0
    return failed[at] if failed else None


def _killer(case: CaseReport) -> str:
    """What the case's message is about; what was done to memory comes first there."""
    if case.verdict != "failed":
        return case.verdict
    findings = failing_findings(case.findings)
    of_memory = [finding.check for finding in findings if finding.kernel]
    if of_memory:
        return of_memory[0]
    if case.label == "vast" and not case.comparison:
        return "more than 32 bits"
    if "never written" in case.message:
        return "unwritten output"
    if case.comparison and case.comparison.mismatch:
        return "wrong numbers" if case.comparison.mismatch.index is not None else "wrong shape"
    return findings[0].check if findings else "refused"


def _fate_of_passed(pairs: Sequence[tuple[Report, Report]]) -> Fate:
    """Of a mutant that passes, by its reports beside the unchanged submission's."""
    if any(mine.count("declined") > theirs.count("declined") for mine, theirs in pairs):
        return "refuses more"
    if any(_class(mine) > _class(theirs) for mine, theirs in pairs):
        return "looser class"
    if any(set(mine.notes) - set(theirs.notes) for mine, theirs in pairs):
        return "noted"
    return "survived"


def _class(report: Report) -> int:
    """The place of its precision class, the tightest first; -1 where nothing was compared."""
    return PRECISIONS.index(report.precision) if report.precision else -1
