"""Deadlines for the total time of a check's steps, and for the total time of its builds."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.support import ROOT, harness, pytest_, reports

pytestmark = pytest.mark.simulator_only

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"

SLEEPS = """
import time
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.layer = nn.ConvTranspose1d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        time.sleep(3)
        return self.layer(x)
"""

SLEEPS_LONG = """
import time
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        time.sleep(60)
        return x + x
"""

HALF_A_CALL = """
import os
import stat
import torch.nn as nn

def is_socket(descriptor):
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # that of the listing itself
        return False

class ModelNew(nn.Module):
    def forward(self, x):
        y = x + x
        # The device's socket is the worker's last one.
        os.write(max(filter(is_socket, map(int, os.listdir("/proc/self/fd")))), b"x")
        return y
"""

BUILDS = """
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

for number in range(2):
    load_inline(
        f"part{{number}}",
        "torch::Tensor twice(torch::Tensor x) {{ return x + x; }} // {}",
        functions=["twice"],
    )

class ModelNew(nn.Module):
    pass
"""


@pytest.mark.thorough
def test_steps_have_a_deadline_together(tmp_path: Path) -> None:
    """A check ends at `--check-seconds`, even if each call is within its own deadline.

    The report gives the reason, and the remaining cases are not run.
    """
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    problem = ROOT / "reference" / "conv_transpose1d.py"
    command = ("check", "sleeps.py", "--reference", problem, "--device", "simulator")
    done = harness(*command, "--check-seconds", "5", "--json", "reports", folder=tmp_path)
    assert (done.status, done.err) == (1, "")
    cases = reports((tmp_path / "reports").read_text())["sleeps"].cases
    why = "all steps together took more than 5 s, the last one while running forward; killed"
    assert f"{why}; --check-seconds allows more" in done.out
    assert cases[-1].verdict == "not run"
    assert (
        cases[-1].message
        == "not run: the time for all steps is used up; --check-seconds allows more"
    )


@pytest.mark.thorough
def test_pytest_has_the_same_deadline(tmp_path: Path) -> None:
    """`--check-seconds` has the same effect under pytest."""
    (tmp_path / "sleeps.py").write_text(SLEEPS_LONG)
    words = ("sleeps.py", "--reference", REFERENCE, "--device", "simulator")
    done = pytest_(*words, "--check-seconds", "2", folder=tmp_path)
    assert done.status == 1
    assert (
        "all steps together took more than 2 s, the last one while running forward; killed"
        in done.out
    )


@pytest.mark.thorough
def test_waiting_for_the_device_counts(tmp_path: Path) -> None:
    """A submission that sends an incomplete message to the device process cannot block it forever.

    The check ends at `--check-seconds`.
    """
    (tmp_path / "half.py").write_text(HALF_A_CALL)
    command = ("check", "half.py", "--reference", REFERENCE, "--device", "simulator")
    limits = ("--step-seconds", "4", "--check-seconds", "6", "--json", "reports")
    done = harness(*command, *limits, folder=tmp_path)
    assert (done.status, done.err) == (1, "")
    cases = reports((tmp_path / "reports").read_text())["half"].cases
    assert sum(case.verdict == "error" for case in cases) <= 2
    assert (
        cases[-1].message
        == "not run: the time for all steps is used up; --check-seconds allows more"
    )


@pytest.mark.thorough
def test_builds_have_a_deadline_together(tmp_path: Path) -> None:
    """A submission's builds are killed when they have taken `--build-seconds` together.

    The limit is one second here. The builds take longer, because a random text in the source keeps
    them from coming from the cache.
    """
    (tmp_path / "builds.py").write_text(BUILDS.format(secrets.token_hex()))
    command = ("check", "builds.py", "--reference", REFERENCE, "--device", "simulator")
    done = harness(*command, "--build-seconds", "1", folder=tmp_path)
    assert (done.status, done.err) == (1, "")
    why = "error: all builds together took more than 1 s, the last one part0; killed"
    assert f"{why}; --build-seconds allows more" in done.out
