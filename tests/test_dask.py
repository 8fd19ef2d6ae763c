"""The engine `dask`: machines without shared files give the same reports as a local run.

Workers, the scheduler and the network may fail during the run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.records.report import Report
from tests.cluster import Cluster, builds_in
from tests.processes import Running, wait_for_submission
from tests.support import ROOT, harness, pytest_, reports

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = (ROOT / "tests" / "faults" / "honest.py").read_text()
# This submission needs no compiler. Its verdict is `failed`, since torch does the work.
PLAIN = """
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return x + x
"""
# One header lies beside the submission, the other one in another folder of the sender's.
WITH_HEADERS = HONEST.replace(
    "__global__", '#include "/srv/submissions/near.cuh"\n#include "FAR_HEADER"\n__global__'
).replace("x[i] + x[i]", "NEAR * x[i] + FAR * x[i]")
REACHES = """
import socket
try:
    socket.create_connection(({host!r}, {port}), 5)
except OSError:
    pass
else:
    raise RuntimeError("reached the scheduler")
"""
SLEEPS = "import time\ntime.sleep({seconds})\n"
COMMAND = ("check", "here", "--reference", "double.py", "--seed", "1", "--json", "out")


def comparable(report: Report) -> Report:
    """Return a report without the fields that differ in every run: times and reused builds."""
    cases = tuple(replace(case, seconds=0.0) for case in report.cases)
    return replace(report, seconds=0.0, checked_at="", builds=(), cases=cases)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster of two workers.

    An evaluation is repeated if its worker dies. After the third death, the submission is an error.
    """
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2"}
    made = Cluster(tmp_path_factory.mktemp("cluster"), **allowed)
    try:
        for worker in [made.start_worker(number) for number in (1, 2)]:
            worker.wait_for_error("Registered to:", 1)
        shutil.copy(REFERENCE, made.sender)
        yield made
    finally:
        made.close()


@pytest.fixture
def here(cluster: Cluster) -> Iterator[Path]:
    """Yield a folder of submissions on the sender's machine, and remove it afterwards."""
    folder = cluster.sender / "here"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def begun(cluster: Cluster, here: Path, name: str, seconds: int) -> Running:
    """Start a check of two submissions on the cluster; one of them sleeps for `seconds`."""
    (here / f"{name}.py").write_text(SLEEPS.format(seconds=seconds) + PLAIN)
    (here / f"a{name}.py").write_text(PLAIN)
    return cluster.harness(*COMMAND)


@pytest.mark.thorough
@pytest.mark.usefixtures("sandbox")
def test_reports_are_those_of_a_local_run(cluster: Cluster, here: Path) -> None:
    """A cluster gives the same reports as a local run, and `--resume` reuses them.

    Workers get the headers in a submission's folder, and those in the folder that `--readable`
    names. Submissions cannot reach the scheduler. A build made by one worker is reused for other
    references.
    """
    far = cluster.sender / "far"
    far.mkdir()
    (far / "far.cuh").write_text("#define FAR 0.5f\n")
    (here / "near.cuh").write_text("#define NEAR 1.5f\n")
    (here / "headers.py").write_text(WITH_HEADERS.replace("FAR_HEADER", str(far / "far.cuh")))
    network = cluster.network
    reaches = REACHES.format(host=network.host, port=network.port)
    (here / "reaches.py").write_text(reaches + PLAIN)
    shutil.copy(REFERENCE, cluster.sender / "twice.py")
    command = (*COMMAND, "--reference", "twice.py", "--readable", "far")
    done = cluster.harness(*command).outcome()
    lines = (cluster.sender / "out").read_text()
    assert {(r.submission, r.verdict) for r in map(Report.from_json, lines.splitlines())} == {
        ("headers", "passed"),
        ("reaches", "failed"),
    }, done
    seconds = {r.builds[0].seconds for r in map(Report.from_json, lines.splitlines()) if r.builds}
    assert len(seconds) == 1
    rooms = [cluster.sender.with_name(f"worker{number}") for number in (1, 2)]
    assert len(set.union(*map(builds_in, rooms))) == 1

    resumed = harness(*command, "--resume", folder=cluster.sender)
    assert "--resume: 4 of 4 reports were taken over from an earlier run" in resumed.out
    shutil.rmtree(cluster.sender / ".harness")
    harness(*command, folder=cluster.sender)
    local = (cluster.sender / "out").read_text()
    both = [
        sorted((comparable(Report.from_json(line)) for line in text.splitlines()), key=repr)
        for text in (lines, local)
    ]
    assert both[0] == both[1]


@pytest.mark.thorough
def test_submission_whose_worker_dies_three_times_is_an_error(cluster: Cluster, here: Path) -> None:
    """A submission whose worker is killed three times is an error, and the cluster goes on.

    The other submission gets its report.
    """
    running = begun(cluster, here, "deadly", 3600)
    for _ in range(3):
        process, worker = wait_for_submission(running, "deadly")
        worker.kill()
        process.wait_until_gone()
    done = running.outcome()
    assert "deadly on double: error: its evaluator process was killed 3 times" in done.out, done.err
    assert reports((cluster.sender / "out").read_text())["adeadly"].verdict == "failed"
    assert "Traceback" not in done.out + done.err


@pytest.mark.thorough
def test_ctrl_c_ends_what_is_under_way_everywhere(cluster: Cluster, here: Path) -> None:
    """Ctrl-C prints one line on the sender's machine, and ends the submissions that workers run."""
    running = begun(cluster, here, "endless", 3600)
    process, _ = wait_for_submission(running, "endless")
    running.wait_for("aendless on double: ")
    cluster.interrupt(running)
    process.wait_until_gone()
    done = running.outcome()
    assert (done.status, done.err) == (
        130,
        "harness: interrupted; run it again with --resume to continue from here\n",
    ), done.out


