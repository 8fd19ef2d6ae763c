"""The Python interface, for programs that score kernels."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.system.errors import HarnessError
from tests.support import ROOT, SUBMISSIONS, case, report, run, speed_result

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
RIGHT = (ROOT / "tests" / "faults" / "honest.py").read_text()
# This submission has no kernel, so it needs no compiler.
PLAIN = """
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return x + x
"""


@pytest.fixture(scope="module")
def client() -> Iterator[harness.Client]:
    """Yield one client that several tests share, because they only submit to it."""
    with harness.Client(jobs=1, options=harness.Options(seed=1)) as client:
        yield client


@pytest.mark.thorough
def test_example_scores_the_submissions(tmp_path: Path) -> None:
    """The example docs/score_submissions.py prints the verdict `passed` for two right submissions.

    docs/python.md shows the text of this program.
    """
    path = ROOT / "docs" / "score_submissions.py"
    names = {"flat_index", "shared_memory"}
    for name in names:
        shutil.copy(SUBMISSIONS / f"{name}.py", tmp_path)
    done = run([sys.executable, str(path), str(tmp_path)], ROOT)
    assert {line.split()[0] for line in done.out.splitlines()} == names, done.err
    assert all(line.split()[1] == "passed" for line in done.out.splitlines()), done.out
    _, _, text = path.read_text().partition("    with harness.Client(")
    shown = "with harness.Client(" + text.replace("\n    ", "\n")
    assert shown in (ROOT / "docs" / "python.md").read_text()


@pytest.mark.thorough
def test_text_and_files_are_the_same(client: harness.Client, tmp_path: Path) -> None:
    """A submission may be given as a `Path`, as a string with a path, or as source text.

    All three give the same verdict and the same content hash. A reference may also be given as
    source text.
    """
    (tmp_path / "right.py").write_text(RIGHT)
    futures = client.map([tmp_path / "right.py", str(tmp_path / "right.py"), RIGHT], REFERENCE)
    file, name, text = (future.result() for future in futures)
    assert file.submission == name.submission == "right"
    assert text.submission.startswith("submission_")
    assert [r.verdict for r in (file, name, text)] == ["passed"] * 3
    assert len({r.content_hash for r in (file, name, text)}) == 1
    other = client.submit(RIGHT, REFERENCE.read_text()).result()
    assert (other.verdict, other.problem_hash) == ("passed", file.problem_hash)


@pytest.mark.thorough
def test_futures_come_as_they_end(client: harness.Client) -> None:
    """`as_completed` yields the futures of a right submission and of one that only calls torch.

    Their rewards are 1 and 0.
    """
    futures = client.map([RIGHT, PLAIN], REFERENCE)
    rewards = [harness.reward(each.result()) for each in harness.as_completed(futures)]
    assert sorted(each.value for each in rewards) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "does not parse in line 1: invalid syntax"),
        ("x = 1\n", "defines no ModelNew; a submission is a file with that class"),
        (
            PLAIN.replace("def forward", "def __init__(self, size): ...\n    def forward"),
            "requires size, which double does not have; it has ",
        ),
        (PLAIN + "raise ValueError('no')\n", "raises at import: no"),
        ("\udcff\n", "is not UTF-8: byte 0xed in line 1"),
        ("# coding: utf-7\nx = 1 #+AAo-y = 2\n", "declares an encoding; remove that line"),
        ("\r# coding: utf-7\nx = 1 #+AAo-y = 2\n", "declares an encoding; remove that line"),
        ("# coding: unknown\n" + PLAIN, "does not parse: "),
    ],
)
def test_any_text_gets_a_report(client: harness.Client, text: str, message: str) -> None:
    """Any text gets a report, so a program that scores a language model need not handle errors."""
    got = client.submit(text, REFERENCE).result()
    assert (got.verdict, harness.reward(got).value) == ("error", 0.0)
    assert message in got.message
    assert harness.Report.from_json(got.to_json()) == got


def test_missing_file_is_a_report_too(client: harness.Client) -> None:
    """A path that does not exist gets a report, because a language model may have invented it."""
    assert client.submit("missing.py", REFERENCE).result().message == "does not exist"


def test_callers_mistakes_are_one_line(client: harness.Client) -> None:
    """A caller's mistake raises HarnessError at once, in one line that says what to do."""
    with pytest.raises(HarnessError, match="has no Model; a reference defines Model"):
        client.submit(RIGHT, PLAIN)
    with pytest.raises(HarnessError, match=r"no such engine; the engines are .*processes"):
        harness.Client("proceses")
    with pytest.raises(HarnessError, match=r"only a cluster has a scheduler"):
        harness.Client(scheduler="tcp://127.0.0.1:1")


def test_speed_needs_a_gpu(client: harness.Client) -> None:
    """`Client.measure` raises HarnessError in one line if the report is from the simulator."""
    right = client.submit(RIGHT, REFERENCE).result()
    if right.device == "simulator":
        with pytest.raises(
            HarnessError, match=r"^speeds are measured on a GPU only, not on the simulator$"
        ):
            client.measure(RIGHT, REFERENCE, right)


def test_one_check_needs_no_client() -> None:
    """`harness.check` checks one submission with the given `Options`, and returns the report."""
    options = harness.Options(grid="own", device="simulator", seed=5)
    got = harness.check(RIGHT, REFERENCE, options)
    assert (got.verdict, got.grid, got.seed) == ("passed", "own", 5)


def test_reward_is_the_lower_end_of_the_speedup() -> None:
    """A right submission's reward is the lower end of the confidence interval of its speedup.

    The reward is 1 if a right submission's times are missing or doubtful, and 0 for a wrong
    submission.
    """
    passed = report(case("passed"), verdict="passed", precision="fp32")
    speed = speed_result()
    scored = harness.reward(passed, speed)
    assert (scored.value, scored.speedup) == (speed.speedup_interval[0], speed.speedup)
    assert harness.reward(passed).value == 1.0
    doubted = harness.reward(passed, replace(speed, findings=("too fast",)))
    assert (doubted.value, doubted.findings) == (1.0, ("too fast",))
    assert harness.reward(replace(passed, verdict="failed"), speed).value == 0.0
    with pytest.raises(
        ValueError, match="for another version than the report's: mine on conv; measure it again"
    ):
        harness.reward(replace(passed, content_hash="ef"), speed)


def test_import_is_cheap_and_complete() -> None:
    """`import harness` does not import torch, and every name of `__all__` exists.

    Importing torch would slow down every process of pytest, which imports the package.
    """
    text = "import sys, harness; print('torch' in sys.modules, [n for n in harness.__all__ if not "
    done = run([sys.executable, "-c", f"{text}hasattr(harness, n)])"], ROOT)
    assert done.out == "False []\n", done.err
    with pytest.raises(AttributeError, match="has no attribute 'chekc'"):
        _ = harness.chekc  # type: ignore[attr-defined]  # a program's slip, at run time
