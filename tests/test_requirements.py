"""Options of `harness check` that require more than a right submission, such as a coverage."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.coverage import Coverage
from harness.records.report import Report
from harness.records.requirements import Requirements
from tests.support import REFERENCE, SUBMISSIONS, case, harness, report

PROBLEM = REFERENCE / "conv_transpose1d.py"
SOME = report(
    case("passed"), case("passed", "k4"), case("declined", "k5"), case("not run", "k6"),
    verdict="passed", coverage=Coverage((1, 2, 3), (4,)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("required", "words"),
    [
        (Requirements(), []),
        (Requirements(cases=0.5), []),
        (Requirements(cases=0.51), ["2 of 4 cases passed, but --require asks for 51%"]),
        (Requirements(coverage=0.75), []),
        (
            Requirements(coverage=0.8),
            ["3 of 4 lines of device code ran, but --require-coverage asks for 80%"],
        ),
    ],
)
def test_shares_of_cases_and_lines(required: Requirements, words: list[str]) -> None:
    """Declined and omitted cases do not count as passed for `--require`.

    A required share of cases or lines is met if it is reached exactly.
    """
    assert list(required.unmet(SOME)) == words


def test_coverage_that_nobody_saw_is_not_enough() -> None:
    """Required coverage is not met if coverage is unknown, as on a GPU."""
    (words,) = Requirements(coverage=0.1).unmet(report(case("passed"), verdict="passed"))
    assert "needs the simulator" in words


def test_share_of_own_work() -> None:
    """A required share of own work is met if it is reached exactly, and not met if unknown."""
    some = report(case("passed", own_work=0.4), verdict="passed")
    assert list(Requirements(own_work=0.4).unmet(some)) == []
    assert list(Requirements(own_work=1.0).unmet(some)) == [
        "its own kernels did 40.0% of the work, but --require-own-work asks for 100%"
    ]
    (words,) = Requirements(own_work=0.1).unmet(report(case("passed"), verdict="passed"))
    assert "is not known" in words


def test_what_is_wrong_needs_no_more_words() -> None:
    """A failed report has no unmet requirement, because its failure is reported already."""
    wrong: Report = report(case("failed"), verdict="failed")
    assert list(Requirements(1.0, 1.0).unmet(wrong)) == []


@pytest.mark.thorough
@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("options", "status"),
    [((), 0), (("--require", "own"), 0), (("--require", "all"), 1), (("--require", "30%"), 0)],
)
def test_exit_status_tells(tmp_path: Path, options: tuple[str, ...], status: int) -> None:
    """A submission that declines some cases gives status 0, unless options require all cases."""
    path = tmp_path / "flat_index.py"
    first = "        super().__init__()\n"
    refusal = f"{first}        if kernel_size > 7:\n            raise ValueError('too long')\n"
    path.write_text((SUBMISSIONS / "flat_index.py").read_text().replace(first, refusal, 1))
    arguments: tuple[str | Path, ...] = ("--reference", PROBLEM, "--seed", "1", *options)
    done = harness("check", path, *arguments, folder=tmp_path)
    assert done.status == status, done.out
    assert ("requirement not met: " in done.out) == bool(status)


@pytest.mark.parametrize("share", ["0%", "101%", "most", "-3"])
def test_share_that_cannot_be_is_told(tmp_path: Path, share: str) -> None:
    """A required share that is not a percentage is refused before anything runs."""
    done = harness("check", PROBLEM, "--require-coverage", share, folder=tmp_path)
    assert done.status == 2
    assert "expected a percentage, such as 90%" in done.err
