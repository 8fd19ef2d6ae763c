"""`--search`, which looks for failures outside the grid's cases and makes a found case small."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from harness.problems.families.conv_transpose1d.drawn import near, simpler
from harness.problems.families.conv_transpose1d.grid import covering, spell, spelled, variable
from harness.problems.families.conv_transpose1d.sizes import Convolution
from tests.support import REFERENCE, SUBMISSIONS, harness, pytest_

pytestmark = pytest.mark.simulator_only

PROBLEM = REFERENCE / "conv_transpose1d.py"
LOOP = "    for (int k = 0; k < kernel_size; ++k) {\n"
# This fast path for one length is wrong, and everything else is right.
RARE = """    const int first = in_length == 77 && in_channels > 2 ? 1 : 0;
    for (int k = first; k < kernel_size; ++k) {
"""
SMALLEST = "search-k1-s1-b1x3x77-to1"
# A limit in seconds; the search ends before it, when nothing smaller fails.
LONG = "300"
ALL = variable(
    ("stride", "kernel_size", "dilation", "padding", "output_padding", "groups", "bias")
) | {"in_channels", "out_channels"}


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    """Return a submission that is wrong only for inputs of length 77 with more than two channels.

    For these inputs, it skips a filter tap.
    """
    text = (SUBMISSIONS / "flat_index.py").read_text()
    assert text.count(LOOP) == 1
    path = tmp_path / "rare.py"
    path.write_text(text.replace(LOOP, RARE))
    return path


@pytest.mark.thorough
def test_smallest_configuration_of_a_rare_failure_is_found_and_replayed(rare: Path) -> None:
    """The search finds the smallest configuration that fails, and `--case` replays it.

    The name of the case contains all its sizes. The report has a diagnosis, like any other.
    """
    options = ("check", rare, "--reference", PROBLEM, "--seed", "3", "--grid", "own")
    folder = rare.parent
    found = harness(*options, "--search", LONG, folder=folder)
    assert found.status == 1
    assert "rare on conv_transpose1d: failed: own configuration right" in found.out
    assert f"smallest failing case: {SMALLEST} (search)" in found.out
    assert "diagnosis: first tap left out" in found.out
    assert f"replay: --seed 3 --case {SMALLEST}" in found.out
    again = harness(*options, "--case", SMALLEST, folder=folder)
    assert again.status == 1
    told = "first wrong index [0, 0, 0]: expected "
    numbers = [text.partition(told)[2].partition("\n")[0] for text in (found.out, again.out)]
    assert numbers[0]
    assert numbers[0] == numbers[1]


@pytest.mark.thorough
def test_right_submission_stays_right() -> None:
    """A search without failures adds a note on how many configurations it tried, and no case."""
    options = ("--reference", PROBLEM, "--grid", "own", "--search", "3")
    done = harness("check", SUBMISSIONS / "flat_index.py", *options, folder=SUBMISSIONS.parent)
    assert done.status == 0, done.out
    assert "flat_index on conv_transpose1d: passed: own configuration right;" in done.out
    assert "note: --search: " in done.out
    assert " more configurations are right" in done.out


@pytest.mark.thorough
def test_pytest_has_a_test_for_the_search(rare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--harness-search` adds test_search to pytest, which fails with what the search found."""
    # pytest cuts its summary to the terminal's width, and the folder's name is sometimes long.
    monkeypatch.setenv("COLUMNS", "500")
    options = (rare, "--reference", PROBLEM, "--grid", "own", "--harness-seed", "3")
    listed = pytest_(*options, "--collect-only", "-q", folder=rare.parent)
    assert "test_matches_reference" in listed.out
    assert "test_search" not in listed.out
    done = pytest_(*options, "--harness-search", LONG, "-k", "test_search", folder=rare.parent)
    assert done.status == 1
    assert "::test_search[conv_transpose1d] - Failed: rare on" in done.out
    assert f"rare.py --seed 3 --case {SMALLEST}" in done.out


@pytest.mark.thorough
def test_search_is_of_a_whole_grid(rare: Path) -> None:
    """`--search` together with `--case` is refused, and the message says to leave out `--case`."""
    options = ("--reference", PROBLEM, "--case", SMALLEST, "--search", "1")
    done = harness("check", rare, *options, folder=rare.parent)
    assert done.status == 2
    assert "--search: a search starts after all cases have passed; leave out --case" in done.err


def test_names_tell_all_sizes() -> None:
    """A case's name made from sizes is decoded to the same sizes; other texts give None."""
    for sizes in covering(ALL, 2):
        assert spelled(spell(sizes)) == sizes
    for name in (
        "reduced",
        "k3-s0-b1x1x4-to1",
        "k3-s1-g2-b1x3x4-to2",
        "k3-s1-b1x1x4-to1 ",
        "k1-s1-p2-b1x1x3-to1",
        f"k{'1' * 200}-s1-b1x1x4-to1",
    ):
        assert spelled(name) is None, name


def test_what_is_near_is_valid_and_changes_no_more_than_may_vary() -> None:
    """`near` returns a valid configuration that differs from a base only in given parameters.

    The configuration's work is at most 1.5 million multiply-adds. In 300 draws, a number from the
    submission's text occurs as a length, and so do the numbers one below and one above.
    """
    chance = random.Random(0)  # noqa: S311 - no secret
    base = Convolution(8, 8, 3, 2, 17, stride=2, groups=2)
    found = [near(base, {"length", "stride", "batch"}, (97,), chance) for _ in range(300)]
    for sizes in found:
        assert sizes.is_valid
        assert replace(sizes, length=17, stride=2, batch=2) == base
        assert sizes.work <= 1_500_000
    assert {96, 97, 98} <= {sizes.length for sizes in found}


def test_what_is_simpler_ends() -> None:
    """A configuration that is made simpler again and again ends as one position of one channel."""
    sizes: Convolution | None = Convolution(
        12, 6, 5, 3, 31, stride=3, padding=2, output_padding=1, dilation=2, groups=3, bias=True
    )
    last = sizes
    while sizes:
        last, sizes = sizes, next(simpler(sizes, ALL), None)
    assert last == Convolution(1, 1, 1, 1, 1)
