"""Data that the report page's script draws, from reports and speed results; see docs/report.md."""

from __future__ import annotations

import base64
import gzip
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from harness.finding import Finding
from harness.gate.decision import Change
from harness.problems.grid import OWN
from harness.records.comparison import PRECISIONS
from harness.records.findings import describe_finding
from harness.records.report import CaseReport, Report
from harness.report_page.history import Version, commits, versions
from harness.report_page.marks import chart, mark, short
from harness.speed.result import SpeedResult
from harness.system.escape import visible

SCHEMA = 2
"""Version of the page's data.

1: the first.
2: with the PTX of each source line.
"""

_MOST_DETAIL = 8 << 10
_DIGITS = 5
# Limit of a page's packed PTX, in characters. If the PTX exceeds it, each line keeps fewer of its
# instructions: the first of these limits that fits.
_MOST_PTX = 300 << 10
_INSTRUCTIONS_OF_A_LINE = (200, 60, 20, 6, 2, 0)
_COMPRESSION = 6


@dataclass(frozen=True)
class Pair:
    """All reports and speed results of one submission on one problem.

    Attributes:
        reports: Reports, oldest first; at least one. The page shows the last report.
        results: Speed results, oldest first.
        base: Report of an earlier version, which the shown report is compared with; or None.
        change: The gate's verdict on the change from that version to the shown one, or None.
    """

    reports: tuple[Report, ...]
    results: tuple[SpeedResult, ...] = ()
    base: Report | None = None
    change: Change | None = None


def pairs_of(reports: Iterable[Report], results: Iterable[SpeedResult]) -> tuple[Pair, ...]:
    """Group reports and speed results by submission and problem, in the order of the reports."""
    found: dict[tuple[str, str], list[Report]] = {}
    for report in reports:
        found.setdefault((report.submission, report.problem), []).append(report)
    measured: dict[tuple[str, str], list[SpeedResult]] = {}
    for result in sorted(results, key=lambda result: result.measured_at):
        measured.setdefault((result.submission, result.problem), []).append(result)
    return tuple(
        Pair(tuple(sorted(each, key=lambda r: r.checked_at)), tuple(measured.get(key, ())))
        for key, each in found.items()
    )


