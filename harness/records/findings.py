"""Findings as people read them: the same ones merged, one in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.finding import Finding

# Their messages name the places that they are about.
_TELL_PLACES = ("racecheck", "synccheck")


def merge_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """One finding for each place and kind, over all runs of a case; the first stands for all."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        # Of those that are about no kernel, the message is all there is to tell them apart.
        place = (finding.file, finding.line) if finding.kernel else (finding.message,)
        key = (finding.check, finding.severity, finding.kernel, *place)
        known = merged.get(key)
        merged[key] = replace(known, count=known.count + finding.count) if known else finding
    return tuple(merged.values())


def failing_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Those that make a submission wrong."""
    return [finding for finding in findings if finding.is_failing]


def describe_finding(finding: Finding) -> str:
    """One line: the check, what it found, where in the source and in the grid."""
    check = finding.check if finding.is_failing else f"{finding.check} ({finding.severity})"
    if not finding.kernel:
        return f"{check}: {finding.message}"
    place = ""
    if finding.file and finding.check not in _TELL_PLACES:
        place = f" at {Path(finding.file).name}:{finding.line}"
    thread = f"block {_triple(finding.block)} thread {_triple(finding.thread)}"
    others = f" and {finding.count - 1} more" if finding.count > 1 else ""
    return f"{check}: {finding.message} in {finding.kernel}{place}, {thread}{others}"


def _triple(numbers: Sequence[int] | None) -> str:
    return "(" + ",".join(map(str, numbers or ())) + ")"
