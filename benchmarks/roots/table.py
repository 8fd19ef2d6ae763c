"""Outcomes of commands on test machines: lines of JSON, and their table in docs/machines.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

BEGIN, END = "<!-- benchmarks/machines.py: begin -->", "<!-- benchmarks/machines.py: end -->"


@dataclass(frozen=True)
class Run:
    """The outcome of one command on a test machine.

    Attributes:
        command: The command as typed.
        status: Exit status; None if the command exceeded its limit and was killed.
        seconds: Duration in seconds.
        passed, skipped, failed: Numbers of tests, as pytest counts them; errors count as failed.
    """

    command: str
    status: int | None
    seconds: float
    passed: int = 0
    skipped: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Row:
    """The outcome of all commands on one test machine.

    Attributes:
        machine: Name of the machine.
        image: Title of the machine's distribution.
        user: The user who runs the commands: `root` or `ordinary`.
        python: Version of Python; empty if unknown.
        torch: Version of torch; empty if unknown.
        sandbox: `bubblewrap`, or the reason why it cannot be used.
        commit: Commit of the project.
        date: Date of the run.
        runs: Outcomes of the commands, in order.
        why_not: Reason why no command was run; empty if one was.
    """

    machine: str
    image: str
    user: str
    python: str
    torch: str
    sandbox: str
    commit: str
    date: str
    runs: tuple[Run, ...] = ()
    why_not: str = ""


def counted(text: str) -> dict[str, int]:
    r"""Return the numbers of tests in the last summary line of pytest in a text.

    >>> counted("x\n== 2 failed, 31 passed, 4 skipped, 1 error in 5.02s ==\nmake: *** failed")
    {'passed': 31, 'skipped': 4, 'failed': 3}
    """
    lines = [line for line in text.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)]
    found = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", (lines or [""])[-1])}
    failed = sum(found.get(word, 0) for word in ("failed", "error", "errors"))
    return {
        "passed": found.get("passed", 0),
        "skipped": found.get("skipped", 0),
        "failed": failed,
    }


def table(rows: Iterable[Row]) -> str:
    """Return a Markdown table of machines; if a machine has several rows, the last is used."""
    last = {row.machine: row for row in rows}
    lines = [_line(row) for row in last.values()]
    head = ["machine", "image", "user", "Python", "torch", "sandbox", "what ran", "date, commit"]
    return str(tabulate(lines, head, tablefmt="github"))


def _line(row: Row) -> list[str]:
    runs = "<br>".join(map(_told, row.runs)) or f"not run: {row.why_not}"
    when = f"{row.date}, {row.commit}"
    # The details and the remedy of a missing sandbox would make the column too wide.
    sandbox = re.split(r" \(|; run:", row.sandbox)[0]
    return [row.machine, row.image, row.user, row.python, row.torch, sandbox, runs, when]


def _told(run: Run) -> str:
    how = {0: "green", None: "**took too long**"}.get(run.status, f"**status {run.status}**")
    told = f"`{run.command}`: {how}, {run.seconds:.0f} s"
    if run.passed or run.skipped or run.failed:
        told += f", {run.passed} passed, {run.skipped} skipped, {run.failed} failed"
    # A vertical bar would end the table's cell.
    return told.replace("|", "\\|")


def update(path: Path, text: str) -> None:
    """Replace the table between the marks BEGIN and END of a file.

    Raises:
        ValueError: The file does not have both marks.
    """
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no marks for the table: {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
