"""The pytest plugin, run as `pytest path/to/kernels --reference PATH` in a user's repository."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.compiler.cache import default_root
from harness.problems.discovery import discover
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import cases_for
from harness.problems.problem import load
from tests.support import (
    REFERENCE,
    ROOT,
    SUBMISSIONS,
    Outcome,
    page_data,
    pytest_,
    pytest_arguments,
)

PROBLEM = REFERENCE / "conv_transpose1d.py"
CACHES = default_root().parent

Run = Callable[..., Outcome]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs pytest in this process, in a folder outside this repository."""
    # pytester has changed the home folder, and so the cache's.
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHES))

    def run_here(*arguments: str | Path) -> Outcome:
        done = pytester.runpytest_inprocess(*pytest_arguments(*arguments))
        return Outcome(int(done.ret), done.stdout.str(), done.stderr.str())

    return run_here


@pytest.fixture
def kernels(pytester: pytest.Pytester) -> Path:
    """Return a user's folder with one right submission."""
    folder = pytester.mkdir("kernels")
    shutil.copy(SUBMISSIONS / "flat_index.py", folder)
    return folder


@pytest.mark.usefixtures("kernels")
def test_collects_the_generic_tests(run: Run) -> None:
    """A submission gets test_builds, test_matches_reference for each case, and test_speed.

    The tests' names contain the reference and the case.
    """
    done = run("kernels", "--reference", PROBLEM, "--collect-only", "-q")
    assert done.status == 0, done.out
    names = [line for line in done.out.splitlines() if "::" in line]
    assert names[0] == "flat_index.py::test_builds"
    assert names[-1] == "flat_index.py::test_speed[conv_transpose1d-submission]"
    (flat_index,) = discover([SUBMISSIONS / "flat_index.py"]).submissions
    cases = cases_for(load(PROBLEM), flat_index)
    assert names[1:-1] == [
        f"flat_index.py::test_matches_reference[conv_transpose1d-{case.id}]" for case in cases
    ]


