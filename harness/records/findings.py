"""Findings (reports of a sanitizer or a check) for people: merging equal ones, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.finding import Finding

# Checks whose messages already name the places in the source.
_TELL_PLACES = ("racecheck", "synccheck")


def merge_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Merge findings of the same severity, check and place in the source.

    Each group of such findings becomes its first finding, with the sum of the group's counts.
    """
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = (finding.severity, *kind_of_finding(finding))
        known = merged.get(key)
        merged[key] = replace(known, count=known.count + finding.count) if known else finding
    return tuple(merged.values())


def kind_of_finding(finding: Finding) -> tuple[object, ...]:
    """Return the check and the place of a finding, as a key that is equal for equal mistakes."""
    # Findings without a kernel have no place; only their messages distinguish them.
    place = (finding.file, finding.line) if finding.kernel else (finding.message,)
    return finding.check, finding.kernel, *place


def failing_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that make a submission fail, without warnings and information."""
    return [finding for finding in findings if finding.is_failing]


def describe_finding(finding: Finding) -> str:
    """Return one line: the check, the message, the kernel, the source line, block and thread."""
    check = finding.check if finding.is_failing else f"{finding.check} ({finding.severity})"
    if not finding.kernel:
        return f"{check}: {finding.message}"
    place = ""
    if finding.file and finding.check not in _TELL_PLACES:
        place = f" at {Path(finding.file).name}:{finding.line}"
    thread = f"block {_triple(finding.block)} thread {_triple(finding.thread)}"
    if finding.check == "racecheck":
        thread = f"the first access by {thread}"
    others = f" and {finding.count - 1} more" if finding.count > 1 else ""
    return f"{check}: {finding.message} in {finding.kernel}{place}, {thread}{others}"


def _triple(numbers: Sequence[int] | None) -> str:
    return "(" + ",".join(map(str, numbers or ())) + ")"
