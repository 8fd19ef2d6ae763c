"""`harness gate`, which compares a new version with a base, in git repositories of each test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.gate.before import Before, RecordError, recorded
from harness.gate.evidence import Measured
from harness.gate.renames import renames
from harness.gate.run import GateOptions
from harness.gate.settings import Thresholds, read
from harness.gate.sources import with_revision
from harness.options import Options
from harness.problems.discovery import discover
from harness.problems.references import load_references
from harness.requesting import Requests
from tests.support import ROOT, SUBMISSIONS, Outcome, case, harness, page_data, report

# The problem is small and has few parameters, so there are few cases.
REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels, out_channels, kernel_size, stride, bias=False
        )

    def forward(self, x):
        return self.conv1d_transpose(x)


def get_inputs():
    return [torch.rand(8, 64, 1000)]


def get_init_inputs():
    return [64, 64, 3]
"""


RUNNABLE: Mapping[str, Any] = {
    "arguments": {"in_channels": 1, "out_channels": 1, "kernel_size": 3},
    "input_shapes": [[1, 1, 3]],
}


def changed(name: str, old: str, new: str) -> str:
    """Return a submission's text with `old` replaced by `new`, which has as many lines."""
    text = text_of(name)
    assert old in text
    assert new.count("\n") == old.count("\n")
    return text.replace(old, new)


def text_of(name: str) -> str:
    """Return the text of one of this repository's submissions."""
    return (SUBMISSIONS / f"{name}.py").read_text()


_LOOP = "for (int ci = 0; ci < in_channels; ++ci) {"
# One channel in 32 is read once more, and changes nothing in the sum.
SLOWER = changed(
    "flat_index",
    _LOOP,
    "for (int ci = 0; ci < in_channels / 32; ++ci) {"
    " sum += static_cast<acc_t>(0) * static_cast<acc_t>(x_tap[ci * in_length]); } " + _LOOP,
)
UNCHECKED = changed("grid3d", "if (i >= in_length) continue;", "")
_PRODUCT = """sum += x_group[static_cast<int64_t>(c) * shape.in_length + i]
                   * weight_group[c * weight_step + k];"""
TF32 = changed(
    "grouped_bias",
    _PRODUCT,
    """sum += __int_as_float(__float_as_int(x_group[(int64_t)c * shape.in_length + i]) & ~0x1fff)
        * __int_as_float(__float_as_int(weight_group[c * weight_step + k]) & ~0x1fff);""",
)
TALKATIVE = changed("flat_index", '"""Transposed', '"""A transposed')
SLEEPS = """
import time
from torch import nn

class ModelNew(nn.ConvTranspose1d):
    def forward(self, x):
        time.sleep(60)
"""
NO_STRIDE = changed("flat_index", "        stride: int = 1,\n", "\n").replace(
    "self.stride = stride", "self.stride = 1"
)


