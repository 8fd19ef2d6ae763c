"""The choice of the simplest engine in harness/engines/ for a number of parallel evaluations."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from harness.engines.engine import EngineChoice
from harness.engines.in_process import InProcess
from harness.engines.processes import Processes
from tests.support import ROOT, run

OTHER = """
from harness.engines.engine import EngineKind
from harness.engines.in_process import InProcess

class Other(InProcess):
    capacity = 2

ENGINE = EngineKind(2, lambda _jobs, _scheduler: Other())
"""
ASKS = (
    "from harness.engines.engine import EngineChoice; "
    "print([EngineChoice().start(jobs, 3).capacity for jobs in (1, 2, 3)], "
    "EngineChoice('other').start(9, 9).capacity)"
)


@pytest.mark.parametrize(("jobs", "evaluations"), [(1, 9), (4, 1), (4, 0)])
def test_one_at_a_time_stays_in_this_process(jobs: int, evaluations: int) -> None:
    """If only one evaluation runs at a time, it runs in this process, and no process is started."""
    assert isinstance(EngineChoice().start(jobs, evaluations), InProcess)


def test_several_at_a_time_get_processes() -> None:
    """Several evaluations at a time run in processes, at most one for each evaluation."""
    with EngineChoice().start(4, 3) as engine:
        assert isinstance(engine, Processes)
        assert engine.capacity == Processes(3).capacity


def test_engine_is_one_file(tmp_path: Path) -> None:
    """A new file in harness/engines/ with an `ENGINE` becomes an engine without other changes.

    It is selected by its name, or because it is the simplest engine for the number of jobs.
    """
    shutil.copytree(ROOT / "harness", tmp_path / "harness")
    (tmp_path / "harness" / "engines" / "other.py").write_text(OTHER)
    done = run([sys.executable, "-c", ASKS], tmp_path, PYTHONPATH=str(tmp_path))
    assert done.out == "[1, 2, 6] 2\n", done.err