def page_data(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return everything that the page's script draws, as plain data for JSON."""
    # A file can have reports on several problems, but its commits are read once.
    known = {path: commits(Path(path)) for path in {pair.reports[-1].path for pair in pairs}}
    shown = [report for pair in pairs for report in (pair.reports[-1], pair.base) if report]
    return {
        "schema": SCHEMA,
        "classes": list(PRECISIONS),
        "sources": {r.content_hash: r.source for r in shown},
        "ptx": _ptx(shown),
        "entries": [_entry(pair, known[pair.reports[-1].path]) for pair in pairs],
    }


def _ptx(reports: Sequence[Report]) -> Mapping[str, str]:
    """Return the packed PTX of each source file, by the file's content hash.

    The number of instructions that a source line keeps is reduced until the PTX is small enough for
    the page.
    """
    packed: Mapping[str, str] = {}
    for most in _INSTRUCTIONS_OF_A_LINE:
        packed = {name: _packed(of) for name, of in _ptx_of_sources(reports, most).items()}
        if sum(map(len, packed.values())) <= _MOST_PTX:
            break
    return packed


def _ptx_of_sources(reports: Iterable[Report], most: int) -> Mapping[str, Mapping[int, Any]]:
    """Return the PTX of each source line, by the file's content hash and the line's number.

    Reports on several problems can share a source file, and each may have PTX of different lines.
    So all reports are merged. A line keeps at most `most` instructions of each kernel.
    """
    found: dict[str, dict[int, Any]] = {}
    for report in reports:
        known = found.setdefault(report.content_hash, {})
        told: dict[int, Any] = {}
        for each in report.ptx:
            if each.line not in known:
                kept = [visible(text) for text in each.instructions[:most]]
                rest = len(each.instructions) - len(kept) + each.left_out
                told.setdefault(each.line, []).append((visible(each.kernel), kept, rest))
        known |= told
    return found


def _packed(value: object) -> str:
    """Return a value as JSON, compressed by gzip and encoded in base64.

    The page's script unpacks it on demand.
    """
    text = json.dumps(value).encode()
    return base64.b64encode(gzip.compress(text, _COMPRESSION, mtime=0)).decode()


def _entry(pair: Pair, known: Mapping[str, str]) -> dict[str, Any]:
    report = pair.reports[-1]
    history = versions(pair.reports, pair.results)
    current = next((v for v in history if v.content_hash == report.content_hash), None)
    return {
        **_facts(report),
        "commit": known.get(report.content_hash, ""),
        "speed": _speed(current.result) if current and current.result else None,
        "history": [_version(version, known) for version in history] if len(history) > 1 else [],
        "base": _facts(pair.base) if pair.base else None,
        "change": _change(pair.change),
    }


def _facts(report: Report) -> dict[str, Any]:
    """Return the facts of one report that the page shows, as plain data for JSON."""
    parameters = _parameters(report.cases)
    # The runs that most cases have come first. A case then omits the missing runs at its end.
    runs = [name for name, _ in Counter(n for c in report.cases for n in c.errors).most_common()]
    coverage = report.coverage
    return {
        "submission": report.submission,
        "problem": report.problem,
        "file": Path(report.path).name,
        "hash": report.content_hash,
        "verdict": report.verdict,
        "right": report.is_right,
        "message": report.message,
        "class": report.precision,
        "worst": report.worst,
        "pattern": report.shared,
        "own": report.own_configuration,
        "ownWork": report.own_work,
        "deterministic": report.is_deterministic,
        "smallest": report.smallest_failure,
        "others": [[o.count, o.case, o.message] for o in report.other_failures],
        "device": report.device,
        "grid": report.grid,
        "command": _command(report),
        "versions": dict(report.versions),
        "seconds": report.seconds,
        "checkedAt": report.checked_at,
        "notes": report.notes,
        "detail": report.detail[:_MOST_DETAIL],
        "coverage": [coverage.reached, coverage.missed] if coverage else None,
        "counters": asdict(report.counters) if report.counters else None,
        "lines": [astuple(line) for line in report.lines],
        "ptx": sorted({each.line for each in report.ptx}),
        "parameters": list(parameters),
        "runs": runs,
        "cases": [_case(case, report, parameters, runs) for case in report.cases],
        "findings": _findings(report.cases),
    }


def _parameters(cases: Sequence[CaseReport]) -> Mapping[str, Callable[[CaseReport], object]]:
    """Return the columns of the table of cases, by title.

    A column is an argument, a constant or an input's size that is not the same in all cases. It is
    given as a function that returns a case's value.
    """
    found: dict[str, Callable[[CaseReport], object]] = {}
    for name in dict.fromkeys(name for case in cases for name in case.arguments):
        found[name] = lambda case, name=name: case.arguments.get(name)  # type: ignore[misc]
    for name in dict.fromkeys(name for case in cases for name in case.constants):
        found[name] = lambda case, name=name: case.constants.get(name)  # type: ignore[misc]
    most = max((len(case.input_shapes) for case in cases), default=0)
    for number in range(most):
        rank = max(len(case.input_shapes[number]) for case in cases)
        for axis in range(rank):
            title = f"input{number or ''}[{axis}]"
            found[title] = lambda case, n=number, a=axis: _size(case, n, a)  # type: ignore[misc]
    # A parameter with the same value in every case has no column.
    return {n: of for n, of in found.items() if len({str(of(case)) for case in cases}) > 1}


def _size(case: CaseReport, number: int, axis: int) -> int | None:
    shape = case.input_shapes[number] if number < len(case.input_shapes) else ()
    return shape[axis] if axis < len(shape) else None


def _case(
    case: CaseReport,
    report: Report,
    parameters: Mapping[str, Callable[[CaseReport], object]],
    runs: Sequence[str],
) -> dict[str, Any]:
    full: dict[str, Any] = {
        "id": case.id,
        "label": case.label,
        "verdict": case.verdict,
        "own": (case.label in OWN) or None,
        "values": [_value(of(case)) for of in parameters.values()],
        "message": case.message,
        "class": case.precision,
        "worst": None if case.worst is None else short(case.worst),
        "wrong": [runs.index(run) for run in case.wrong_runs if run in runs],
        "errors": _errors(case, runs),
        "limits": [short(case.limits[name]) for name in PRECISIONS[1:] if name in case.limits],
        "diagnosis": case.diagnosis,
        "notes": list(case.notes),
    }
    kept = {name: value for name, value in full.items() if value or value == 0.0}
    if case.picture or case.id == report.smallest_failure:
        kept |= {
            "call": case.constructor_call,
            "shapes": case.input_shapes,
            "stride": case.arguments.get("stride"),
            "picture": asdict(case.picture) if case.picture else None,
            "detail": case.detail[:_MOST_DETAIL],
            "findings": [_finding(finding) for finding in case.findings],
        }
    return kept


def _errors(case: CaseReport, runs: Sequence[str]) -> list[float | None]:
    """Return a case's largest error in each run (one set of input values), rounded.

    The unit is the fp32 bound. The errors are in the order of `runs`. The error is None for a run
    that the case lacks; missing runs at the end are left out.
    """
    most = max((place for place, run in enumerate(runs) if run in case.errors), default=-1)
    known = (case.errors.get(run) for run in runs[: most + 1])
    return [None if error is None else short(error) for error in known]


def _value(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else str(value)


def _findings(cases: Sequence[CaseReport]) -> list[dict[str, Any]]:
    """Return the findings of all cases; findings of one kind at one source line are merged.

    The key `cases` of each finding is the number of cases in which it occurred.
    """
    first: dict[tuple[object, ...], Finding] = {}
    count: dict[tuple[object, ...], int] = {}
    for case in cases:
        for finding in case.findings:
            about = () if finding.kernel else (finding.message,)
            place = (finding.check, finding.severity, finding.kernel, finding.file, finding.line)
            key = (*place, *about)
            first.setdefault(key, finding)
            count[key] = count.get(key, 0) + 1
    return [{**_finding(finding), "cases": count[key]} for key, finding in first.items()]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": finding.severity,
        "text": describe_finding(finding),
        "message": finding.message,
        "kernel": finding.kernel,
        "file": Path(finding.file).name if finding.file else "",
        "line": finding.line,
        "block": finding.block,
        "thread": finding.thread,
        "address": f"0x{finding.address:x}" if finding.address else "",
        "count": finding.count,
        "allocation": finding.allocation,
        "offset": finding.offset,
    }


def _command(report: Report) -> str:
    """Return the shell command that checks the submission again with the same seed."""
    words = ["harness", "check", report.path, "--problem", report.problem]
    return shlex.join([*words, "--seed", str(report.seed)])


def _speed(result: SpeedResult) -> dict[str, Any]:
    facts = ("device", "driver", "cuda", "torch", "cudnn", "measured_at")
    numbers = (
        "speedup", "speedup_interval", "bytes", "flops", "rounds", "discarded",
        "clocks_mhz", "power_watts", "temperature_celsius", "bandwidth_gbs",
    )  # fmt: skip
    return {
        **{name: getattr(result, name) for name in facts},
        **{name: getattr(result, name) for name in numbers},
        "precision": result.precision,
        "baseline": result.baseline,
        "findings": result.findings,
        "looks": [[look.clock_mhz, look.reasons, look.is_counted] for look in result.looks],
        "samples": [short(sample, _DIGITS) for sample in result.samples_ms],
        "chart": chart(
            "Times in milliseconds",
            [
                mark(result.submission, result.timing, "submission"),
                *(mark(name, timing, "baseline") for name, timing in result.baselines.items()),
            ],
            result.floor_ms,
        ),
    }


def _version(version: Version, known: Mapping[str, str]) -> dict[str, Any]:
    report, result = version.report, version.result
    counters = report.counters if report else None
    return {
        "hash": version.content_hash[:12],
        "commit": known.get(version.content_hash, ""),
        "at": version.known_at,
        "verdict": report.verdict if report else "",
        "class": result.precision if result else (report.precision if report else None),
        "time": mark("", result.timing, "submission") if result else None,
        "device": result.device if result else "",
        "instructions": counters.warp_instructions if counters else None,
        "change": _change(version.change),
    }


def _change(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    ratio = change.ratio.value if change.ratio else None
    return {
        "outcome": change.outcome,
        "by": change.evidence,
        "reason": change.reason,
        "ratio": ratio,
    }
