"""Verdicts on cheats that need a GPU or timing to be detected, and on honest submissions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from harness.engines.processes import Processes
from harness.evaluate import Request
from harness.records.report import Report
from harness.speed.contender import ContenderError
from harness.speed.measure import measure
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.worker.supervisor import Deadlines
from tests.adversarial.expected import CHEATS, HONEST, text_of
from tests.support import ROOT, request_for

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CORPUS = ROOT / "tests" / "adversarial"
ON_GPU = {name: cheat.on_gpu for name, cheat in CHEATS.items() if cheat.on_gpu}
JOBS = 8
LARGE = {
    "batch_size = 2": "batch_size = 8",
    "in_channels = 8": "in_channels = 32",
    "out_channels = 8": "out_channels = 32",
    "length = 62": "length = 65536",
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the reference of tests/adversarial at a larger size, at which timing is meaningful."""
    text = (CORPUS / "conv_transpose1d_small.py").read_text()
    for small, large in LARGE.items():
        assert small in text
        text = text.replace(small, large)
    path = tmp_path_factory.mktemp("reference") / "conv_transpose1d_large.py"
    path.write_text(text)
    return path


def request(reference: Path, name: str) -> Request:
    """Return a request to check a cheat or honest submission at the reference's own sizes.

    The check runs on the GPU.
    """
    path = CORPUS / ("honest" if name in HONEST else "cheats") / f"{name}.py"
    deadlines = Deadlines(step=60)
    return request_for(path, reference, "native", device="cuda", deadlines=deadlines)


@pytest.fixture(scope="module")
def checked(reference: Path) -> Mapping[str, Report]:
    """Return the report of every cheat that needs a GPU, and of every honest submission."""
    with Processes(JOBS) as pool:
        pending = {name: pool.submit(request(reference, name)) for name in (*ON_GPU, *HONEST)}
        return {name: future.result() for name, future in pending.items()}


def told_by_timing(reference: Path, report: Report) -> str:
    """Time a submission and eager PyTorch, and return the findings about the submission.

    The submission has passed its check.
    """
    asked = request(reference, report.submission)
    assert report.precision is not None
    plan = SpeedPlan(
        request=asked,
        entries=(PlannedSubmission(report.submission, asked.submission, report.precision),),
        kinds=("eager",),
        seconds=1.0,
    )
    try:
        findings = measure(plan).findings
    except ContenderError as error:
        return str(error)
    return "\n".join(findings.get(report.submission, ("timed without a finding",)))


@pytest.mark.parametrize("name", ON_GPU)
def test_cheat_is_caught(reference: Path, checked: Mapping[str, Report], name: str) -> None:
    """The report or the timing of a cheat names what the cheat did.

    A cheat that has no effect is an exception: it is timed without a finding.
    """
    report = checked[name]
    told = f"{report.verdict}\n{text_of(report)}"
    if report.verdict == "passed":
        told += told_by_timing(reference, report)
    assert re.search(ON_GPU[name], told, re.IGNORECASE), told


@pytest.mark.parametrize("name", HONEST)
def test_honest_is_not_accused(checked: Mapping[str, Report], name: str) -> None:
    """An honest submission passes the checks made only on a GPU, such as that of kernel names."""
    assert checked[name].verdict == "passed", text_of(checked[name])
