"""The HTML page of `--harness-html`: the reports of a session from all pytest-xdist processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from harness.records.report import Report
from harness.report_page.data import pairs_of
from harness.report_page.page import page, subtitle_for, target
from harness.speed.result import of_problems
from harness.system.escape import one_line
from harness.system.files import write_whole
from harness.system.output import FaultTolerantWriter

TOLD = pytest.StashKey[str]()
"""One line that says where the page is, or why it was not written."""
_TAKEN = pytest.StashKey[list[Report]]()
_KEY = "harness_reports"


def take(config: pytest.Config, output: Mapping[str, Any]) -> None:
    """Take over the reports that an ended pytest-xdist process has left in its output."""
    taken = config.stash.setdefault(_TAKEN, [])
    taken += map(Report.from_json, output.get(_KEY, ()))


def finish(config: pytest.Config, reports: Sequence[Report]) -> None:
    """Write the page; a process of pytest-xdist passes the reports to the main process instead."""
    if hasattr(config, "workerinput"):
        config.workeroutput[_KEY] = [report.to_json() for report in reports]  # type: ignore[attr-defined]
        return
    every = [*reports, *config.stash.get(_TAKEN, [])]
    folder = config.invocation_params.dir
    results = folder / config.getoption("--harness-results")
    file = target(folder / config.getoption("--harness-html"))
    config.stash[TOLD] = one_line(f"page: {file}")
    pairs = pairs_of(every, of_problems(results, {report.problem for report in every}))
    careful = FaultTolerantWriter(partial(config.stash.__setitem__, TOLD))
    text = page(pairs, subtitle_for(len(every)))
    careful.write("--harness-html", partial(write_whole, file, text))
