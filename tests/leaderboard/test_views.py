"""Leaderboards as text, Markdown and HTML, even with hostile names of submissions."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from harness.leaderboard.page import chart_of, page
from harness.leaderboard.standings import Board, Standing, portable
from harness.leaderboard.tables import text
from harness.records.coverage import Coverage
from harness.records.report import BuildReport, Verdict
from harness.simulator.counters.totals import Totals
from harness.speed.result import Timing, milliseconds
from tests.support import case, report, speed_result

EVIL = "a|<script>alert(1)</script>`*[x](y)\x1b[31m"
COUNTERS = Totals(1, 10_000, 320_000, 5000, 400, 1168, 90, 45, 0, 32, 1.0)
CHECKED = report(
    case("passed"), case("declined", "k5"), verdict="passed", precision="fp32", counters=COUNTERS,
    builds=(BuildReport("ext", 12.34, False, "light"),), coverage=Coverage((1, 2), (3,)),
)  # fmt: skip
FAST = Standing("fast", CHECKED, speed_result("fast", 4.0), rank=1)
BOARD = Board(
    "conv",
    FAST.result,
    (
        FAST,
        Standing("unmeasured", CHECKED),
        Standing("old", CHECKED, speed_result("old", 9.0), is_stale=True),
        Standing("odd", None, speed_result("odd", 0.1, findings=("below the floor",))),
    ),
)


def rows(markdown: str) -> dict[str, dict[str, str]]:
    """Return a row for each submission in a leaderboard's Markdown tables.

    A row has the text of each cell, by the column's header.
    """
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    header, *cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    alike = [row for row in cells if len(row) == len(header) and row != header]
    return {row[1]: dict(zip(header, row, strict=True)) for row in alike}


def test_columns_tell_everything_that_is_known() -> None:
    """The table shows verdicts, cases, times, speedups, build times, counters and coverage.

    It also shows the floor as a percentage of the measured time. The floor is the time that no
    kernel can beat.
    """
    table = rows(text([BOARD], "github"))
    assert table["fast"] == {
        "rank": "1", "submission": "fast", "verdict": "passed", "state": "", "passed": "1",
        "declined": "1", "failed": "0", "precision": "fp32", "median ms": "4.0000 ± 0.0027",
        "speedup": "4.45 (4.42 to 4.47)", "over": "cudnn.benchmark fp32", "of floor": "25.0%",
        "build s": "21.5", "sectors/request": "2.92", "bank conflicts": "2.00-way",
        "lines run": "66%", "checked on": "simulator", "measured on": "NVIDIA H200, 2026-11-21",
    }  # fmt: skip
    assert table["unmeasured"]["build s"] == "12.3"
    assert table["unmeasured"]["median ms"] == ""
    assert table["old"]["state"] == "stale: measured before a change"
    assert table["odd"]["state"] == "suspicious: below the floor"


def test_baselines_and_conditions_stand_below() -> None:
    """The text below the table has the baselines in fp32 and tf32, and the floor.

    It also has the versions of driver, CUDA, torch and cuDNN. The floor is the time that no kernel
    can beat.
    """
    shown = text([BOARD], "simple")
    assert re.search(r"eager +17.900 ± 0.012 +4.2400 ± 0.0028\n", shown)
    assert re.search(r"torch.compile +18.000 ± 0.012 +4.3200 ± 0.0029", shown)
    assert "driver 580.159.04, CUDA 13.0, torch 2.11, cuDNN 9.19" in shown
    assert "Floor: 1 ms" in shown


def test_empty_columns_are_left_out() -> None:
    """A column in which no submission has a value is left out."""
    bare = Standing("mine", report(case("passed"), verdict="passed"))
    header = text([Board("conv", None, (bare,))], "github").splitlines()[2]
    assert "median" not in header
    assert "bank conflicts" not in header
    assert "no submission fits" in text([Board("conv", None, ())], "github")


def test_own_configuration_stands_beside_a_failure() -> None:
    """The verdict on the reference's own configuration is shown for failed submissions only."""
    wrong = report(
        case("passed"), case("failed", "k5"), case("not run", "k6"),
        verdict="failed", own_configuration="passed",
    )  # fmt: skip
    some = (FAST, Standing("half_right", wrong), *BOARD.standings[2:])
    table = rows(text([replace(BOARD, standings=some)], "github"))
    assert [table[name]["own configuration"] for name in ("fast", "half_right")] == ["", "right"]
    assert [table[name]["not run"] for name in ("fast", "half_right")] == ["", "1"]


