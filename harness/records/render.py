"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.finding import Finding
from harness.problems.grid import OWN
from harness.records.coverage import Coverage
from harness.records.findings import describe_finding, kind_of_finding, merge_findings
from harness.records.report import DECLINES_OWN, CaseReport, Report, Verdict
from harness.system import escape

_WORDS: Mapping[Verdict, str] = {
    "passed": "right",
    "failed": "failed",
    "error": "in error",
    "unsupported": "unsupported",
    "declined": "declined",
    "not run": "not run",
}
"""The words for the verdicts on cases, in the order in which a summary lists them."""
_DETAIL_LINES = 25
_DETAIL_COLUMNS = 160
_LINE_COLUMNS = 200
# The fewest columns of a reason, where a long name leaves little room.
_FEWEST_COLUMNS = 60


def headline(report: Report) -> str:
    """Return one line: the verdict, the numbers of cases, and the precision or the reason.

    The line is cut after 200 columns; `rest_of_headline` yields the text that is missing.
    """
    name = len(report.submission) + len(report.problem)
    return escape.cut(_whole_headline(report), max(_LINE_COLUMNS, name + _FEWEST_COLUMNS))


def rest_of_headline(report: Report) -> Iterator[str]:
    """Yield the report's whole message if `headline` cuts its line.

    A right submission has no message, so the whole uncut headline is yielded instead.
    """
    whole = _whole_headline(report)
    if whole != headline(report):
        yield report.message or whole


def _whole_headline(report: Report) -> str:
    head = f"{report.submission} on {report.problem}: {report.verdict}"
    counts = _counts(report)
    if report.is_right:
        # Only exceptional properties are mentioned: foreign work, nondeterminism, lines that did
        # not run, warnings.
        worst = f", worst error {report.worst:.2g} of the fp32 bound" if report.worst else ""
        share = "" if report.own_work in (None, 1.0) else f", {_own(report.own_work)}"
        bits = "" if report.is_deterministic else ", nondeterministic"
        lines = _never_ran(report)
        how = f"{report.precision}{worst}"
        if report.verdict == "agrees":
            how = next(case.estimated for case in report.cases if case.estimated)
        warned = _count_warnings(report)
        return escape.one_line(f"{head}: {counts}; {how}{share}{bits}{lines}{warned}")
    some_ran = report.count("not run") < len(report.cases)
    return escape.one_line(": ".join((head, *([counts] if some_ran else []), report.message)))


def _counts(report: Report) -> str:
    """Return a summary of the cases: the problem's own configuration first, then the others."""
    cases = [case for case in report.cases if case.label not in OWN]
    own = report.own_configuration
    which = "others" if own else "cases"
    declines = any(c.label in OWN and c.message.startswith(DECLINES_OWN) for c in report.cases)
    told = [f"own configuration {'declined' if declines else _WORDS[own]}"] if own else []
    amiss = [
        (verdict, count)
        for verdict in _WORDS
        if verdict != "passed" and (count := sum(case.verdict == verdict for case in cases))
    ]
    if cases and not amiss:
        alone = "the other one" if own else "the only case"
        told.append(f"{f'all {len(cases)} {which}' if len(cases) > 1 else alone} right")
    elif cases:
        (verdict, count), *rest = amiss
        words = [f"{count} of {len(cases)} {which} {_WORDS[verdict]}"]
        words += [f"{count} {_WORDS[verdict]}" for verdict, count in rest]
        told.append(", ".join(words))
    return "; ".join(told)


def _never_ran(report: Report) -> str:
    """Return the number of device code lines that no case reached, as text; empty if none.

    The headline contains this text, so that "right" never refers to code that did not run.
    """
    of = report.coverage
    if of is None or not of.missed:
        return ""
    total = len(of.reached) + len(of.missed)
    return f"; {len(of.missed)} of {total} lines of device code never ran"


def _own(share: float | None) -> str:
    return f"{share:.1%} of the work by its own kernels"


