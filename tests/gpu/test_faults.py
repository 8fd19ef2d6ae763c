"""Submissions of tests/faults/ that break their own process, on a GPU."""

from __future__ import annotations

import pytest
import torch

from tests.support import Outcome, harness
from tests.test_faults import ERROR, FOLDER, LINES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# A GPU has no memcheck. A worker's last words may be CUDA's, about work that it left undone.
ON_GPU = LINES | {
    "honest": "passed: ",
    "illegal_address": (
        f"{ERROR}AcceleratorError: CUDA error: an illegal memory access was encountered"
    ),
    "close_descriptors": f"{ERROR}the worker exited with status 1 while running forward: ",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check` on all files of tests/faults, one of which is right."""
    files = sorted(FOLDER.glob("*.py"))
    options = ("--reference", FOLDER / "reference", "--grid", "own", "--device", "cuda")
    deadline = ("--step-seconds", "20")
    folder = tmp_path_factory.mktemp("faults")
    return harness("check", *files, *options, *deadline, folder=folder)


@pytest.mark.parametrize("name", ON_GPU)
def test_the_verdict_names_what_happened(outcome: Outcome, name: str) -> None:
    """The output line of each file says what happened to its process; the right file passes."""
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    wanted = ON_GPU[name].replace("within 6 s", "within 20 s")
    assert any(line.startswith(f"{name} on double: {wanted}") for line in lines), outcome.out
