"""Coverage of a submission's device code by line, in reports and in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.leaderboard.columns import columns_of
from harness.leaderboard.standings import Board, Standing
from harness.records.coverage import BranchCoverage, Coverage, lcov
from harness.records.render import full, headline
from harness.records.report import Report
from tests.support import REFERENCE, SUBMISSIONS, case, harness, report, request_for

pytestmark = pytest.mark.simulator_only

PROBLEM = REFERENCE / "conv_transpose1d.py"
BREAK = "            break;\n"
SUBMISSION = (SUBMISSIONS / "flat_index.py").read_text()
# No case of any grid has an output of this length.
NEVER = """        if (out_length == 1234567) {
            out[0] = 1;
            return;
        }
"""
UNUSED = """__global__ void unused_kernel(float* out) {
    out[threadIdx.x] = 1;
}

template <typename scalar_t>
"""


@pytest.fixture(scope="module")
def text() -> str:
    """Return a submission with a branch that is never taken and a kernel that is never launched."""
    assert BREAK in SUBMISSION
    with_branch = SUBMISSION.replace("    for (int k = 0;", NEVER + "    for (int k = 0;", 1)
    return with_branch.replace("template <typename scalar_t>\n", UNUSED, 1)


@pytest.fixture(scope="module")
def checked(text: str, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of the submission `text` on the reference's own sizes and a small case."""
    path = tmp_path_factory.mktemp("coverage") / "flat_index.py"
    path.write_text(text)
    return evaluate(request_for(path, PROBLEM, "reduced", "k2-s3-b1x3x17-to8"))


def line_of(text: str, piece: str) -> int:
    """Return the number of the first line that holds a piece of text; the first line is 1."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if piece in line)


@pytest.mark.thorough
def test_lines_that_never_ran_are_told(checked: Report, text: str) -> None:
    """The lines reported as missed are those of an untaken branch and an unlaunched kernel."""
    assert checked.coverage is not None
    never = {line_of(text, piece) for piece in ("out[0] = 1;", "out[threadIdx.x] = 1;")}
    assert never <= set(checked.coverage.missed)
    around = set(range(line_of(text, "out[0] = 1;") - 1, line_of(text, "out[0] = 1;") + 3))
    unused = line_of(text, "unused_kernel")
    assert set(checked.coverage.missed) <= around | {unused, unused + 1, unused + 2}
    assert line_of(text, "out[index] = ") in checked.coverage.reached


def test_verdict_says_what_was_not_run(checked: Report) -> None:
    """The verdict's first line counts the lines that never ran, and a later line lists them.

    Only lines of device code count.
    """
    assert checked.coverage is not None
    missed = len(checked.coverage.missed)
    total = missed + len(checked.coverage.reached)
    assert checked.verdict == "passed"
    assert f"; {missed} of {total} lines of device code never ran" in headline(checked)
    words = f"lines of device code that no case reached: {checked.coverage.words()}"
    assert words in full(checked)


def test_branches_that_went_one_way_are_told(checked: Report, text: str) -> None:
    """The report lists a condition that went one way in every case, and no other conditions."""
    assert checked.coverage is not None
    ways: dict[int, list[tuple[bool, bool]]] = {}
    for branch in checked.coverage.branches:
        ways.setdefault(branch.line, []).append((branch.jumped, branch.stayed))
    (never,) = ways[line_of(text, "out_length == 1234567")]
    assert sorted(never) == [False, True]
    assert ways[line_of(text, "if (index >= total)")] == [(True, True)]
    one_way = checked.coverage.one_way(text).split(", ")
    assert str(line_of(text, "out_length == 1234567")) in one_way
    # The compiler makes branches of a division, which are not conditions of the source.
    assert str(line_of(text, "row = index / out_length")) not in one_way
    words = f"conditions of device code that went one way in every case: {', '.join(one_way)}"
    assert words in full(checked)


def test_lines_with_counters_have_their_ptx(checked: Report, text: str) -> None:
    """The report has the PTX instructions of each line with counters, and of no other line."""
    ptx = {each.line: each for each in checked.ptx}
    assert set(ptx) == {line.line for line in checked.lines}
    store = ptx[line_of(text, "out[index] = ")]
    assert [each for each in store.instructions if each.startswith("st.global")]
    assert store.kernel == "conv_transpose1d_flat_kernel"
    # The line is not in a loop, so every warp that runs it runs each of its instructions.
    counted = next(line for line in checked.lines if line.line == store.line)
    assert counted.warp_instructions % len(store.instructions) == 0
    assert line_of(text, "out[threadIdx.x] = 1;") not in ptx


def test_branches_of_two_runs_are_joined() -> None:
    """`Coverage.joined` matches two runs' branches by line, and by their order within the line."""
    one = Coverage((1,), (), (), (BranchCoverage(1, True, False), BranchCoverage(1, False, False)))
    other = Coverage((1,), (), (), (BranchCoverage(1, False, True), BranchCoverage(2, True, False)))
    joined = (
        BranchCoverage(1, True, True),
        BranchCoverage(1, False, False),
        BranchCoverage(2, True, False),
    )
    assert one.joined(other).branches == joined


