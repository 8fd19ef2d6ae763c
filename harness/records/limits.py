"""Limits of the texts in a report, since untrusted code may make them as long as it likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from harness.records.report import CaseReport, Report
from harness.system.texts import MOST_OF_A_DETAIL, MOST_OF_A_MESSAGE, MOST_OF_A_NAME, shortened

MOST_OF_A_REPORT = 4 << 20
"""Limit in bytes of a report as JSON."""

# Limits of texts by the names of their fields; all other texts are messages. Without a limit are
# the user's own paths and source, and what the harness itself makes of numbers.
_OTHER_LIMITS: Mapping[str, int] = {
    "detail": MOST_OF_A_DETAIL,
    "kernel": MOST_OF_A_NAME,
    "name": MOST_OF_A_NAME,
}
_UNLIMITED = frozenset({"path", "source", "picture", "counters", "coverage"})

T = TypeVar("T")


def with_short_texts(report: T) -> T:
    """Return a report, or a case's report, in which no text exceeds its limit."""
    return cast(T, _shortened(report, ""))


def limited(report: Report) -> Report:
    """Return a report in which no text exceeds its limit, and which has at most 4 MiB as JSON.

    If the report is longer, details, findings, pictures and PTX are left out in this order, until
    it fits. A note then says so.
    """
    report = with_short_texts(report)
    smaller = report
    for smaller in _each_smaller(report):
        if len(smaller.to_json()) <= MOST_OF_A_REPORT:
            break
    return smaller


def _each_smaller(report: Report) -> Iterator[Report]:
    """Yield the report, and then the report with less and less in it.

    The last one has no text of a stranger but a short message for each case.
    """
    yield report
    note = "the report was longer than 4 MiB: details were left out"
    report = replace(report, notes=(*report.notes[:20], note))
    for empty in _EMPTIED:
        report = replace(report, cases=tuple(map(empty, report.cases)))
        yield report
    report = replace(report, ptx=(), lines=(), other_failures=(), builds=report.builds[:20])
    yield report
    yield replace(
        report,
        cases=tuple(map(_in_short, report.cases)),
        notes=(note,),
        builds=(),
        detail="",
        shared="",
        message=shortened(report.message, MOST_OF_A_NAME),
        source="",
    )


def _in_short(case: CaseReport) -> CaseReport:
    message = shortened(case.message, MOST_OF_A_NAME)
    return CaseReport(
        case.id, case.label, case.arguments, case.input_shapes, case.verdict, message=message
    )


_EMPTIED: tuple[Callable[[CaseReport], CaseReport], ...] = (
    lambda case: replace(case, detail=""),
    lambda case: replace(case, findings=case.findings[:1], notes=case.notes[:1]),
    lambda case: replace(case, picture=None),
    lambda case: replace(case, message=shortened(case.message, MOST_OF_A_NAME)),
)


def _shortened(value: Any, name: str) -> Any:
    """Return the value of a field called `name`, with short texts at every level."""
    if name in _UNLIMITED:
        return value
    match value:
        case str():
            return shortened(value, _OTHER_LIMITS.get(name, MOST_OF_A_MESSAGE))
        case tuple():
            return tuple(_shortened(each, name) for each in value)
        case Mapping():
            return {key: _shortened(each, name) for key, each in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{each: _shortened(part, each) for each, part in parts.items()})