def full(report: Report) -> str:
    """Return the headline and the details: diagnosis, pattern, smallest failure, notes."""
    explained = (f"  {escape.printable(line)}" for line in _explanation(report))
    return "\n".join((headline(report), *explained))


def _not_run(coverage: Coverage, source: str) -> Iterator[str]:
    if coverage.missed:
        yield f"lines of device code that no case reached: {coverage.words()}"
    one_way = coverage.one_way(source)
    if one_way:
        yield f"conditions of device code that went one way in every case: {one_way}"


def _count_warnings(report: Report) -> str:
    count = len(_warnings(report))
    return f"; {count} warning{'s' if count > 1 else ''}" if count else ""


def _warnings(report: Report) -> tuple[Finding, ...]:
    return merge_findings(
        [each for case in report.cases for each in case.findings if each.severity == "warning"]
    )


def _explain_warnings(report: Report) -> Iterator[str]:
    """Yield a line for each warning that the lines about the smallest failure do not contain."""
    kinds = [frozenset(map(kind_of_finding, case.findings)) for case in report.cases]
    shown = report.smallest_failure and report.case(report.smallest_failure).findings
    told = set(map(kind_of_finding, shown or ()))
    for warning in _warnings(report):
        kind = kind_of_finding(warning)
        if kind not in told:
            cases = sum(kind in each for each in kinds)
            yield f"{describe_finding(warning)}; in {cases} of {len(report.cases)} cases"


def _explanation(report: Report) -> Iterator[str]:
    if not report.smallest_failure:
        # The lines of a failing case begin with its message.
        yield from rest_of_headline(report)
    else:
        failure = report.case(report.smallest_failure)
        if failure.diagnosis:
            yield f"diagnosis: {failure.diagnosis}"
        if report.shared:
            yield f"pattern: {report.shared}"
        yield f"smallest failing case: {failure.id} ({failure.label})"
        for line in case_lines(failure):
            yield f"  {line}"
    for other in report.other_failures:
        cases = "1 case" if other.count == 1 else f"{other.count} cases"
        line = f"also, in {cases} such as {other.case}: {other.message}"
        yield escape.cut(line, _LINE_COLUMNS)
    yield from _explain_warnings(report)
    yield from _shortened(report.detail)
    if report.coverage and report.is_right:
        yield from _not_run(report.coverage, report.source)
    for note in report.notes:
        yield f"note: {note}"
    if not report.is_right and report.verdict != "not run":
        shown = report.smallest_failure
        yield f"replay: --seed {report.seed}" + (f" --case {shown}" if shown else "")


def case_lines(case: CaseReport) -> Iterator[str]:
    """Yield the lines about a case: call, message, first wrong element, findings and details."""
    shapes = ", ".join(str(tuple(shape)) for shape in case.input_shapes)
    yield f"{case.constructor_call} on input {shapes}"
    yield case.message or case.verdict
    mismatch = case.comparison and case.comparison.mismatch
    if mismatch:
        if mismatch.message != case.message:
            yield f"output: {mismatch.message}"
        if mismatch.index is not None:
            yield (
                f"first wrong index {list(mismatch.index)}: expected {mismatch.expected}, "
                f"got {mismatch.actual}"
            )
        yield f"wrong in the runs: {', '.join(case.wrong_runs)}"
    for finding in _others(case):
        yield describe_finding(finding)
    yield from _shortened(case.detail)


def _others(case: CaseReport) -> Iterator[Finding]:
    """Yield the findings that the case's message does not already state."""
    for finding in case.findings:
        if describe_finding(finding) != case.message:
            yield finding


def _shortened(detail: str) -> Iterator[str]:
    lines = detail.splitlines()
    for line in lines[:_DETAIL_LINES]:
        yield line if len(line) <= _DETAIL_COLUMNS else f"{line[:_DETAIL_COLUMNS]} ..."
    if len(lines) > _DETAIL_LINES:
        yield f"... and {len(lines) - _DETAIL_LINES} more lines (--json has them all)"
