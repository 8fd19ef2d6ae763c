"""Output of the gate's decisions: tables for a terminal and for GitHub, and annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from harness.gate.decision import Decision
from harness.gate.speed import percent
from harness.system.escape import markdown, one_line, workflow_message, workflow_property

# The verdict comes first. So no line of the output starts with a submission's text, which GitHub
# could read as a workflow command.
_HEADERS = ("verdict", "problem", "submission", "change", "judged by", "why")


def terminal(decisions: Sequence[Decision]) -> str:
    """Return a table of the decisions for a terminal; those that fail the gate come first."""
    return _table(decisions, "simple", one_line)


def github(decisions: Sequence[Decision]) -> str:
    """Return a table of the decisions in GitHub's Markdown; those that fail the gate come first."""
    return _table(decisions, "github", markdown)


def summary(decisions: Sequence[Decision], unchanged: int) -> str:
    """Return one line: the count of decisions for each outcome, and of unchanged pairs."""
    counts = Counter(decision.change.outcome for decision in decisions)
    parts = [f"{count} {outcome}" for outcome, count in sorted(counts.items())]
    if unchanged:
        parts.append(f"{unchanged} unchanged and not evaluated")
    return ", ".join(parts) or "nothing to compare"


def workflow_commands(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield workflow commands with which GitHub shows decisions at the lines of their files."""
    for decision in decisions:
        change = decision.change
        if not decision.is_worse and change.outcome not in ("ambiguous", "removed"):
            continue
        level = "error" if decision.is_worse else "warning"
        where = {} if decision.path is None else {"file": _from_here(decision.path)}
        if decision.line is not None:
            where["line"] = str(decision.line)
        where["title"] = f"{change.outcome}: {_name(decision)}"
        properties = ",".join(f"{key}={workflow_property(text)}" for key, text in where.items())
        yield f"::{level} {properties}::{workflow_message(change.reason)}"


def _table(decisions: Sequence[Decision], form: str, shown: Callable[[str], str]) -> str:
    ordered = sorted(decisions, key=lambda decision: not decision.is_worse)
    rows = [[shown(cell) for cell in _cells(decision)] for decision in ordered]
    return tabulate(rows, headers=_HEADERS, tablefmt=form, disable_numparse=True)


def _cells(decision: Decision) -> tuple[str, ...]:
    change = decision.change
    return (
        change.outcome,
        decision.problem,
        decision.submission,
        percent(change.ratio.value) if change.ratio else "",
        change.evidence,
        change.reason,
    )


def _name(decision: Decision) -> str:
    on = f" on {decision.problem}" if decision.problem else ""
    return f"{decision.submission}{on}"


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
