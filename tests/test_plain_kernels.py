"""Right kernels in plain CUDA, which benchmarks/plain_kernels.py writes for any reference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

# One reference of each kind; the last has a number among its inputs.
REFERENCES = ("attention", "conv_transpose2d", "group_norm", "reverse_cumsum", "scaled_sum")


@pytest.mark.thorough
def test_right_kernels_are_not_accused(tmp_path: Path) -> None:
    """Right kernels pass as fp32 with all kinds of input values.

    They run in the reference's own configuration, with sizes that are reduced for the simulator.
    """
    paths = [str(ROOT / "tests" / "references" / f"{name}.py") for name in REFERENCES]
    command = [str(ROOT / "benchmarks" / "plain_kernels.py"), *paths, "--into", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command, "--grid", "own"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"passed fp32": len(REFERENCES)}, done.stdout
