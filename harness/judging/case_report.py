"""The report of one case, made of the evidence of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.finding import Finding
from harness.judging import verdict
from harness.judging.case_evidence import CaseEvidence
from harness.judging.causes import causes_first, counted, is_in_kernel, with_used_values
from harness.judging.compare import classify, loosest
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.surroundings import move_for, multiprocessors_for
from harness.problems.values import Call
from harness.records.findings import describe_finding, failing_findings, merge_findings
from harness.records.report import CaseReport, not_run


class CaseReporting:
    """Makes the report of a case."""

    def __init__(
        self, case: Case, own: Problem, evidence: CaseEvidence, calls: Sequence[Call]
    ) -> None:
        """Take what the report is made of.

        Args:
            case: The case.
            own: The reference with the sizes of its file.
            evidence: What the calls have shown.
            calls: The calls of the case.
        """
        self._case = case
        self._own = own
        self._evidence = evidence
        self._calls = calls
        self._is_own = case.label in OWN

    def of_all_calls(self) -> CaseReport:
        """Return the report of a case in which every call was made."""
        evidence = self._evidence
        wrong = {n: c for n, c in evidence.comparisons.items() if c.mismatch}
        findings = causes_first(merge_findings(evidence.findings))
        if any(c.mismatch.index is not None for c in wrong.values() if c.mismatch):
            findings = with_used_values(findings)
        failing = failing_findings(findings)
        # Findings in memory come first: they explain wrong numbers, and not the other way round.
        messages = [describe_finding(f) for f in failing if is_in_kernel(f)] + evidence.faults
        messages += [c.mismatch.message for c in wrong.values() if c.mismatch]
        # Other findings, such as those of own work, matter most if the numbers are right.
        messages += [describe_finding(f) for f in failing if not is_in_kernel(f)]
        if evidence.fallback and not messages:
            return self._fallback_report(tuple(findings))
        stale = verdict.describe_wrong_runs(self._calls, list(wrong))
        worst = [c.worst for c in evidence.comparisons.values() if c.worst is not None]
        return replace(
            not_run(self._case, messages[0] if messages else ""),
            verdict="failed" if messages else "passed",
            precision=None if messages else classify(evidence.comparisons.values()),
            worst=max(worst, default=None),
            errors={n: _short(c.worst) for n, c in evidence.comparisons.items()},
            limits={name: float(f"{limit:.4g}") for name, limit in evidence.limits.items()},
            wrong_runs=tuple(wrong),
            comparison=next(iter(wrong.values()), None),
            findings=tuple(findings),
            diagnosis=stale,
            detail=counted(evidence.late_outputs, len(merge_findings(evidence.explained))),
            estimated=self._why_no_class(),
            own_work=min(evidence.shares, default=None),
            deterministic=evidence.deterministic,
            notes=(*self._notes_on_own_work(), *evidence.notes, *self._surroundings(messages)),
        )

    def _surroundings(self, messages: Sequence[str]) -> Iterator[str]:
        """Yield a note on how a failing case moved the model, and on what the device reported."""
        if messages:
            count = multiprocessors_for(self._case)
            reported = f"; the device reported {count} multiprocessors" if count else ""
            yield f"the model was moved by model.{move_for(self._case)}{reported}"

    def _notes_on_own_work(self) -> Iterator[str]:
        """Yield notes on what the own configuration leaves to torch.

        One names the operators, with their share of the work. Another names the operators of torch
        that moved the numbers, if the reference only moves numbers.
        """
        if self._is_own and self._evidence.movers:
            names = ", ".join(self._evidence.movers)
            yield f"the reference only moves numbers, and torch moved as many ({names})"
        share = min(self._evidence.shares, default=1.0)
        if self._is_own and self._evidence.left and share < 1.0:
            yield f"left to torch: {', '.join(self._evidence.left)}, {1.0 - share:.1%} of the work"

    def _fallback_report(self, findings: tuple[Finding, ...]) -> CaseReport:
        """Return the report `declined` of a case whose right outputs torch computed."""
        return replace(
            not_run(self._case, f"{verdict.FALLS_BACK}: {self._evidence.fallback}"),
            verdict="declined",
            findings=findings,
            own_work=min(self._evidence.shares, default=None),
        )

    def _why_no_class(self) -> str:
        """Return why the precision class of a case without wrong outputs is not meaningful, or "".

        An estimated bound is always a reason. In the problem's own configuration, another reason is
        a class that allows errors as large as the output. In other configurations, such a class is
        not a reason, because all terms of an output may cancel in a small case.
        """
        comparisons = self._evidence.comparisons.values()
        estimated = next((each.estimated for each in comparisons if each.estimated), "")
        precision = classify(comparisons)
        telling = self._evidence.telling
        if estimated or not self._is_own or loosest([precision, telling]) == telling:
            return estimated
        return f"rounding to {precision} can change the output by as much as the whole output"

    def stopped(self, what: verdict.Stop) -> CaseReport:
        """Return the report of a case that stopped early; an earlier failure has priority."""
        if what.beyond_grid and verdict.has_more_rows(self._case, self._own):
            return self._report_of_more_rows(verdict.for_more_rows(what))
        report = self.of_all_calls()
        if report.verdict == "failed" and not what.is_cause:
            # The exception is only how the submission or CUDA reported a finding, or it came after
            # outputs that were wrong in any case. The calls that were not made say nothing.
            lines = filter(None, (report.detail, what.message, what.detail))
            return replace(report, diagnosis="", detail="\n".join(lines))
        return replace(
            not_run(self._case, what.message),
            verdict=what.verdict,
            findings=report.findings,
            detail=what.detail,
        )

    def _report_of_more_rows(self, what: verdict.Stop) -> CaseReport:
        """Return the report of a case whose size makes a launch exceed the largest grid.

        The reference's own sizes do not exceed that grid. The case's findings are consequences of
        the failed launch, so the report leaves them out.
        """
        noted = () if what.is_noticed else (what.message,)
        return replace(
            not_run(self._case, what.message),
            verdict=what.verdict,
            detail=what.detail,
            notes=noted,
        )


def _short(error: float | None) -> float | None:
    return None if error is None else float(f"{error:.4g}")
