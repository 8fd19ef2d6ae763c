"""Connections to an existing Dask cluster, or to a local Dask cluster inside this process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from distributed import Client, Scheduler, Security, SpecCluster, Worker
from distributed.comm.core import CommClosedError

from harness.devices import Choice
from harness.engines.cluster.software import software
from harness.engines.cluster.tasks import GPU_WORKER, WorkerMachine, describe
from harness.engines.engine import Hardware
from harness.system.errors import UsageError

GPU = "GPU"
"""Resource of a worker with a GPU: `dask worker --resources GPU=1`."""

# Deaths of Dask workers that a task survives. At the third death the submission is to blame.
_ALLOWED_DEATHS = 2
# Timeouts in seconds: of a connection, including the restart of a scheduler, and of the first
# attempt to reach a scheduler.
_SECONDS = 60.0
_FIRST_SECONDS = 10.0


@dataclass(frozen=True)
class Members:
    """The resources of all workers of a Dask cluster.

    Attributes:
        threads: Number of threads of all workers together.
        gpus: Names of the workers' GPUs, each name once.
        share: Fraction of a GPU, from 0 to 1, that each evaluation reserves; 0 without a GPU.
        count: Number of workers with a GPU.
    """

    threads: int
    gpus: tuple[str, ...]
    share: float
    count: int


def client_of(cluster: str | SpecCluster, seconds: float = _SECONDS) -> Client:
    """Return a new Dask client of a cluster, without making it this process's default client."""
    # Dask's signature lacks only the return type.
    return Client(cluster, timeout=seconds, set_as_default=False)  # type: ignore[no-untyped-call]


def connect(scheduler: str) -> Client:
    """Return a Dask client that is connected to the scheduler at an address.

    Raises:
        UsageError: The scheduler cannot be reached, or a certificate is missing.
    """
    # Dask's signatures have no types.
    told = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    if scheduler.startswith("tls") and not told["ssl_context"]:
        raise UsageError(
            f"the scheduler {scheduler} uses TLS, but no certificate is configured; see "
            "docs/cluster.md"
        )
    # This process reports errors itself, in one line, instead of Dask's log.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = client_of(scheduler, _FIRST_SECONDS)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"the scheduler {scheduler} cannot be reached ({reason}); start one: dask scheduler"
        ) from None
    client._timeout = _SECONDS
    return client


def members(client: Client, scheduler: str) -> Members:
    """Check that all workers have this machine's versions, and return the workers' resources.

    Raises:
        UsageError: The cluster has no worker, or a worker has other versions of the harness, torch
            or nvcc.
    """
    known: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    if not known:
        raise UsageError(
            f"the scheduler {scheduler} has no workers; start one: dask worker {scheduler}"
        )
    answers: Mapping[str, Any] = client.run(describe, on_error="return")
    # A worker that disappears meanwhile is treated as if it had never been there.
    told = {a: said for a, said in answers.items() if not isinstance(said, CommClosedError)}
    if not told:
        raise UsageError(
            f"all workers of {scheduler} disconnected while they were queried; try again"
        )
    for address, machine in told.items():
        if not isinstance(machine, WorkerMachine):
            raise UsageError(
                f"the worker {address} cannot load the harness: {machine}; install the same "
                "harness there"
            )
        other = machine.software.why_other(software())
        if other:
            raise UsageError(f"the worker {address} runs other versions than this machine: {other}")
    # All tasks ask for the same share of a GPU. So the worker whose GPU fits the fewest evaluations
    # decides it.
    with_gpu = [told[a] for a, info in known.items() if a in told and info["resources"].get(GPU)]
    return Members(
        threads=sum(int(info["nthreads"]) for info in known.values()),
        gpus=tuple(sorted({machine.gpu for machine in with_gpu})),
        share=1 / max(1, min((m.together for m in with_gpu), default=1)) if with_gpu else 0.0,
        count=len(with_gpu),
    )


def hardware_of(device: Choice, scheduler: str) -> Hardware:
    """Return a cluster's device, its GPUs, and how many evaluations run on it at a time.

    Raises:
        UsageError: The cluster cannot be reached or used.
    """
    with connect(scheduler) as client:
        found = members(client, scheduler)
    if device == "simulator" or (device == "auto" and not found.count):
        return Hardware("simulator", found.threads)
    if not found.count:
        raise UsageError(
            f"--device cuda: no worker of {scheduler} has a GPU; start one: dask worker "
            f"{scheduler} --resources GPU=1"
        )
    return Hardware("cuda", round(found.count / found.share), ", ".join(found.gpus))


def local_cluster(jobs: int, folder: Path) -> SpecCluster:
    """Return a Dask cluster in this process, without a network port.

    It has one worker for each GPU, or one worker if there is no GPU.

    Args:
        jobs: Number of evaluations at a time.
        folder: Folder for the files of the workers.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    gpus = torch.cuda.device_count()
    names = [f"{GPU_WORKER}{number}" for number in range(gpus)] or ["processors"]
    options = {
        "protocol": "inproc://",
        "nthreads": max(1, jobs // len(names)),
        "resources": {GPU: 1} if gpus else None,
        # Evaluations run in other processes, whose memory Dask does not see.
        "memory_limit": 0,
        "dashboard": False,
    }
    # Dask's signature has no types.
    return SpecCluster(  # type: ignore[no-untyped-call]
        scheduler={
            "cls": Scheduler,
            "options": {
                "protocol": "inproc://",
                "port": 0,
                "dashboard": False,
                "allowed_failures": _ALLOWED_DEATHS,
            },
        },
        workers={
            name: {
                "cls": Worker,
                "options": {**options, "name": name, "local_directory": str(folder / name)},
            }
            for name in names
        },
        silence_logs=logging.CRITICAL,
    )
