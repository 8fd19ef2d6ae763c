"""Pytest takes settings only from the repository's root, never from a folder of submissions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.system import interpreter
from tests.support import (
    REFERENCE,
    ROOT,
    SUBMISSIONS,
    Outcome,
    harness,
    pytest_,
    pytest_arguments,
    run,
)

PROBLEM = REFERENCE / "conv_transpose1d.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a user's repository with a submission, a settings file and a conftest file."""
    (tmp_path / "submissions").mkdir()
    shutil.copy(SUBMISSIONS / "flat_index.py", tmp_path / "submissions")
    (tmp_path / "conftest.py").write_text("")
    settings = f"[tool.pytest.ini_options]\nharness_reference = [{str(PROBLEM)!r}]\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    return tmp_path


def collected(root: Path, *arguments: str) -> Outcome:
    """Run `pytest --collect-only` in a repository."""
    return pytest_("--collect-only", "-q", *arguments, folder=root)


def check_refused(done: Outcome, path: str) -> None:
    """Check that pytest ended with status 4, and with one line that names the refused file."""
    assert done.status == 4, done.out + done.err
    (line,) = filter(None, done.err.splitlines())
    assert f"'{path}' is in a folder of submissions" in line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
        (".pytest.ini", ""),
        ("tox.ini", "[pytest]\naddopts = -k nothing\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -k nothing\n"),
        ("pyproject.toml", '[tool."p\\u0079test".ini_options]\naddopts = ""\n'),
        ("conftest.py", "open('ran', 'w')\n"),
        ("deeper/conftest.py", "open('ran', 'w')\n"),
    ],
)  # fmt: skip
def test_orders_of_a_folder_of_submissions_are_refused(root: Path, name: str, text: str) -> None:
    """A settings or conftest file in a folder of submissions is refused before it has run."""
    path = root / "submissions" / name
    path.parent.mkdir(exist_ok=True)
    if path.parent.name == "deeper":
        (root / "submissions" / "flat_index.py").rename(path.parent / "flat_index.py")
    path.write_text(text)
    check_refused(collected(root, "submissions"), f"submissions/{name}")
    assert not (root / "ran").exists()


def test_orders_above_what_is_named_are_refused(root: Path) -> None:
    """A conftest file above the submissions that pytest is given is refused.

    Pytest would run that conftest file for all folders below it.
    """
    (root / "submissions" / "team").mkdir()
    shutil.copy(SUBMISSIONS / "flat_index.py", root / "submissions" / "team" / "other.py")
    (root / "submissions" / "conftest.py").write_text("open('ran', 'w')\n")
    check_refused(collected(root, "submissions/team"), "submissions/conftest.py")
    check_refused(collected(root, "submissions/flat_index.py"), "submissions/conftest.py")
    (root / "submissions" / "flat_index.py").unlink()
    check_refused(collected(root, "submissions"), "submissions/conftest.py")
    assert not (root / "ran").exists()


@pytest.mark.parametrize("untrusted", [(), ("--untrusted",)])
def test_settings_above_what_is_named_are_refused(root: Path, untrusted: tuple[str, ...]) -> None:
    """A settings file above the submissions that pytest is given is refused.

    Pytest would use these settings for the submissions. `--untrusted` refuses the file even if no
    submission lies in its folder.
    """
    team = root / "submissions" / "team"
    team.mkdir()
    shutil.copy(SUBMISSIONS / "flat_index.py", team / "other.py")
    if untrusted:
        (root / "submissions" / "flat_index.py").unlink()
    (root / "submissions" / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    check_refused(collected(root, *untrusted, "submissions/team"), "submissions/pytest.ini")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", ""),
        ("pyproject.toml", '[tool."p\\u0079test".ini_options]\naddopts = ""\n'),
        ("pyproject.toml", "[tool"),
    ],
)
def test_settings_that_pytest_does_not_choose_are_refused(root: Path, name: str, text: str) -> None:
    """A settings file in a folder of submissions is refused even if pytest would not use it.

    Which file pytest uses depends on its other arguments, and a file that does not parse may hold
    anything.
    """
    (root / "submissions" / name).write_text(text)
    check_refused(collected(root, "submissions", "conftest.py"), f"submissions/{name}")


@pytest.mark.thorough
def test_blank_lines_keep_nobody_busy(root: Path) -> None:
    """A million blank lines are read quickly, in a settings file and in a submission.

    Each process has a minute of processor time. A search that starts anew at every blank line would
    need many minutes.
    """
    blank = "\n" * 1_000_000
    (root / "submissions" / "setup.cfg").write_text(blank)
    (root / "submissions" / "blank.py").write_text(f"{blank}ModelNew = None\n")
    done = collected_in_a_minute(root, "submissions")
    assert done.status == 0, done.out + done.err
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "submissions" / "blank.py").write_text(f"ModelNew = None\n{blank}")
    done = collected_in_a_minute(root, "submissions/blank.py")
    assert "blank.py defines ModelNew: to check it, give --reference PATH" in done.out, done.err


