"""Timing on a real GPU: the figures that are stored, and the cheats that are detected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support import SUBMISSIONS, Outcome, pytest_

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1):
        super().__init__()
        self.conv = nn.ConvTranspose1d(
            in_channels, out_channels, kernel_size, stride=stride, bias=False
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(8, 32, 65536)]


def get_init_inputs():
    return [32, 32, 3]
"""

HONEST = (SUBMISSIONS / "flat_index.py").read_text()

# A class that follows this text under the name ModelNew takes the place of the plain model.
PLAIN = HONEST.replace("class ModelNew(", "class Plain(")
ON_TORCHS_STREAM = PLAIN.replace(
    "blocks), threads>>>(", "blocks), threads, 0, c10::cuda::getCurrentCUDAStream()>>>("
).replace("#include <cuda_runtime.h>", "#include <c10/cuda/CUDAStream.h>")
CONSTRUCTOR = """
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride=stride)
        self.calls, self.kept, self.stream = 0, None, None
"""

# The cheat starts after more calls than the correctness check makes, and during the timed ones.
RETURNS_WHAT_IT_REMEMBERS = f"""

class ModelNew(Plain):
{CONSTRUCTOR}
    def forward(self, x):
        if x.numel() < 1_000_000:
            return super().forward(x)
        self.calls += 1
        if self.calls <= 12:
            self.kept = super().forward(x)
        return self.kept.clone()
"""

# It does not cheat in the checks, which would detect that as well.
WORKS_ON_ANOTHER_STREAM = f"""

class ModelNew(Plain):
{CONSTRUCTOR}
    def forward(self, x):
        if x.numel() < 1_000_000:
            return super().forward(x)
        self.calls += 1
        if self.calls <= 12:
            return super().forward(x)
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        WAIT
        with torch.cuda.stream(self.stream):
            return super().forward(x)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path


def timed(folder: Path, source: str, *options: str) -> Outcome:
    """Run test_speed on a submission, and return pytest's outcome."""
    (folder / "mine.py").write_text(source)
    return pytest_(
        "mine.py::test_speed", "--reference", "reference.py", "--speed-seconds", "5", *options,
        folder=folder,
    )  # fmt: skip


def test_an_honest_submission(folder: Path) -> None:
    """An honest submission is timed beside six baselines.

    The JSON file of pytest-benchmark and the stored result have the same median.
    """
    done = timed(folder, HONEST, "--benchmark-json", "benchmark.json")
    assert done.status == 0, done.out
    (line,) = (folder / "results" / "reference.jsonl").read_text().splitlines()
    result = json.loads(line)
    assert result["findings"] == []
    assert len(result["baselines"]) == 6
    assert result["median_ms"] > result["floor_ms"] > 0
    looks = result["looks"]
    assert len(looks) == result["rounds"] + result["discarded"]
    assert all(look["clock_mhz"] > 100 for look in looks)
    written = json.loads((folder / "benchmark.json").read_text())
    assert written["machine_info"]["gpu"]["name"] == result["device"]
    (own,) = (b for b in written["benchmarks"] if b["name"] == "mine")
    assert own["stats"]["median"] == pytest.approx(result["median_ms"] / 1e3)
    assert own["group"] == "reference"


def test_rows_have_the_submissions_names_and_each_baseline_once(folder: Path) -> None:
    """The benchmark table of two submissions has a row named after each, and six baselines."""
    (folder / "other.py").write_text(HONEST)
    done = timed(folder, HONEST, "other.py::test_speed", "--benchmark-json", "benchmark.json")
    assert done.status == 0, done.out
    written = json.loads((folder / "benchmark.json").read_text())
    names = [benchmark["name"] for benchmark in written["benchmarks"]]
    assert names[:2] == ["mine", "other"]
    assert len(names) == len(set(names)) == 8


def test_an_output_of_an_earlier_call(folder: Path) -> None:
    """A submission that returns an earlier call's output fails during timing.

    Every call has its own input values. A checksum, which the submission cannot know, detects the
    wrong output.
    """
    done = timed(folder, PLAIN + RETURNS_WHAT_IT_REMEMBERS)
    assert done.status == 1
    assert "a timed call's output is wrong" in done.out


@pytest.mark.parametrize("wait", ["self.stream.wait_stream(torch.cuda.current_stream())", "pass"])
def test_work_on_a_stream_that_nobody_waits_for(folder: Path, wait: str) -> None:
    """If the caller's stream does not wait for a submission's work, timed calls detect it."""
    done = timed(folder, ON_TORCHS_STREAM + WORKS_ON_ANOTHER_STREAM.replace("WAIT", wait))
    assert done.status == 1, done.out
    assert "runs on a stream that the caller's stream does not wait for" in done.out
