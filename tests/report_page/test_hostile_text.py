"""Untrusted text in a report page is shown as text, in whichever field it occurs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.records.report import Report
from harness.report_page.data import pairs_of
from harness.report_page.page import page
from harness.speed.result import SpeedResult
from tests.report_page import samples
from tests.report_page.browser import SETTLED, Browser

EVIL = (
    "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 2'>"
    "<!--<script>{{ 7 * 7 }}${7 * 7} [link](javascript:evil) **bold** `code`"
    "\n::error::gone ##[error]gone\x1b[31m\u202e\u2028\x00\ud800\"'"
)
# The same number of lines, with harmless content.
TAME = "two\nlines"
# These fields have few possible values, because they name a kind.
TYPED = {
    "verdict", "own_configuration", "precision", "severity", "check", "schema", "measured_at",
    "checked_at", "content_hash", "problem_hash", "baseline", "limits",
}  # fmt: skip


def filled(value: Any, text: str, name: str = "") -> Any:
    """Return a copy of a record with a text appended to each string in it.

    Fields with few possible values, such as `verdict`, stay unchanged, and so do pictures.
    """
    is_map = name in ("errors", "mistake", "expected", "actual") and isinstance(value, tuple)
    if name in TYPED or is_map:
        return value
    if isinstance(value, str):
        return value + text
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        changed = {each: filled(getattr(value, each), text, each) for each in names}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {key + text: filled(each, text) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return tuple(filled(each, text) for each in value)
    return value


def written(path: Path, text: str) -> Path:
    """Write a page of the sample reports, with a text in each field, and return its path."""
    reports: list[Report] = [filled(report, text) for report in samples.reports()]
    results: list[SpeedResult] = [filled(result, text) for result in samples.results()]
    path.write_text(page(pairs_of(reports, results), text, [(text, "a.html")]))
    return path


def test_file_has_no_control_characters_and_no_commands(tmp_path: Path) -> None:
    """The page's file has no control characters, and no line is a command to a GitHub runner."""
    text = written(tmp_path / "evil.html", EVIL).read_text()
    assert not [c for c in "\x1b\u202e\u2028\x00" if c in text]
    assert "##[" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert text.count("<script") == 2
    assert "window.evil" in text


@pytest.mark.parametrize("fragment", ["", "first", "second"])
def test_page_has_the_same_elements(browser: Browser, tmp_path: Path, fragment: str) -> None:
    """Untrusted text creates no HTML element and runs no script, in any part of the page."""
    tame, evil = written(tmp_path / "tame.html", TAME), written(tmp_path / "evil.html", EVIL)
    counts = (
        "(() => { const found = {}; for (const e of document.querySelectorAll('main *'))"
        " found[e.tagName] = (found[e.tagName] ?? 0) + 1; return found; })()"
    )
    found = []
    for path in (tame, evil):
        browser.open(path)
        if fragment:
            number = 0 if fragment == "first" else 1
            browser.run(f"document.querySelectorAll('#overview a')[{number}].click()")
            browser.run("new Promise(done => setTimeout(done, 0))")
            # Open each closed section too.
            browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            browser.run("document.querySelectorAll('[data-line] button').forEach(b => b.click())")
            browser.run(SETTLED)
        found.append(browser.run(counts))
        assert browser.complaints == []
    assert found[0] == found[1]
    assert browser.run("window.evil") is None
    shown = browser.run("document.body.textContent")
    assert "<script>window.evil = 1</script>" in shown
    assert browser.asked == [evil.as_uri()]
