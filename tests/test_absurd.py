"""Absurd answers and texts of a submission neither stop the judge nor fill a report."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from harness.finding import Finding
from harness.judging.aside import Aside
from harness.judging.conversation import StepFault
from harness.judging.verdict import of_own_error
from harness.records.limits import MOST_OF_A_REPORT, limited
from harness.records.report import Report
from tests.support import ROOT, Outcome, case, harness, report, reports

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"

FORWARD = "\n    def forward(self, x):\n        return x + x\n"
# The worker's own code runs in the submission's process, which can replace it.
CLAIM = """
import sys
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        sides = [10**19] * {}
        place = {{"address": 0, "shape": sides, "strides": sides, "dtype": 1}}
        claim = {{"kind": "torch.Tensor", "device": "cuda", "place": place}}
        sys.modules["harness.worker.inside.values"].ClaimedOutput = lambda *_: claim
        return x + x
"""
FILES = {
    # Python refuses to print the number of elements, which has more than 4,300 digits.
    "huge_sides": CLAIM.format(300),
    # The number of elements would take minutes to compute.
    "many_sides": CLAIM.format(100_000),
    "long_names": f"""
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for number in range(100):
            self.register_buffer(str(number) + "a" * 16_000, torch.zeros(1))
{FORWARD}""",
    "long_traceback": f"""
import linecache
from torch import nn

linecache.getline = lambda *_: "a" * 400_000
linecache.getlines = lambda *_: ["a" * 400_000] * 100

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.again(20)

    def again(self, levels):
        if levels:
            self.again(levels - 1)
        raise KeyError("b" * 1_000_000)
{FORWARD}""",
    "long_type": """
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return type("c" * 1_000_000, (), {})()
""",
}
LINES = {
    "huge_sides": "the worker sent an invalid message (Expected `int` <= 281474976710655 - at ",
    "many_sides": "the worker sent an invalid message (Expected `int` <= 281474976710655 - at ",
    "long_names": "ValueError: a parameter's name has 16002 characters; use at most 200",
    "long_traceback": "KeyError: bbbb",
    "long_type": "forward returned long_type.cccc",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check` on all files, in the reference's own configuration."""
    folder = tmp_path_factory.mktemp("absurd")
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    options = ("--reference", REFERENCE, "--grid", "own", "--json", "-")
    return harness("check", ".", *options, folder=folder)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FILES)
def test_each_has_a_short_report(outcome: Outcome, name: str) -> None:
    """Each submission has its own report, whose texts have at most 64,000 characters together."""
    found = reports(outcome.out)[name]
    assert LINES[name] in found.message
    assert found.verdict in ("failed", "error")
    assert len(found.to_json()) < 140_000


@pytest.mark.thorough
def test_only_the_submissions_are_wrong(outcome: Outcome) -> None:
    """The exit status is 1, as after any wrong submission, and no exception is printed."""
    assert outcome.status == 1
    assert "Traceback" not in outcome.err
    assert max(map(len, outcome.err.splitlines())) < 2_000


def test_judgement_has_a_deadline() -> None:
    """A judgement that takes longer than its deadline stops the case with the verdict `error`."""
    never = Event()
    with Aside(seconds=0.01) as aside:
        aside.start(lambda: complete(never))
        with pytest.raises(StepFault) as raised:
            aside.finish()
    assert raised.value.stop.verdict == "error"
    assert raised.value.stop.message == "the judgement of its outputs took more than 0.01 seconds"


def complete(event: Event) -> None:
    """Wait for an event that nothing sets, as a judgement that never ends."""
    event.wait()


def test_judgements_run_in_their_order() -> None:
    """A judgement starts when the one before it has ended, and an exception arrives at the next."""
    order: list[int] = []
    with Aside(seconds=60.0) as aside:
        for number in range(3):
            aside.start(order.append, number)
        aside.start(order.remove, 7)
        with pytest.raises(ValueError, match="not in list"):
            aside.finish()
    assert order == [0, 1, 2]


def test_report_of_many_long_cases_is_cut() -> None:
    """A report has at most 4 MiB, and a note says that details were left out.

    The verdicts and the beginnings of the messages stay.
    """
    cases = [
        case("error", str(number), message="m" * 9_000, detail="d" * 90_000) for number in range(99)
    ]
    long = limited(report(*cases, verdict="error", detail="d" * 90_000))
    assert len(long.to_json()) <= MOST_OF_A_REPORT
    assert Report.from_json(long.to_json()) == long
    assert [each.verdict for each in long.cases] == ["error"] * 99
    assert long.cases[0].message.endswith(" (5031 more characters are cut)")
    assert len(long.cases[0].message) == 4_000
    assert long.notes == ("the report was longer than 4 MiB: details were left out",)


def test_report_that_fits_is_not_changed() -> None:
    """A report with texts of usual length stays as it is."""
    usual = report(case("failed", message="m" * 4_000, detail="d" * 64_000), notes=("a note",))
    assert limited(usual) == usual


def test_own_error_has_the_traceback_in_its_detail() -> None:
    """An exception of the judge is a submission's error, whose detail has the traceback."""
    try:
        raise MemoryError("in\n  two lines")
    except MemoryError as error:
        stop = of_own_error(error, REFERENCE)
    assert stop.verdict == "error"
    assert stop.message.endswith("please report this: MemoryError: in two lines")
    assert "in test_own_error_has_the_traceback_in_its_detail" in stop.detail


@pytest.mark.thorough
def test_reference_that_raises_in_float64_is_named(tmp_path: Path) -> None:
    """A reference that raises in float64, in which right outputs are computed, is unsupported.

    The message has the reference's line. The next submission gets its report, too.
    """
    refuses = (
        "        if x.dtype == torch.float64:\n            raise RuntimeError('only float32')\n"
    )
    head, signature, body = REFERENCE.read_text().partition("    def forward(self, x):\n")
    (tmp_path / "picky.py").write_text(head + signature + refuses + body)
    text = (ROOT / "tests" / "faults" / "honest.py").read_text()
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(text)
    options = ("--reference", "picky.py", "--grid", "own", "--jobs", "1")
    done = harness("check", "one.py", "two.py", *options, folder=tmp_path)
    why = "the reference raises where the harness computes the right output (picky.py:13): "
    for name in ("one", "two"):
        line = f"{name} on picky: unsupported: own configuration unsupported: {why}"
        assert f"{line}RuntimeError: only float32" in done.out


def test_report_of_many_long_findings_is_cut() -> None:
    """A report whose findings alone exceed 4 MiB, in characters of 12 bytes each, is cut, too."""
    finding = Finding("memcheck", "\U0001f600" * 4_000, file="\U0001f600" * 4_000)
    long = limited(report(*(case("failed", str(n), findings=(finding,)) for n in range(90))))
    assert len(long.to_json()) <= MOST_OF_A_REPORT
    assert len(long.cases) == 90
