"""Causes and consequences among a case's findings: causes are listed, consequences are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.finding import Finding
from harness.records.findings import failing_findings


def is_late(findings: Sequence[Finding]) -> bool:
    """Return whether a call's kernels ran on a stream that the caller's stream does not wait for.

    The results of these kernels may come too late, which explains wrong outputs and missing work.
    """
    return any(map(_is_of_streams, findings))


def parted(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split the findings of one call into causes, and findings that another finding explains.

    The explained findings are reads of memory that nothing has written yet. Such a read follows
    from a race, or from other work that comes too late.
    """
    races = [each for each in failing_findings(findings) if each.check == "racecheck"]
    follows = [
        each.check == "initcheck" and any(_explains(race, each) for race in races)
        for each in findings
    ]
    pairs = list(zip(findings, follows, strict=True))
    return [each for each, no in pairs if not no], [each for each, yes in pairs if yes]


def _explains(race: Finding, read: Finding) -> bool:
    """Return whether a race is the reason for a read of memory that nothing wrote."""
    if _is_of_streams(race):
        return True
    is_named = read.file and f" at {Path(read.file).name}:{read.line} " in race.message
    return race.kernel == read.kernel and bool(is_named)


def causes_first(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: work that nothing waits for, then findings in kernels, then all others."""
    return sorted(findings, key=lambda each: 0 if _is_of_streams(each) else 2 - bool(each.kernel))


def is_in_kernel(finding: Finding) -> bool:
    """Return whether a finding may cause wrong numbers.

    This holds for findings in a kernel, and for findings about kernels whose results come too late.
    """
    return bool(finding.kernel) or _is_of_streams(finding)


def with_used_values(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a case with wrong numbers; warnings of synccheck become errors.

    For example, synccheck finds a shuffle that takes a value from a thread that has ended. This
    finding is only a warning, because a right kernel may ignore the value. Wrong numbers show that
    the kernel uses the value.
    """
    return [
        replace(each, severity="error")
        if each.check == "synccheck" and each.severity == "warning"
        else each
        for each in findings
    ]


def counted(outputs: int, findings: int) -> str:
    """Return a text with the numbers of wrong outputs and findings that one finding explains.

    The text is empty if both numbers are 0.
    """
    counts = ((outputs, "wrong output"), (findings, "other finding"))
    told = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
    return f"this also explains {' and '.join(told)}, not listed here" if told else ""


def _is_of_streams(finding: Finding) -> bool:
    # Races within a kernel have a kernel.
    return finding.check == "racecheck" and not finding.kernel and finding.is_failing