@pytest.mark.thorough
def test_scheduler_that_restarts_loses_nothing(cluster: Cluster, here: Path) -> None:
    """A restart of the scheduler loses no report: the sender sends unfinished requests again.

    A worker is started again, too, since workers end with their scheduler.
    """
    running = begun(cluster, here, "patient", 4)
    process, _ = wait_for_submission(running, "patient")
    cluster.stop_scheduler()
    process.wait_until_gone()
    cluster.start_scheduler()
    cluster.start_worker(1)
    done = running.outcome()
    known = reports((cluster.sender / "out").read_text())
    assert {r.verdict for r in known.values()} == {"failed"}, done
    assert known.keys() == {"patient", "apatient"}


@pytest.mark.thorough
def test_cut_network_loses_nothing(cluster: Cluster, here: Path) -> None:
    """A network that is cut during an evaluation loses no report.

    The cut ends the evaluation, which is repeated when the workers have connected again.
    """
    if not cluster.network.is_there:
        pytest.skip("the machine allows no network namespaces, so that there is nothing to cut")
    running = begun(cluster, here, "remote", 6)
    process, _ = wait_for_submission(running, "remote")
    cluster.network.cut()
    process.wait_until_gone()
    cluster.network.mend()
    done = running.outcome()
    known = reports((cluster.sender / "out").read_text())
    assert {r.verdict for r in known.values()} == {"failed"}, done
    assert known.keys() == {"remote", "aremote"}


@pytest.mark.thorough
def test_full_disk_is_told(tmp_path: Path) -> None:
    """A worker with a full disk gives status 2 and one line with the worker's address.

    If another worker has joined the cluster, it runs the evaluation instead.
    """
    alone = Cluster(tmp_path)
    try:
        if not alone.network.is_there:
            pytest.skip("the machine allows no mounts, so that there is no full disk")
        (alone.sender / "here").mkdir()
        shutil.copy(REFERENCE, alone.sender)
        (alone.sender / "here" / "plain.py").write_text(PLAIN)
        alone.start_worker(1, has_full_disk=True).wait_for_error("Registered to:", 1)
        done = alone.harness(*COMMAND).outcome()
        assert done.status == 2
        assert done.err.startswith("harness: worker tcp://10.77.0.11:")
        assert done.err.endswith(": No space left on device; run: export XDG_CACHE_HOME=FOLDER\n")
        assert (done.out, done.err.count("\n")) == ("", 1)
        alone.start_worker(2).wait_for_error("Registered to:", 1)
        done = alone.harness(*COMMAND).outcome()
        assert "plain on double: failed: own configuration failed" in done.out, done
    finally:
        alone.close()


@pytest.mark.thorough
def test_another_version_is_refused(cluster: Cluster, here: Path, tmp_path: Path) -> None:
    """A worker with another version of the harness is refused in one line, before anything runs."""
    shutil.copytree(ROOT / "harness", tmp_path / "harness")
    with (tmp_path / "harness" / "defaults.py").open("a") as file:
        file.write("# Another version.\n")
    worker = cluster.start_worker(1, "other", PYTHONPATH=str(tmp_path))
    worker.wait_for_error("Registered to:", 1)
    (here / "plain.py").write_text(PLAIN)
    done = cluster.harness(*COMMAND).outcome()
    worker.kill()
    assert done.status == 2
    assert "runs other versions than this machine: the harness is 0.1.0 (" in done.err
    assert done.err.count("\n") == 1


def test_without_a_scheduler_there_is_a_cluster_of_this_machine(tmp_path: Path) -> None:
    """`--engine dask` without `--scheduler` starts a cluster on this machine."""
    (tmp_path / "plain.py").write_text(PLAIN)
    checked = harness(
        "check", ".", "--reference", REFERENCE, "--engine", "dask", "--grid", "own",
        folder=tmp_path,
    )  # fmt: skip
    assert "plain on double: failed" in checked.out, checked.err
    assert checked.err == ""


@pytest.mark.thorough
def test_pytest_has_a_cluster_of_this_machine_too(tmp_path: Path) -> None:
    """Pytest's `--harness-engine dask` without a scheduler starts a cluster on this machine."""
    (tmp_path / "plain.py").write_text(PLAIN)
    own = ("--reference", REFERENCE, "--grid", "own", "--harness-engine", "dask")
    done = pytest_(".", *own, "-k", "not speed", folder=tmp_path)
    assert "plain on double: failed" in done.out


@pytest.mark.thorough
def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    """An unreachable scheduler is an error of one line.

    So is an option that does not fit the engine: `--jobs` with a scheduler, or `--scheduler`
    without the engine `dask`.
    """
    (tmp_path / "plain.py").write_text(PLAIN)
    command = ("check", ".", "--reference", REFERENCE)
    nobody = ("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1")
    done = harness(*command, *nobody, folder=tmp_path)
    assert done.status == 2
    assert "the scheduler tcp://127.0.0.1:1 cannot be reached (" in done.err
    assert done.err.count("\n") == 1
    done = harness(*command, *nobody[:-1], "tls://127.0.0.1:1", folder=tmp_path)
    assert done.err == (
        "harness: the scheduler tls://127.0.0.1:1 uses TLS, but no certificate is configured; "
        "see docs/cluster.md\n"
    )
    done = harness(*command, *nobody, "--jobs", "2", folder=tmp_path)
    assert "--jobs: the cluster's workers decide how many submissions run at a time" in done.err
    done = harness(*command, "--scheduler", "tcp://127.0.0.1:1", folder=tmp_path)
    assert done.err == (
        "harness: scheduler tcp://127.0.0.1:1: only a cluster has a scheduler; "
        "choose the engine dask\n"
    )
