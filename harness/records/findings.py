"""What sanitizers and integrity checks found, as records: the same ones merged, one in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SAME = ("check", "severity", "kernel", "file", "line")


# Their messages name the places that they are about.
_TELL_PLACES = ("racecheck", "synccheck")


def merge_findings(findings: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """One finding for each place and kind, over all runs of a case; the first stands for all."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for finding in findings:
        # Of those that are about no place, the message is all there is to tell them apart.
        names = _SAME if finding["kernel"] else ("check", "severity", "message")
        key = tuple(finding.get(name) for name in names)
        if key in merged:
            merged[key]["count"] += finding["count"]
        else:
            merged[key] = dict(finding)
    return tuple(merged.values())


def describe_finding(finding: Mapping[str, Any]) -> str:
    """One line: the check, what it found, where in the source and in the grid."""
    severity = finding.get("severity", "error")
    check = finding["check"] if severity == "error" else f"{finding['check']} ({severity})"
    if not finding["kernel"]:
        return f"{check}: {finding['message']}"
    place = ""
    if finding.get("file") and finding["check"] not in _TELL_PLACES:
        place = f" at {Path(finding['file']).name}:{finding['line']}"
    thread = f"block {_triple(finding['block'])} thread {_triple(finding['thread'])}"
    others = f" and {finding['count'] - 1} more" if finding["count"] > 1 else ""
    return f"{check}: {finding['message']} in {finding['kernel']}{place}, {thread}{others}"


def _triple(numbers: Sequence[int]) -> str:
    return "(" + ",".join(str(number) for number in numbers) + ")"