def collected_in_a_minute(root: Path, *arguments: str) -> Outcome:
    """Run `pytest --collect-only`; kill each process that uses a minute of processor time."""
    words = pytest_arguments("--collect-only", "-q", *arguments)
    command = interpreter.command("pytest", *words)
    return run(["/bin/sh", "-c", 'ulimit -t 60; exec "$@"', "sh", *command], root)


@pytest.mark.thorough
def test_own_settings_and_other_tools_files_stay(root: Path) -> None:
    """The root's settings and conftest file apply, and submissions may have other tools' settings.

    The conftest file of a folder with tests applies, too, even if submissions lie below it.
    """
    (root / "submissions" / "setup.cfg").write_text("[metadata]\nname = x\n")
    (root / "tests" / "wrong").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "defects" / "one_past_end.py", root / "tests" / "wrong")
    (root / "tests" / "conftest.py").write_text("collect_ignore = ['wrong']\n")
    (root / "tests" / "test_own.py").write_text("def test_one():\n    pass\n")
    done = collected(root, "submissions", "tests")
    assert done.status == 0, done.out + done.err
    assert "test_one" in done.out
    assert "flat_index.py::test_builds" in done.out


@pytest.mark.thorough
@pytest.mark.usefixtures("sandbox")
def test_untrusted_refuses_every_program_and_setting(root: Path) -> None:
    """`--untrusted` refuses every conftest.py and `__init__.py`, even without submissions nearby.

    It does not collect test modules.
    """
    (root / "submissions" / "empty").mkdir()
    (root / "submissions" / "test_mine.py").write_text("open('ran', 'w')\n")
    done = collected(root, "--untrusted", "submissions")
    assert done.status == 0, done.out + done.err
    assert "test_mine" not in done.out
    (root / "tools").mkdir()
    (root / "submissions" / "link").symlink_to("../tools")
    for name, asked in (
        ("empty/conftest.py", "submissions"),
        ("__init__.py", "submissions"),
        # Pytest also looks above the named folder and behind a link.
        ("conftest.py", "submissions/empty"),
        ("link/conftest.py", "submissions"),
        ("conftest.py", "submissions/link"),
    ):
        path = root / "submissions" / name
        path.write_text("open('ran', 'w')\n")
        check_refused(collected(root, "--untrusted", asked), f"submissions/{name}")
        path.unlink()
    assert not (root / "ran").exists()


@pytest.mark.thorough
def test_check_writes_junit_that_says_what_pytest_says(root: Path) -> None:
    """`harness check --junitxml` writes the same tests and results as pytest.

    Unlike pytest, `harness check` does not read pytest's settings.
    """
    for name in ("no_divisibility_test", "unknown_keyword"):
        shutil.copy(ROOT / "tests" / "defects" / f"{name}.py", root / "submissions")
    # grid3d declines some of its cases.
    shutil.copy(SUBMISSIONS / "grid3d.py", root / "submissions")
    (root / "submissions" / "broken.py").write_text("class ModelNew(:\n")
    done = pytest_("submissions", "--junitxml", "pytest.xml", "--harness-seed", "1", folder=root)
    assert done.status == 1, done.out
    (root / "submissions" / "conftest.py").write_text("open('ran', 'w')\n")
    (root / "submissions" / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    done = harness(
        "check", "submissions", "--reference", PROBLEM, "--junitxml", "x.xml", "--seed", "1",
        folder=root,
    )  # fmt: skip
    assert done.status == 1, done.err
    assert not (root / "ran").exists()
    ours, theirs = (results(root / name) for name in ("x.xml", "pytest.xml"))
    assert len(ours) > 50
    assert ours == theirs
    suite = ElementTree.parse(root / "x.xml").getroot()[0]  # noqa: S314 - our own
    assert int(suite.attrib["tests"]) == len(suite)
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure")) > 10
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped")) > 10


def results(path: Path) -> dict[tuple[str, str], str]:
    """Return the result of each test in a JUnit file except test_speed, by submission and name."""
    found = {}
    for test in ElementTree.parse(path).getroot().iter("testcase"):  # noqa: S314 - our own
        name = re.sub(r"^test_builds\[.*", "test_builds", test.attrib["name"])
        if not name.startswith("test_speed"):
            submission = test.attrib["classname"].rpartition(".")[2]
            kinds = [child.tag for child in test if child.tag in ("failure", "error", "skipped")]
            found[submission, name] = kinds[0] if kinds else "passed"
    return found


def test_plugin_of_a_folder_of_submissions_is_refused(root: Path) -> None:
    """A plugin from a folder of submissions ends the run with one line, however it was loaded."""
    (root / "submissions" / "mine.py").write_text("")
    command = ["pytest", *pytest_arguments("-p", "submissions.mine", "submissions")]
    done = run(interpreter.command(*command), root, PYTHONPATH=f"{root}:{ROOT}")
    check_refused(done, "submissions/mine.py")
