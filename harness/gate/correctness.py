"""Comparison of the correctness of a submission's old version (base) and new version (head)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.finding import Finding
from harness.problems.grid import OWN
from harness.records.comparison import PRECISIONS, Precision
from harness.records.findings import describe_finding, failing_findings
from harness.records.report import CaseReport, Report

# Severities of findings that make a version worse. A finding for information fails no check, so it
# is not a reason to refuse either.
_GRAVE = ("warning", "error")


@dataclass(frozen=True)
class Worse:
    """A reason why the new version of a submission is worse than the old one.

    Attributes:
        reason: The reason, in one line.
        line: Number of the line in the submission's file that causes it, if known.
    """

    reason: str
    line: int | None = None


def what_got_worse(base: Report, head: Report) -> Worse | None:
    """Return a reason why the new version (head) is worse than the old one (base), or None.

    - A case that passed in the base must pass in the head.
    - If the base passed as a whole, the head must pass as a whole.
    - The precision class (fp32, tf32, ...) must not become less precise.
    - The sanitizers and integrity checks must not find a kind of mistake that they did not find in
      the base.
    """
    pairs = _common(base, head)
    return (
        _of_cases(pairs, head.path)
        or _of_whole(base, head)
        or _of_precision(pairs)
        or _of_findings(base, head)
    )


def what_is_wrong(head: Report, least: Precision | None) -> Worse | None:
    """Return why a new version is wrong, or less precise than `least`; None if it is neither.

    The gate calls this function if there is no report of an old version.
    """
    if not head.is_right:
        return Worse(f"{head.verdict}: {head.message}", _line(head.cases, head.path))
    return _fall(least, head.precision)


def _common(base: Report, head: Report) -> list[tuple[CaseReport, CaseReport]]:
    """Return the cases that passed in the base and exist in the head, as pairs of base and head.

    A random case may have other sizes in the head, since they also depend on the kernels.
    """
    now = {_key(case): case for case in head.cases}
    pairs = (
        (case, now[_key(case)])
        for case in base.cases
        if case.verdict == "passed" and _key(case) in now
    )
    return [(old, new) for old, new in pairs if old.label != "random" or _sizes(old) == _sizes(new)]


def _sizes(case: CaseReport) -> object:
    return case.input_shapes, case.arguments, case.constants


def _key(case: CaseReport) -> str:
    """Return a key that a case of the base and the matching case of the head share.

    Cases at the reference's own sizes share one key, whether the sizes are cut down or not.
    """
    return "own" if case.label in OWN else case.id


def _of_cases(pairs: Sequence[tuple[CaseReport, CaseReport]], path: str) -> Worse | None:
    lost = [head for _, head in pairs if head.verdict != "passed"]
    if not lost:
        return None
    # A failed case says more than one that was not run or was declined.
    first = min(lost, key=lambda case: case.verdict in ("not run", "declined"))
    others = (
        f" ({len(lost)} cases that passed in the base do not pass now)" if len(lost) > 1 else ""
    )
    # The message of a case that was not run begins with its verdict.
    why = first.message.removeprefix(f"{first.verdict}: ")
    reason = f"{first.id} passed in the base; its verdict is now {first.verdict}: {why}{others}"
    return Worse(reason, _line([first], path))


def _of_whole(base: Report, head: Report) -> Worse | None:
    if not base.is_right or head.is_right:
        return None
    return Worse(
        f"passed in the base; its verdict is now {head.verdict}: {head.message}",
        _line(head.cases, head.path),
    )


def _of_precision(pairs: Sequence[tuple[CaseReport, CaseReport]]) -> Worse | None:
    if not pairs:
        return None
    return _fall(_loosest(base for base, _ in pairs), _loosest(head for _, head in pairs))


def _fall(before: Precision | None, now: Precision | None) -> Worse | None:
    if before is None or now is None or PRECISIONS.index(now) <= PRECISIONS.index(before):
        return None
    return Worse(f"the precision class falls from {before} to {now}")


def _loosest(cases: Iterable[CaseReport]) -> Precision | None:
    held = [case.precision for case in cases if case.precision]
    return max(held, key=PRECISIONS.index, default=None)


def _of_findings(base: Report, head: Report) -> Worse | None:
    known = {_kind(finding) for case in base.cases for finding in case.findings}
    for finding in (finding for case in head.cases for finding in case.findings):
        check, severity = _kind(finding)
        if severity in _GRAVE and (check, severity) not in known:
            reason = f"new finding: {describe_finding(finding)}"
            return Worse(reason, _line_of(finding, head.path))
    return None


def _kind(finding: Finding) -> tuple[str, str]:
    return finding.check, finding.severity


def _line(cases: Iterable[CaseReport], path: str) -> int | None:
    """Return the line in file `path` of the first finding that fails a case.

    The result is None if no finding fails a case, or if that finding is in another file.
    """
    for case in cases:
        for finding in failing_findings(case.findings):
            return _line_of(finding, path)
    return None


def _line_of(finding: Finding, path: str) -> int | None:
    # A finding in an included file has a line of that file.
    is_own = Path(finding.file or "").name == Path(path).name
    return finding.line if is_own else None