@dataclass(frozen=True)
class Repository:
    """A git repository with a reference and committed submissions."""

    folder: Path

    def write(self, submissions: Mapping[str, str | None]) -> None:
        """Write the submissions' files, or remove those whose text is None."""
        for name, text in submissions.items():
            path = self.folder / "submissions" / f"{name}.py"
            path.unlink() if text is None else path.write_text(text)

    def git(self, *arguments: str, told: str = "") -> str:
        """Run git with `told` as input; return the output of git without the final line break."""
        command = ("git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments)
        done = subprocess.run(
            command, cwd=self.folder, input=told, text=True, check=True, capture_output=True
        )
        return done.stdout.removesuffix("\n")

    def gate(self, *arguments: str | Path) -> Outcome:
        """Run `harness gate` in the repository, with a fixed seed for all random values."""
        return harness("gate", "--seed", "1", "--jobs", "1", *arguments, folder=self.folder)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with one committed submission and the reference."""
    made = Repository(tmp_path)
    (tmp_path / "reference").mkdir()
    (tmp_path / "submissions").mkdir()
    (tmp_path / "reference" / "conv.py").write_text(REFERENCE)
    made.write({"flat_index": text_of("flat_index")})
    made.git("init", "-q")
    commit(made)
    return made


def commit(repository: Repository) -> None:
    """Commit all files of the repository."""
    repository.git("add", "--all")
    repository.git("commit", "-q", "-m", "as it is")


def verdicts(done: Outcome) -> dict[str, str]:
    """Return the verdict on each submission, from the printed table."""
    rows = [line.split() for line in done.out.split("---\n", 1)[1].split("\n\n")[0].splitlines()]
    return {row[2] if row[1] == "conv" else row[1]: row[0] for row in rows}


@pytest.mark.thorough
def test_every_verdict_against_a_revision(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version with 2 % more work is slower; wrong, less precise and broken ones are refused.

    An unchanged submission is not evaluated. New and removed submissions are mentioned. Under
    GitHub Actions, each verdict is an annotation of the submission's file, and the table is in the
    summary.
    """
    names = ("grid3d", "grouped_bias", "dilated")
    repository.write({name: text_of(name) for name in names})
    repository.write(dict.fromkeys(("broken", "gone"), text_of("dilated")))
    commit(repository)
    repository.write(
        {
            "flat_index": SLOWER, "grid3d": UNCHECKED, "grouped_bias": TF32,
            "broken": "class ModelNew(:", "gone": None, "added|x": SLOWER,
        }
    )  # fmt: skip
    summary = repository.folder / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = repository.gate("--base", "HEAD", "--html", "gate.html")
    assert done.status == 1, done.err
    assert verdicts(done) == {
        "flat_index": "slower",
        "grid3d": "refused",
        "grouped_bias": "refused",
        "broken": "refused",
        "gone": "removed",
        "added|x": "missing",
    }
    assert "warp instructions, +" in done.out
    assert "the precision class falls from fp32 to tf32" in done.out
    assert "memcheck: 4-byte load" in done.out
    assert "does not parse in line 1" in done.out
    assert "1 unchanged and not evaluated" in done.out
    line = 1 + UNCHECKED[: UNCHECKED.index("acc = fmaf")].count("\n")
    assert f"::error file=submissions/grid3d.py,line={line},title=refused" in done.out
    assert "::warning title=removed%3A gone on conv::" in done.out
    assert "| added\\|x " in summary.read_text()
    # The page shows both sides of each evaluated submission.
    entries = page_data(repository.folder / "gate.html")["entries"]
    changes = {entry["submission"]: entry["change"]["outcome"] for entry in entries}
    assert changes == {"flat_index": "slower", "grid3d": "refused", "grouped_bias": "refused"}
    assert all(entry["base"]["verdict"] == "passed" for entry in entries)
    assert all(entry["base"]["hash"] != entry["hash"] for entry in entries)


def test_nothing_changed_is_quick_and_new_is_allowed_when_right(repository: Repository) -> None:
    """The gate skips unchanged submissions; with --allow-new, it evaluates new submissions."""
    unchanged = repository.gate("--base", "HEAD")
    assert unchanged.status == 0
    assert "1 unchanged and not evaluated" in unchanged.out
    wrong = (ROOT / "tests" / "defects" / "one_past_end.py").read_text()
    repository.write({"grid3d": text_of("grid3d"), "one_past_end": wrong})
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.status == 1
    assert verdicts(done) == {"grid3d": "new", "one_past_end": "refused"}


@pytest.mark.thorough
def test_each_evaluation_has_the_deadline_that_is_given(repository: Repository) -> None:
    """--check-seconds limits the whole evaluation, even if each call meets its own deadline."""
    repository.write({"flat_index": SLEEPS})
    done = repository.gate("--base", "HEAD", "--check-seconds", "2")
    assert done.status == 1
    assert "all steps together took more than 2 s, the last one while running forward" in done.out


@pytest.mark.thorough
def test_another_name_is_no_way_around(repository: Repository) -> None:
    """A renamed submission is compared with its old version, whether or not it also changed."""
    repository.write({"flat_index": None, "renamed": text_of("flat_index")})
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.status == 0, done.out
    assert "renamed replaces flat_index" in done.out
    assert "1 unchanged and not evaluated" in done.out
    repository.write({"renamed": SLOWER})
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.status == 1
    assert verdicts(done) == {"renamed": "slower"}
    padding = "".join(f"# {n}\nunused_{n} = {n}\n" for n in range(400))
    repository.write({"renamed": padding + SLOWER.replace("    ", "        ")})
    assert renamed(repository) == {"renamed": "flat_index"}


def renamed(repository: Repository) -> Mapping[str, str]:
    """Return the old name that the gate finds for each renamed submission, by the new name."""
    folder = repository.folder
    old = folder / "old" / "flat_index.py"
    old.parent.mkdir()
    old.write_text(text_of("flat_index"))
    now, before = (
        {each.name: each for each in discover([path]).submissions}
        for path in (folder / "submissions", old)
    )
    return renames({name: Before("", "", each) for name, each in before.items()}, now)


@pytest.mark.parametrize("text", ["[" * 100_000, "5", '{"cases": ' + "9" * 5000 + "}", "[]"])
def test_what_is_no_record_is_one_line(tmp_path: Path, text: str) -> None:
    """A base file that is not a record of reports or speeds gives an error of one line."""
    (tmp_path / "base.jsonl").write_text(text)
    with pytest.raises(RecordError, match="line 1 is neither a report nor a speed result; --base"):
        recorded(tmp_path / "base.jsonl")


@pytest.mark.thorough
@pytest.mark.parametrize("fields", [{"arguments": {"evil": 1}}, {"input_shapes": [[-3, 1, 1]]}])
def test_recorded_case_that_cannot_be_run_is_one_line(
    repository: Repository, fields: dict[str, Any]
) -> None:
    """A case in a recorded base that cannot be run gives an error of one line.

    There can be such a case if the reference has changed since, or if the record is untrusted.
    """
    recorded_case = case("passed", **{**RUNNABLE, **fields})
    made = report(
        recorded_case, submission="flat_index", problem="conv", verdict="passed", grid="own"
    )
    (repository.folder / "base.jsonl").write_text(f"{made.to_json()}\n")
    done = repository.gate("--base", "base.jsonl")
    assert (done.status, done.out.count("Traceback")) == (2, 0)
    (line,) = done.err.splitlines()
    assert "the record of flat_index on conv has a case that cannot be run (k3: " in line


@pytest.mark.thorough
def test_change_cannot_loosen_its_own_threshold(repository: Repository) -> None:
    """The gate uses the threshold of the base, or that of the new version if it is stricter."""
    settings = repository.folder / "pyproject.toml"
    settings.write_text("[tool.harness.gate]\nthreshold = 0.9\n")
    repository.write({"flat_index": SLOWER})
    done = repository.gate("--base", "HEAD")
    assert done.status == 1, done.out + done.err
    assert verdicts(done) == {"flat_index": "slower"}
    assert "pyproject.toml has looser thresholds than the base" in done.out
    one, other = Thresholds(0.1, {"a": 0.3}), Thresholds(0.2, {"b": 0.05})
    strict = one.no_looser_than(other)
    assert [strict.of(name) for name in ("a", "b", "c")] == [0.2, 0.05, 0.1]


@pytest.mark.thorough
def test_records_are_a_base_too(repository: Repository) -> None:
    """Reports of `harness check --json` serve as a base, with their cases and counters."""
    checked = harness("check", "submissions", "--json", "base.jsonl", folder=repository.folder)
    assert checked.status == 0, checked.out
    same = repository.gate("--base", "base.jsonl")
    assert same.status == 0
    assert "1 unchanged" in same.out
    repository.write({"flat_index": TALKATIVE})
    done = repository.gate("--base", "base.jsonl")
    assert done.status == 0, done.out + done.err
    assert verdicts(done) == {"flat_index": "same"}
    assert "the deciding counters are unchanged" in done.out
    repository.write({"flat_index": SLOWER})
    done = repository.gate("--base", "base.jsonl")
    assert done.status == 1
    assert verdicts(done) == {"flat_index": "slower"}


@pytest.mark.thorough
def test_what_counts_as_changed(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """All submissions count as changed after a change of a header or the reference, or with --all.

    Any submission may include a header that lies beside the submission.
    """
    monkeypatch.chdir(repository.folder)
    paths = [Path("submissions")]
    requests = Requests(Options(), "simulator", seed=1)
    options = GateOptions(requests, 1, allow_new=False)

    def changed(*, everything: bool = False) -> tuple[bool, tuple[str, ...]]:
        problems = load_references([Path("reference")])
        folder = tmp_path_factory.mktemp("older")
        found = with_revision("HEAD", paths, problems, options, folder, everything=everything)
        (pair,) = found.plan.pairs
        return pair.is_changed, found.notes

    assert changed() == (False, ())
    assert changed(everything=True) == (True, ())
    (repository.folder / "submissions" / "common.cuh").write_text("\n")
    note = (
        "submissions/common.cuh changed, which submissions may include: all of them are evaluated"
    )
    assert changed() == (True, (note,))
    commit(repository)
    assert changed() == (False, ())
    (repository.folder / "reference" / "conv.py").write_text(REFERENCE + "\n")
    assert changed() == (True, ())


def test_times_are_asked_for_as_the_command_line_says(
    repository: Repository,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gate's timing requests have --untrusted, --readable and deadlines of the command line."""
    monkeypatch.chdir(repository.folder)
    problems = load_references([Path("reference")])
    given = Options(step_seconds=7.0, readable=(tmp_path,), untrusted=True)
    options = GateOptions(Requests(given, "cuda", seed=1), 1, allow_new=False)
    paths = [Path("submissions")]
    folder = tmp_path_factory.mktemp("older")
    found = with_revision("HEAD", paths, problems, options, folder, everything=False)
    assert isinstance(found.evidence, Measured)
    asked = found.evidence.request(Path("mine.py"), problems[0].path)
    assert asked.untrusted
    found_there = (asked.device, asked.readable, asked.deadlines.step)
    assert found_there == ("cuda", (tmp_path,), 7.0)


@pytest.mark.thorough
def test_parameter_that_is_no_longer_taken(repository: Repository) -> None:
    """The gate runs the base's cases even if the new version lacks a parameter that they need."""
    repository.write({"flat_index": NO_STRIDE})
    done = repository.gate("--base", "HEAD")
    assert done.status == 1, done.out + done.err
    assert verdicts(done) == {"flat_index": "refused"}
    assert "unexpected keyword argument 'stride'" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", "nowhere"], "neither a file nor a revision"),
        (["--base", "HEAD", "absent"], "absent: no such file or folder"),
        (["--base", "HEAD", "/"], "lies outside of the repository"),
        (["--base", "reference/conv.py"], "line 1 is neither a report nor a speed result; --base"),
        (["--base", "HEAD", "--device", "cuda"], "torch sees no GPU here"),
    ],
)
def test_unusable_command_line_gives_status_2(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    """Arguments of `harness gate` that cannot be used give an error of one line and status 2."""
    monkeypatch.chdir(repository.folder)
    assert main(["gate", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("threshold = '2 %'", "threshold in [tool.harness.gate] is '2 %'; give a fraction"),
        ("threshold = 2", "is 2; give a fraction"),
        ("problems = { conv = -0.1 }", "problems.conv in [tool.harness.gate] is -0.1"),
        ("tolerance = 0.1", "unknown key tolerance"),
        ("threshold = [", "not valid TOML"),
    ],
)
def test_settings_that_cannot_be_used(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    message: str,
) -> None:
    """A misspelt key or a percentage in [tool.harness.gate] is an error, and not ignored."""
    monkeypatch.chdir(repository.folder)
    Path("pyproject.toml").write_text(f"[tool.harness.gate]\n{settings}\n")
    assert main(["gate", "--base", "HEAD"]) == 2
    assert message in capsys.readouterr().err


def test_threshold_of_a_problem_that_is_none_is_told(repository: Repository) -> None:
    """A threshold for a problem that does not exist is reported.

    A misspelt name would otherwise leave the intended problem with the default.
    """
    settings = "[tool.harness.gate]\nproblems = { conv = 0.02, cnov = 0.02 }\n"
    (repository.folder / "pyproject.toml").write_text(settings)
    done = repository.gate("--base", "HEAD")
    assert done.status == 0, done.err
    assert done.out.count("threshold for cnov, which is not a reference; the") == 1
    assert "threshold for conv," not in done.out


def test_thresholds_are_the_problems_own_or_the_default(tmp_path: Path) -> None:
    """A problem's threshold is the one set for the problem, else for all, else 1 %."""
    assert read(tmp_path).of("conv") == 0.01
    text = "[tool.harness.gate]\nthreshold = 0.05\nproblems = { conv = 0 }\n"
    (tmp_path / "pyproject.toml").write_text(text)
    assert (read(tmp_path).of("conv"), read(tmp_path).of("other")) == (0, 0.05)
