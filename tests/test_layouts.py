"""Verdicts of `harness check` on submissions whose inputs are not contiguous."""

from __future__ import annotations

from pathlib import Path
from threading import current_thread

import pytest
import torch

from harness.evaluate import evaluate
from harness.judging.call_judge import CallJudge, MadeCall
from harness.judging.layouts import WORDS, claims_to_handle
from harness.problems.arrange import arrange
from harness.problems.problem import load
from harness.problems.runs import Arrangement
from harness.problems.vast import VAST
from harness.records.report import Report
from tests.support import REFERENCE, SUBMISSIONS, request_for

PROBLEM = REFERENCE / "conv_transpose1d.py"
ORIGINAL = (SUBMISSIONS / "flat_index.py").read_text()
OF_INPUT, OF_WEIGHT = "    x = x.contiguous();\n", "    weight = weight.contiguous();\n"
GUARD = "    if (total == 0) {\n        return out;\n    }\n"
CHECKED = '    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");\n'


def check(text: str, folder: Path) -> Report:
    """Return a submission's report at the reference's own sizes, with all layouts of the inputs."""
    path = folder / "flat_index.py"
    path.write_text(text)
    return evaluate(request_for(path, PROBLEM, "reduced", "reduced-layouts"))


def notes_of(report: Report) -> list[str]:
    """Return the report's notes on layouts of inputs."""
    return [note for note in report.notes if note.startswith("an input")]


@pytest.mark.thorough
def test_inputs_may_lie_anyhow(tmp_path: Path) -> None:
    """A submission that makes its inputs contiguous is right for every layout of the inputs."""
    report = check(ORIGINAL, tmp_path)
    assert report.verdict == "passed"
    assert report.count("passed") == 2
    assert notes_of(report) == []


@pytest.mark.thorough
def test_layouts_are_judged_with_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call is judged in the thread whose deadline the check observes, in any layout."""
    threads: list[tuple[str, str]] = []

    def judging(judge: CallJudge, made: MadeCall) -> None:
        threads.append((made.call.kind, current_thread().name))
        original(judge, made)

    original = CallJudge.judge
    monkeypatch.setattr(CallJudge, "judge", judging)
    assert check(ORIGINAL, tmp_path).verdict == "passed"
    assert {kind for kind, _ in threads} > {"first", "arranged"}
    assert {name for _, name in threads} == {"judge"}


@pytest.mark.thorough
def test_copy_that_is_missing_fails(tmp_path: Path) -> None:
    """A submission that makes the weight contiguous, but not the input, fails.

    Its text mentions layouts, so the harness expects it to be right for any layout.
    """
    assert OF_INPUT in ORIGINAL
    report = check(ORIGINAL.replace(OF_INPUT, ""), tmp_path)
    assert report.own_configuration == "passed"
    assert report.verdict == "failed"
    case = report.case("reduced-layouts")
    assert case.wrong_runs == ("uniform strided",)
    assert case.diagnosis == f"Wrong only with {WORDS['strided']}."


@pytest.mark.thorough
def test_who_never_speaks_of_layouts_gets_a_note(tmp_path: Path) -> None:
    """A submission that is wrong for some layout, but never mentions layouts, only gets a note.

    KernelBench's inputs are contiguous.
    """
    report = check(ORIGINAL.replace(OF_INPUT, "").replace(OF_WEIGHT, ""), tmp_path)
    assert report.verdict == "passed", report.message
    assert f"{WORDS['strided']}: the output is wrong" in notes_of(report)


@pytest.mark.thorough
def test_refusal_of_a_layout_is_a_note(tmp_path: Path) -> None:
    """A submission that refuses inputs that are not contiguous passes with a note."""
    report = check(ORIGINAL.replace(OF_INPUT, CHECKED), tmp_path)
    assert report.verdict == "passed", report.message
    (note,) = notes_of(report)
    assert note.startswith(f"{WORDS['strided']}: forward refuses")
    assert "x must be contiguous" in note


@pytest.mark.thorough
def test_batch_of_no_rows_is_an_input(tmp_path: Path) -> None:
    """A submission that tests for an empty batch, and then launches anyway, is an error.

    The reference accepts an empty batch. A submission without such a test passes with a note.
    """
    assert GUARD in ORIGINAL
    without = check(ORIGINAL.replace(GUARD, ""), tmp_path)
    assert without.verdict == "passed", without.message
    (note,) = notes_of(without)
    assert note.startswith(f"{WORDS['empty']}: ")
    assert "launch failed" in note
    without_return = GUARD.replace("return out;", "")
    launching = check(ORIGINAL.replace(GUARD, without_return), tmp_path)
    assert launching.verdict == "error", launching.message
    assert "launch failed" in launching.message


@pytest.mark.parametrize(
    ("text", "arrangement", "expected"),
    [
        ("if (out.numel() == 0) return out;", "empty", True),
        ("if (batch == 0 || total <= 0) {", "empty", True),
        ("if (position % stride == 0) return;", "empty", False),
        ("x = x.contiguous();", "strided", True),
        ("int64_t step = x.stride(2);", "expanded", True),
        ("// x must be contiguous", "strided", False),
        ("x = x.contiguous();", "offset", False),
        ("if (reinterpret_cast<uintptr_t>(p) % 16 == 0)", "offset", True),
        ("if (uintptr_t(p) % 16)", "strided", False),
    ],
)
def test_what_a_text_promises(text: str, arrangement: Arrangement, expected: bool) -> None:
    """Code that mentions sizes of 0, strides or addresses counts as written for unusual layouts.

    Examples of unusual layouts are empty, strided and unaligned inputs. A comment does not count.
    """
    assert claims_to_handle(text, arrangement) == expected


def test_arranged_values_are_the_same() -> None:
    """`arrange` keeps a tensor's values, and changes strides or offset if the shape allows that."""
    value = torch.arange(12.0).view(2, 2, 3)
    strided, offset = arrange(value, "strided"), arrange(value, "offset")
    assert torch.equal(strided, value)
    assert strided.stride() == (6, 1, 2)
    assert torch.equal(offset, value)
    assert offset.is_contiguous()
    assert offset.storage_offset() == 1
    alike = value[:1].expand(2, 2, 3)
    assert torch.equal(arrange(alike.contiguous(), "expanded"), alike)
    assert arrange(alike.contiguous(), "expanded").stride() == (0, 3, 1)
    assert torch.equal(arrange(torch.ones(3), "strided"), torch.ones(3))


def test_layouts_are_tried_twice(tmp_path: Path) -> None:
    """The grid has two cases with other layouts of the inputs.

    One case has the reference's own configuration, cut down. The other has the sizes of an ordinary
    case of the grid.
    """
    path = tmp_path / "flat_index.py"
    path.write_text(ORIGINAL)
    ids = [case.id for case in request_for(path, PROBLEM).cases if case.label == "layout"]
    assert len(ids) == 2
    assert ids[1] == "reduced-layouts"
    assert {*load(PROBLEM).family.arrangements, *VAST} == set(WORDS)
