"""Submissions with several CUDA streams on a GPU: verdicts and timing.

The verdicts equal the simulator's, and the streams of timed calls run concurrently.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import pytest_
from tests.test_streams import NOT_AWAITED, RIGHT, WRONG, verdicts, write

# Two streams, an event between them, and torch's own functions.
TIMED = ("halves", "chain", "in_python")

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the GPU's verdict on each function, with the lines printed below the verdict.

    The key is the function's name.
    """
    return verdicts(tmp_path_factory.mktemp("streams"), "cuda")


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_verdicts_are_the_simulator_s(lines: dict[str, str], name: str) -> None:
    """A missing wait between streams fails even if the GPU happens to run the work in order."""
    expected = "passed" if name in RIGHT else "failed"
    assert lines[name].startswith(expected), lines[name]
    if name in NOT_AWAITED:
        assert (
            f"{NOT_AWAITED[name]}: runs on a stream that the caller's stream does not"
            in lines[name]
        )


def test_timed_calls_are_right_too(tmp_path: Path) -> None:
    """Every output of timed calls on several streams passes its check."""
    path = write(tmp_path, *TIMED)
    options = ("--reference", "references", "--grid", "own", "--speed-seconds", "1")
    done = pytest_(f"{path.name}::test_speed", *options, folder=tmp_path)
    assert done.status == 0, done.out
