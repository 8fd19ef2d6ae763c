"""The outcome of a mutant, determined from the harness's reports on it."""

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
"""Reasons for which the harness diagnoses the mistake, from all cases together."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one mutant.

    Attributes:
        mutant: The mutant.
        fate: What became of the mutant. `not compiled`: it does not compile. `killed`: the harness
            rejected it. `equivalent`: it compiles to the same code as the original submission.
            `refuses more`: it passes, but its constructor declines configurations that the original
            accepts. `looser class`: it passes in a looser precision class than the original.
            `noted`: it passes with a note that the original does not get. `survived`: it passes
            like the original.
        problem: Problem of the report that killed the mutant.
        by: Short reason why the mutant was killed, such as `wrong numbers`; empty if it was not.
        message: Message of the report that killed the mutant.
        labels: Labels of the cases that failed.
        failed: Number of cases that failed.
        numbers: True if `by` is `wrong numbers`: an output has the right shape but wrong values.
        diagnosis: The harness's diagnosis of the wrong outputs.
        pattern: What the failing cases have in common.
        is_covered: True if some case executed the changed line; None if it is not device code.
        seconds: Total seconds that the mutant's reports took.
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
    """Return the outcome of a mutant, given the harness's reports on it.

    Args:
        mutant: The mutant.
        reports: One report for each problem that was tried. Only the last report may reject the
            mutant, because no problem is tried after that.
        usual: Reports of the original submission on the same problems, in the same order.
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
    """Return a short reason why a report rejects a mutant, such as `wrong numbers`."""
    shown = _shown(report)
    return _killer(shown) if shown and report.verdict != "declined" else report.verdict


def _amiss(report: Report) -> list[CaseReport]:
    return [c for c in report.cases if c.verdict not in ("passed", "declined", "not run")]


def _shown(report: Report) -> CaseReport | None:
    """Return the smallest failing case of a report, or None if no case fails."""
    failed = _amiss(report)
    ids = [case.id for case in failed]
    at = ids.index(report.smallest_failure) if report.smallest_failure in ids else 0
    return failed[at] if failed else None


def _killer(case: CaseReport) -> str:
    """Return a short reason for the verdict of a failing case.

    If a check of the simulator found a fault in a kernel, the reason is the name of that check. The
    message of the case, too, reports such a fault before all others.
    """
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
    """Return the fate of a mutant that passes.

    Each pair has a report on the mutant and the original's report on the same problem.
    """
    if any(mine.count("declined") > theirs.count("declined") for mine, theirs in pairs):
        return "refuses more"
    if any(_class(mine) > _class(theirs) for mine, theirs in pairs):
        return "looser class"
    if any(set(mine.notes) - set(theirs.notes) for mine, theirs in pairs):
        return "noted"
    return "survived"


def _class(report: Report) -> int:
    """Return the index of the report's precision class, tightest first; -1 without a class."""
    return PRECISIONS.index(report.precision) if report.precision else -1
