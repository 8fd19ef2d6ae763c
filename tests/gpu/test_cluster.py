"""Speed measurements on a Dask cluster; each measurement has a GPU to itself.

They are requested through the Python interface, pytest and `harness gate`.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed import Client as Dask

import harness
from tests.gpu.test_speed import HONEST, PLAIN, REFERENCE, RETURNS_WHAT_IT_REMEMBERS
from tests.processes import Running
from tests.support import harness_process, pytest_, run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# Dask corrects its workers' clocks by small steps. A measurement takes seconds.
_CLOCKS_SECONDS = 0.1
# Each copy is the same kernel, and a contender of its own.
COPIES = [f"{HONEST}\n# {number}\n" for number in range(4)]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a cluster, started as in docs/cluster.md, with a worker per GPU."""
    folder = tmp_path_factory.mktemp("cluster")
    dask = [sys.executable, "-m", "dask"]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    where = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
    started = [Running([*dask, "scheduler", *where], folder)]
    try:
        for gpu in range(torch.cuda.device_count()):
            room = folder / str(gpu)
            room.mkdir()
            command = [*dask, "worker", address, "--nthreads", "4", "--resources", "GPU=1"]
            worker = Running(command, room, CUDA_VISIBLE_DEVICES=str(gpu))
            started.append(worker)
            worker.wait_for_error("Registered to:", 1)
        yield address
    finally:
        for running in started:
            running.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path


@dataclass(frozen=True)
class Interval:
    """The start and end of a task in seconds, and the worker that ran it, which has one GPU."""

    task: str
    worker: str
    start: float
    stop: float


def intervals(stream: list[Mapping[str, Any]]) -> list[Interval]:
    """Return the intervals of the computing tasks in a task stream of Dask."""
    return [
        Interval(str(task["key"]), task["worker"], part["start"], part["stop"])
        for task in stream
        for part in task["startstops"]
        if part["action"] == "compute"
    ]


def test_who_is_timed_has_the_gpu_alone(scheduler: str, folder: Path) -> None:
    """While a submission is timed, its GPU runs no evaluation and no other measurement.

    The measured speedup becomes the submission's reward.
    """
    options = harness.Options(grid="own", device="cuda", speed_seconds=2.0)
    reference = folder / "reference.py"
    # Dask's function has no type annotations.
    dask = Dask(scheduler)  # type: ignore[no-untyped-call]
    with dask as watching, harness.Client("dask", scheduler=scheduler, options=options) as client:
        watching.get_task_stream()
        times = []
        for copy, evaluated in [(c, client.submit(c, reference)) for c in COPIES]:
            report = evaluated.result()
            times.append((report, client.measure(copy, reference, report)))
            # This evaluation is requested while others are timed.
            client.submit(f"{copy}# again\n", reference)
        for report, timed in times:
            speed = timed.result()
            assert speed.findings == ()
            assert len(speed.baselines) == 6
            assert harness.reward(report, speed).value == speed.speedup_interval[0] > 0
        ran = intervals(watching.get_task_stream())
    timing = [each for each in ran if each.task.startswith("time ")]
    assert len(timing) == len(COPIES)
    for one in timing:
        for other in ran:
            on_gpu = other.task.startswith(("time ", "evaluate "))
            if on_gpu and other is not one and other.worker == one.worker:
                apart = max(other.start - one.stop, one.start - other.stop)
                assert apart > -_CLOCKS_SECONDS, (one, other)


def test_who_answers_from_memory_is_not_timed(scheduler: str, folder: Path) -> None:
    """A future of `Client.measure` raises ContenderError if an output is wrong during timing.

    Here the submission returns the output of an earlier call.
    """
    source = PLAIN + RETURNS_WHAT_IT_REMEMBERS
    options = harness.Options(grid="own", device="cuda", speed_seconds=2.0)
    with harness.Client("dask", scheduler=scheduler, options=options) as client:
        report = client.submit(source, folder / "reference.py").result()
        assert report.is_right, report.message
        timed = client.measure(source, folder / "reference.py", report)
        with pytest.raises(harness.ContenderError, match="a timed call's output is wrong"):
            timed.result()


def test_pytest_times_on_the_cluster(scheduler: str, folder: Path) -> None:
    """Pytest times two submissions on the cluster, and stores a result for each of them."""
    for number, name in enumerate(("mine", "other")):
        (folder / f"{name}.py").write_text(COPIES[number])
    done = pytest_(
        "mine.py::test_speed", "other.py::test_speed", "--reference", "reference.py",
        "--speed-seconds", "2", "--harness-engine", "dask", "--harness-scheduler", scheduler,
        folder=folder,
    )  # fmt: skip
    assert done.status == 0, done.out
    lines = (folder / "results" / "reference.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert torch.cuda.get_device_name() in lines[0]


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_gate_compares_both_sides_on_one_gpu(scheduler: str, folder: Path) -> None:
    """`harness gate` finds that two versions are equally fast if they differ only by a comment."""
    (folder / "mine.py").write_text(HONEST)
    for words in (
        ("init", "-q"),
        ("add", "mine.py", "reference.py"),
        ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "as it is"),
    ):
        assert run(["git", *words], folder).status == 0
    (folder / "mine.py").write_text(f"{HONEST}\n# As fast.\n")
    done = harness_process(
        "gate", "mine.py", "--base", "HEAD", "--reference", "reference.py", "--grid", "own",
        "--engine", "dask", "--scheduler", scheduler, folder=folder,
    )  # fmt: skip
    assert done.status == 0, done.out + done.err
    assert "times" in done.out
