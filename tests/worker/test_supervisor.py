"""The trusted side's client of a worker process, with real processes."""

from __future__ import annotations

import pytest

from harness.evaluate import Request, settings_for
from harness.worker.device_worker import DeviceWorker
from harness.worker.supervisor import Deadlines, WorkerFailure
from tests.support import REFERENCE, ROOT


def test_a_worker_that_took_too_long_is_dead_for_later_requests() -> None:
    """A worker that missed a deadline fails every later request.

    The worker's late answer is never taken for the answer to the next request. The error of that
    request says how the worker ended.
    """
    loops = ROOT / "tests" / "hostile" / "loop_at_import.py"
    settings = settings_for(Request(loops, REFERENCE / "conv_transpose1d.py", "simulator"))
    with DeviceWorker(settings, Deadlines(step=60), lambda _event: None) as worker:
        with pytest.raises(WorkerFailure, match="no answer within 1 s") as late:
            worker.import_submission({}, seconds=1)
        assert late.value.cause == "timeout"
        with pytest.raises(WorkerFailure, match="killed by SIGKILL") as dead:
            worker.look_back()
        assert dead.value.cause == "crash"