@pytest.mark.thorough
def test_line_that_a_case_reaches_is_reached(tmp_path: Path) -> None:
    """The report does not mention missed lines if every line of device code ran in some case."""
    path = tmp_path / "flat_index.py"
    path.write_text(SUBMISSION)
    one = evaluate(request_for(path, PROBLEM, "reduced"))
    both = evaluate(request_for(path, PROBLEM, "reduced", "k2-s3-b1x3x17-to8"))
    assert one.coverage is not None
    assert both.coverage is not None
    assert set(one.coverage.reached) < set(both.coverage.reached)
    assert both.coverage.missed == ()
    assert "never ran" not in full(both)


@pytest.mark.thorough
def test_blocks_that_other_processes_run_count(tmp_path: Path) -> None:
    """Coverage does not depend on whether one core or two simulate a launch's blocks."""
    path = tmp_path / "flat_index.py"
    path.write_text(SUBMISSION)
    alone, shared = (
        evaluate(request_for(path, PROBLEM, "reduced", cores=cores)) for cores in (1, 2)
    )
    assert alone.coverage is not None
    assert shared.coverage == alone.coverage


def test_lcov_has_every_line(text: str, tmp_path: Path) -> None:
    """`--coverage FILE` writes an LCOV file for editors and genhtml, with all lines and branches.

    The test name in the LCOV file is made of the submission's and the reference's names.
    """
    path = tmp_path / "flat_index.py"
    path.write_text(text)
    options = ("--reference", PROBLEM, "--grid", "own", "--coverage", "lines.info")
    done = harness("check", path, *options, folder=tmp_path)
    assert done.status == 0, done.err
    lines = (tmp_path / "lines.info").read_text().splitlines()
    assert lines[:2] == ["TN:flat_index_on_conv_transpose1d", f"SF:{path}"]
    assert f"DA:{line_of(text, 'out[0] = 1;')},0" in lines
    assert f"DA:{line_of(text, 'out[index] = ')},1" in lines
    never = line_of(text, "out_length == 1234567")
    assert sum(f"BRDA:{never},0,{way},1" in lines for way in (0, 1)) == 1
    assert sum(f"BRDA:{never},0,{way},0" in lines for way in (0, 1)) == 1
    assert lines[-1] == "end_of_record"


def test_lcov_has_both_ways_of_each_branch() -> None:
    """An LCOV file has a line for both outcomes of each branch, and the totals of all branches.

    One total counts all outcomes, the other one counts the outcomes that occurred. A branch that no
    thread reached has a dash for both outcomes.
    """
    branches = (
        BranchCoverage(3, True, False),
        BranchCoverage(3, False, False),
        BranchCoverage(8, True, True),
    )
    lines = lcov([("a", "a.py", Coverage((3, 8), (), (), branches))]).splitlines()
    told = [line for line in lines if line.startswith("BR")]
    wanted = "BRDA:3,0,0,1 BRDA:3,0,1,0 BRDA:3,1,0,- BRDA:3,1,1,- BRDA:8,0,0,1 BRDA:8,0,1,1"
    assert told == [*wanted.split(), "BRF:6", "BRH:3"]


def test_lcov_of_a_submission_whose_name_has_spaces() -> None:
    """An LCOV file has underscores for the spaces in a submission's name, but not in its path."""
    text = lcov([("a b", "/x y/a b.py", Coverage((3,), (2,)))])
    wanted = "TN:a_b|SF:/x y/a b.py|DA:2,0|DA:3,1|LF:2|LH:1|end_of_record|"
    assert text == wanted.replace("|", "\n")


@pytest.mark.parametrize(
    ("reached", "missed", "words"),
    [((1, 9), (3, 4), "3-4"), ((4,), (3, 5), "3, 5"), ((), (1, 3, 9), "1-9")],
)
def test_lines_in_words(reached: tuple[int, ...], missed: tuple[int, ...], words: str) -> None:
    """A range of missed lines continues over lines without code, and ends at a line that ran."""
    assert Coverage(reached, missed).words() == words


def test_many_ranges_are_cut_off() -> None:
    """A long list of ranges of missed lines is cut off, so that it fits in one line."""
    of = Coverage(tuple(range(0, 60, 2)), tuple(range(1, 60, 2)))
    assert of.words().endswith(", and 18 more")


@pytest.mark.parametrize(
    ("coverage", "shown"),
    [(None, []), (Coverage((1, 2), (3,)), ["66%"]), (Coverage((1,), ()), ["100%"])],
)
def test_leaderboard_has_the_share(coverage: Coverage | None, shown: list[str]) -> None:
    """The leaderboard shows the percentage of lines that ran, rounded down.

    The column is left out if no submission's coverage is known.
    """
    standing = Standing("mine", report(case("passed"), verdict="passed", coverage=coverage))
    columns = columns_of(Board("conv", None, (standing,)))
    assert [c.text(standing) for c in columns if c.header == "lines run"] == shown


def test_folder_for_the_file_is_refused(tmp_path: Path) -> None:
    """`--coverage FOLDER` is an error before anything runs, because the option takes a file."""
    arguments = ("check", SUBMISSIONS / "flat_index.py", "--reference", PROBLEM)
    done = harness(*arguments, "--coverage", tmp_path, folder=tmp_path)
    assert done.status == 2
    assert "is a folder; give a file" in done.err
