"""`harness report`, which makes pages and text from stored reports and speed results.

It runs no submission.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.records import store
from harness.report_page.data import pairs_of
from harness.report_page.history import commits
from harness.report_page.page import page
from harness.speed.result import append
from tests.report_page import samples
from tests.report_page.browser import Browser
from tests.support import harness, page_data


def test_page_is_made_of_records_alone(tmp_path: Path) -> None:
    """`harness report --html` makes a page from report files and the speed results in results/."""
    lines = "".join(f"{report.to_json()}\n" for report in samples.reports())
    (tmp_path / "reports.jsonl").write_text(lines)
    for result in samples.results():
        append(result, tmp_path / "results")
    done = harness("report", "reports.jsonl", "--html", "page.html", folder=tmp_path)
    assert done.status == 1, "one of them is wrong"
    size = (tmp_path / "page.html").stat().st_size
    assert done.out == f"page.html: {size:,} bytes\n"
    wrong, right = page_data(tmp_path / "page.html")["entries"]
    assert (wrong["verdict"], right["verdict"]) == ("failed", "passed")
    assert right["speed"]["chart"]["marks"][0]["text"] == "4.0000 ± 0.0027"
    assert [version["change"] and version["change"]["outcome"] for version in right["history"]] == [
        None,
        "faster",
    ]


def test_earlier_reports_are_the_history(tmp_path: Path) -> None:
    """A page shows a submission's newest report, and its earlier ones as history."""
    now = samples.right()
    assert now.counters is not None
    heavier = replace(now.counters, warp_instructions=9_000)
    before = replace(
        now, content_hash="11" * 32, checked_at="2026-11-01T00:00:00+00:00", counters=heavier
    )
    (tmp_path / "a.jsonl").write_text(f"{now.to_json()}\n{before.to_json()}\n")
    done = harness("report", "a.jsonl", "--html", "pages", folder=tmp_path)
    assert done.status == 0, done.err
    (entry,) = page_data(tmp_path / "pages" / "index.html")["entries"]
    assert entry["hash"] == now.content_hash
    assert [version["hash"] for version in entry["history"]] == ["11" * 6, "ef" * 6]
    assert entry["history"][1]["change"]["outcome"] == "slower"
    assert "+11.1 % warp instructions" in entry["history"][1]["change"]["reason"]


def test_what_was_checked_last_is_the_default(tmp_path: Path) -> None:
    """`harness report` without files shows the reports in .harness/reports as text."""
    none = harness("report", folder=tmp_path)
    assert none.status == 2
    assert ".harness/reports: no reports there" in none.err
    for report in samples.reports():
        store.save(report, tmp_path / store.FOLDER)
    done = harness("report", folder=tmp_path)
    assert done.status == 1
    assert "mine on conv: failed" in done.out
    assert "fast on conv: passed" in done.out


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"cases": []}', '{"schema": 7, "cases": []}'])
def test_what_is_no_report_is_told(tmp_path: Path, text: str) -> None:
    """A line that is neither a report nor a speed result is an error.

    The message gives the file's name and the line's number.
    """
    (tmp_path / "bad.jsonl").write_text(text)
    done = harness("report", "bad.jsonl", folder=tmp_path)
    assert done.status == 2
    assert "bad.jsonl: line 1 is neither a report nor a speed result" in done.err
    assert "Traceback" not in done.err


def test_page_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A page that cannot be written gives status 2 and a message with its path."""
    (tmp_path / "a.jsonl").write_text(samples.right().to_json())
    (tmp_path / "file").write_text("")
    done = harness("report", "a.jsonl", "--html", "file/page.html", folder=tmp_path)
    assert done.status == 2
    assert "--html file/page.html: " in done.err


def test_commits_of_each_content_are_known(tmp_path: Path) -> None:
    """`commits` finds the git commit of each version of a file.

    If the file is not in a git repository, it finds none.
    """
    path = tmp_path / "mine.py"
    path.write_text("one\n")
    assert commits(path) == {}

    def git(*arguments: str) -> str:
        command = ("git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments)
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    known = []
    for text in ("one\n", "two\n"):
        path.write_text(text)
        git("add", "mine.py")
        git("commit", "-q", "-m", text)
        known.append(git("rev-parse", "--short", "HEAD"))
    assert list(commits(path).values()) == known[::-1]
    assert commits(tmp_path / "absent.py") == {}


def test_base_and_head_stand_side_by_side(browser: Browser, tmp_path: Path) -> None:
    """The gate's page shows the verdicts of base and head, and the cases that differ."""
    (pair,) = pairs_of([samples.wrong()], [])
    base = replace(samples.right(), cases=(replace(samples.cases()[0], id="k3-s2-1"),))
    path = tmp_path / "gate.html"
    path.write_text(page([replace(pair, base=base)], "gate"))
    browser.open(path)
    text = browser.run("document.getElementById('gate').textContent")
    assert "verdictpassedfailed" in text
    assert "k3-s2-1: passed before, failed now" in text
    assert browser.complaints == []
