"""The execution of `harness report`: shows stored reports as text, or writes them as a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.cli.options import NOT_PASSED, PASSED
from harness.cli.terminal import print_report
from harness.gate.before import records
from harness.records import store
from harness.records.report import Report
from harness.report_page.data import Pair, pairs_of
from harness.report_page.page import page, subtitle_for, target
from harness.speed.result import SpeedResult, of_problems
from harness.system.errors import UsageError
from harness.system.files import write_whole
from harness.system.output import say

_SUFFIXES = (".json", ".jsonl")


def report(options: argparse.Namespace) -> int:
    """Show the newest stored report of each submission and problem, and return the exit status."""
    found = [record for path in options.paths for file in _files(path) for record in records(file)]
    reports = [record for record in found if isinstance(record, Report)]
    if not options.paths:
        reports = store.every(store.FOLDER)
    if not reports:
        named = ", ".join(map(str, options.paths or [store.FOLDER]))
        raise UsageError(
            f"{named}: no reports there; run harness check first, or name a file that check "
            "--json wrote"
        )
    measured = [record for record in found if isinstance(record, SpeedResult)]
    problems = {each.problem for each in reports}
    pairs = pairs_of(reports, [*of_problems(options.results, problems), *measured])
    if options.html:
        _write(options.html, pairs, subtitle_for(len(reports)))
    else:
        for pair in pairs:
            print_report(pair.reports[-1], sys.stdout, no_color=options.no_color)
    return PASSED if all(pair.reports[-1].is_right for pair in pairs) else NOT_PASSED


def _write(path: Path, pairs: Sequence[Pair], subtitle: str) -> None:
    file = target(path)
    try:
        write_whole(file, page(pairs, subtitle))
    except OSError as error:
        raise UsageError(f"--html {path}: {error.strerror}") from None
    say(f"{file}: {file.stat().st_size:,} bytes", sys.stdout)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    else:
        yield path
