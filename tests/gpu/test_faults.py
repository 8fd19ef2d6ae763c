"""Submissions that break what they run in, on a GPU: tests/faults/."""

from __future__ import annotations

import pytest
import torch

from tests.support import Outcome, harness
from tests.test_faults import ERROR, FOLDER, LINES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# There is no memcheck; and the last words of a worker may be CUDA's, about what it left undone.
ON_GPU = LINES | {
    "honest": "passed: ",
    "illegal_address": (
        f"{ERROR}AcceleratorError: CUDA error: an illegal memory access was encountered"
    ),
    "close_descriptors": f"{ERROR}the worker exited with status 1 while running forward: ",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What `harness check` says of all of them, among them one that is right."""
    files = sorted(FOLDER.glob("*.py"))
    options = ("--reference", FOLDER / "reference", "--grid", "own", "--device", "cuda")
    deadline = ("--step-seconds", "20")
    folder = tmp_path_factory.mktemp("faults")
    return harness("check", *files, *options, *deadline, folder=folder)


@pytest.mark.parametrize("name", ON_GPU)
def test_the_verdict_names_what_happened(outcome: Outcome, name: str) -> None:
    """In the first line about the file; the one that is right passes as it does alone."""
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    wanted = ON_GPU[name].replace("within 6 s", "within 20 s")
    assert any(line.startswith(f"{name} on double: {wanted}") for line in lines), outcome.out