@pytest.mark.thorough
def test_keyword_selection_junit_and_several_processes(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-k`, `--junitxml` and `-n 2` work as for any other tests.

    With two processes, `--harness-html` still writes one page with all reports.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHES))
    done = pytest_(
        "kernels", "--reference", PROBLEM, "-k", "builds or s8", "-n", "2", "--junitxml", "out.xml",
        "--harness-html", "page.html", folder=kernels.parent,
    )  # fmt: skip
    assert done.status == 0, done.out
    (entry,) = page_data(kernels.parent / "page.html")["entries"]
    assert entry["submission"] == "flat_index"
    assert f"page: {kernels.parent / 'page.html'}" in done.out
    names = re.findall(r'<testcase [^>]*\bname="([^"]*)"', (kernels.parent / "out.xml").read_text())
    assert "test_builds" in names
    assert len(names) > 3
    assert all("s8" in name for name in names if name != "test_builds")


def test_wrong_submission_fails_with_an_explanation(kernels: Path, run: Run) -> None:
    """A failing case shows the numbers, the diagnosis and the pattern of the failing cases.

    `-x` stops at the first failing case.
    """
    shutil.copy(ROOT / "tests" / "defects" / "no_divisibility_test.py", kernels)
    done = run("kernels/no_divisibility_test.py", "--reference", PROBLEM, "-x")
    assert done.status == 1
    assert done.out.count("FAILED") == 1
    assert "diagnosis: no divisibility test" in done.out
    assert "pattern:" in done.out
    assert "expected 0.0, got" in done.out or "first wrong index" in done.out
    assert "replay: --harness-seed" in done.out


@pytest.mark.thorough
def test_declined_cases_are_skips_with_the_reason(kernels: Path, run: Run) -> None:
    """A case that the constructor refuses is skipped with the constructor's message."""
    shutil.copy(SUBMISSIONS / "grid3d.py", kernels)
    done = run("kernels/grid3d.py", "--reference", PROBLEM, "-rs", "--harness-seed", "3")
    assert done.status == 0, done.out
    (grid,) = discover([kernels / "grid3d.py"]).submissions
    cases = cases_for(load(PROBLEM), grid, seed=3)
    sizes = [Convolution.of(case) for case in cases]
    declined = sum(each.groups > 1 or each.bias for each in sizes)
    # The other tests are test_builds, which passes, and test_speed, which is skipped.
    assert f"{len(cases) - declined + 1} passed, {declined + 1} skipped" in done.out
    assert "declined: " in done.out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_speed_is_skipped_without_a_gpu(kernels: Path, run: Run) -> None:
    """Without a GPU, test_speed is skipped with a reason, and nothing is evaluated."""
    speed = "kernels/flat_index.py::test_speed"
    done = run(speed, "--reference", PROBLEM, "-rs")
    assert done.status == 0, done.out
    assert "1 skipped" in done.out
    assert "passed" not in done.out
    assert "no GPU: the time that the simulator takes is not a speed" in done.out
    assert not (kernels.parent / "results").exists()


@pytest.mark.thorough
def test_files_that_are_no_submissions_are_told_and_the_others_run(kernels: Path, run: Run) -> None:
    """A submission that does not parse is one failed test with a message of one line.

    A file that does not define ModelNew is only mentioned.
    """
    (kernels / "broken.py").write_text("class ModelNew(:\n")
    (kernels / "notes.py").write_text("x = 1\n")
    (kernels / "more").mkdir()
    shutil.copy(SUBMISSIONS / "flat_index.py", kernels / "more")
    done = run("kernels", "--reference", PROBLEM, "-k", "builds or is_submission")
    assert done.status == 1
    assert "broken.py: does not parse in line 1" in done.out
    assert "has the same name as" in done.out
    assert "notes.py: defines no ModelNew" in done.out
    assert "2 failed, 1 passed" in done.out


@pytest.mark.thorough
def test_submissions_are_not_imported_by_the_judge(kernels: Path, run: Run) -> None:
    """A file named on the command line is a submission, too; only the worker process imports it."""
    path = kernels / "spy.py"
    path.write_text(
        "import os, sys\n"
        "class ModelNew:\n"
        "    def __init__(self, in_channels, out_channels, kernel_size):\n"
        "        raise SystemError(f'pytest in sys.modules: {\"pytest\" in sys.modules}')\n"
    )
    done = run(path, "--reference", PROBLEM, "-x", "-k", "reduced")
    assert done.status == 1
    assert "pytest in sys.modules: False" in done.out


def test_without_a_reference_nothing_is_collected(kernels: Path) -> None:
    """Without `--reference`, pytest collects nothing, and one line says what is missing."""
    done = pytest_("kernels", folder=kernels.parent)
    assert done.status == 5
    assert "no tests ran" in done.out
    assert (
        f"{kernels / 'flat_index.py'} defines ModelNew: to check it, give --reference PATH"
        in done.out
    )


def test_named_submission_is_not_imported_without_a_reference(kernels: Path, run: Run) -> None:
    """Without `--reference`, a submission named on the command line is not imported.

    Pytest itself would import it as a test module, and run its code in pytest's process.
    """
    (kernels / "spy.py").write_text("class ModelNew:\n    pass\nopen('ran', 'w')\n")
    done = run("kernels/spy.py")
    assert done.status == 2
    assert (
        f"\n{kernels / 'spy.py'} defines ModelNew: to check it, give --reference PATH" in done.out
    )
    assert "CollectError" not in done.out
    assert not (kernels.parent / "ran").exists()


def test_repositories_that_do_not_use_it_hear_nothing(kernels: Path, run: Run) -> None:
    """The plugin changes neither tests nor output in a repository that does not use the plugin."""
    test = "def test_one():\n    pass\n"
    (kernels / "test_own.py").write_text(test)
    (kernels / "model.py").write_text(f"class ModelNew:\n    pass\n\n\n{test}")
    (kernels / "test_model.py").write_text("class ModelNew:\n    pass\n")
    for named in ("kernels", "kernels/model.py", ".", "kernels/test_model.py kernels/test_own.py"):
        done = run(*named.split())
        assert done.status == 0, done.out
        assert "1 passed" in done.out
        assert "harness: " not in done.out
    (kernels / "test_own.py").unlink()
    (kernels / "flat_index.py").unlink()
    done = run("kernels")
    assert done.status == 5
    assert "harness: " not in done.out


def test_repositories_that_do_not_use_it_do_not_wait_for_torch(tmp_path: Path) -> None:
    """The plugin does not import torch if pytest gets no `--reference`."""
    test = "import sys\n\n\ndef test_one():\n    assert 'torch' not in sys.modules\n"
    (tmp_path / "test_own.py").write_text(test)
    done = pytest_("test_own.py", folder=tmp_path)
    assert done.status == 0, done.out


@pytest.mark.parametrize(
    ("option", "number"),
    [
        ("--harness-jobs", "0"),
        ("--harness-schedule", "-1"),
        ("--step-seconds", "0"),
        ("--speed-seconds", "-5"),
    ],
)
def test_numbers_that_cannot_be(kernels: Path, run: Run, option: str, number: str) -> None:
    """An impossible value of a numeric option is a usage error before anything runs."""
    done = run(kernels, "--reference", PROBLEM, option, number)
    assert done.status == 4
    assert f"argument {option}: invalid value '{number}': expected " in done.err


def test_unusable_reference_is_one_line(kernels: Path, run: Run) -> None:
    """A file without `Model`, given as `--reference`, ends pytest with a usage error."""
    (kernels.parent / "bad.py").write_text("x = 1\n")
    done = run("kernels", "--reference", "bad.py")
    assert done.status == 4
    assert "bad.py" in done.err
    assert "Traceback" not in done.err