def test_portable_board_has_nothing_of_this_machine() -> None:
    """A leaderboard's portable text is the same on two machines that check the same files.

    Devices, counters and build times, which differ between the machines, are left out.
    """
    other = replace(
        CHECKED, device="cuda", seconds=99.0, seed=5, counters=None, coverage=None,
        builds=(BuildReport("ext", 70.0, True, "light"),), versions={"nvcc": "13.1"},
    )  # fmt: skip
    there = replace(BOARD, standings=tuple(
        replace(s, report=other if s.report else None) for s in BOARD.standings
    ))  # fmt: skip
    assert text([BOARD], "github") != text([there], "github")
    assert text([portable(BOARD)], "github") == text([portable(there)], "github")
    assert "4.0000 ± 0.0027" in text([portable(BOARD)], "github")


def test_portable_board_has_nothing_of_this_run() -> None:
    """A leaderboard's portable text omits cases at random sizes.

    Their verdicts vary from run to run.
    """

    def board(verdict: Verdict) -> Board:
        drawn = case(verdict, "random-1", label="random")
        checked = replace(CHECKED, cases=(*CHECKED.cases, drawn))
        return replace(BOARD, standings=(replace(FAST, report=checked),))

    here, there = board("passed"), board("declined")
    assert text([here], "github") != text([there], "github")
    assert text([portable(here)], "github") == text([portable(there)], "github")


class _Elements(HTMLParser):
    """A parser that collects the elements and the text of an HTML page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_names_of_strangers_are_text() -> None:
    """Hostile names of submissions create no markup, no table cell and no terminal code."""
    evil = replace(BOARD, standings=(replace(FAST, submission=EVIL), *BOARD.standings[1:]))
    found = _Elements(page([evil]))
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert any("<script>alert(1)" in word for word in found.words)
    markdown = text([evil], "github")
    assert "a\\|\\<script\\>alert(1)\\</script\\>\\`\\*\\[x\\](y)?\\[31m" in markdown
    assert "\x1b" not in markdown + text([evil], "simple") + page([evil])


def test_page_needs_nothing_else() -> None:
    """The leaderboard's page loads no file, and its security policy allows only its own script."""
    found = _Elements(page([BOARD]))
    asked = {"src", "href", "data", "action", "style", "onclick"}
    assert not [tag for tag, attributes in found.tags if asked & attributes.keys()]
    assert "@import" not in page([BOARD])
    (policy,) = [a["content"] for _, a in found.tags if "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy


def test_chart_has_every_contender() -> None:
    """The chart has the floor, every baseline, and every submission whose time is not stale.

    Each time has its confidence interval.
    """
    chart = chart_of(BOARD)
    assert {mark["name"] for mark in chart["marks"]} == {
        "fast", "odd", "eager fp32", "eager tf32", "cudnn.benchmark fp32", "cudnn.benchmark tf32",
        "torch.compile fp32", "torch.compile tf32",
    }  # fmt: skip
    assert all(mark["low"] <= mark["value"] <= mark["high"] for mark in chart["marks"])
    kinds = {mark["name"]: mark["kind"] for mark in chart["marks"]}
    assert (kinds["fast"], kinds["eager fp32"]) == ("submission", "baseline")
    assert chart["floor"] == 1.0
    assert "<div data-chart" not in page([Board("conv", None, BOARD.standings)])


def test_names_lead_to_their_reports() -> None:
    """If a page of reports exists, the names of checked submissions are links to their reports."""
    found = _Elements(page([BOARD], "index.html"))
    links = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    # A submission that was never checked has no report to link to.
    assert links == ["index.html", *["index.html#mine/conv"] * 3]


@pytest.mark.parametrize(
    ("median", "interval", "shown"),
    [
        (4.2371, (4.2255, 4.2501), "4.237 ± 0.013"),
        (0.0123456, (0.0122, 0.0125), "0.01235 ± 0.00015"),
        (61.3, (58.0, 75.0), "61 ± 14"),
        (61.3, (61.3, 61.3), "61.3"),
    ],
)
def test_times_have_the_digits_that_are_sure(
    median: float, interval: tuple[float, float], shown: str
) -> None:
    """The interval of a time is rounded to two significant digits.

    The median is rounded to the same decimal place.
    """
    assert milliseconds(Timing(median, interval, ())) == shown
