"""Measure the cost of an engine: per evaluation, in Dask's scheduler, and on several GPUs.

    python benchmarks/engine_cost.py overhead SUBMISSION REFERENCE    # all three engines
    python benchmarks/engine_cost.py scheduler --workers 64 --evaluations 10000
    CUDA_VISIBLE_DEVICES=0,1 python benchmarks/engine_cost.py gpus
    CUDA_VISIBLE_DEVICES=0 python benchmarks/engine_cost.py gpus --built    # again, on one GPU
    python benchmarks/engine_cost.py cold       # how busy the GPUs are if nothing is built yet
    python benchmarks/engine_cost.py contexts   # how many CUDA contexts a host makes per second
    python benchmarks/engine_cost.py builds     # how much running compilers slow down kernels

`gpus`, `cold` and `builds` use the submissions and references of this repository.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, as_completed, wait
from pathlib import Path

import torch
from distributed import Scheduler, Worker

import harness
from harness.engines.cluster import tasks
from harness.engines.cluster.connection import client_of, local_cluster
from harness.engines.cluster.sender import DaskEngine
from harness.engines.cluster.tasks import TaskOutcome
from harness.engines.engine import EngineChoice
from harness.engines.processes import Processes
from harness.evaluate import Request
from harness.problems.discovery import discover, fits
from harness.problems.problem import load
from harness.records.render import full
from harness.records.report import Report
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.system.processors import usable_cores

_ROUNDS = 7
_OWN = harness.Options(device="cuda", grid="own", seed=1)


def overhead(submission: Path, reference: Path) -> None:
    """Print the median seconds of one evaluation on each engine.

    The engines take turns. Each engine first makes one evaluation that is not timed, because it
    builds the submission.
    """
    options = harness.Options(seed=1)
    seconds: dict[str, list[float]] = {"in_process": [], "processes": [], "dask": []}
    clients = {name: harness.Client(name, jobs=1, options=options) for name in seconds}
    with contextlib.ExitStack() as stack:
        for client in clients.values():
            # The first evaluation builds, and starts the processes.
            stack.enter_context(client).submit(submission, reference).result()
        for _ in range(_ROUNDS):
            for name, client in clients.items():
                start = time.monotonic()
                client.submit(submission, reference).result()
                seconds[name].append(time.monotonic() - start)
    base = statistics.median(seconds["in_process"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{name:11} {median:7.3f} s, {100 * (median / base - 1):+.1f} %")


def scheduler(workers: int, evaluations: int, files: Sequence[Path]) -> None:
    """Print evaluations per second of Dask's scheduler, and the memory of scheduler and sender.

    The Dask workers return an empty report without any work. So only the scheduler and the sending
    process are measured.
    """
    report = Report(
        "empty", "", "", "", "", "simulator", "quick", 0, {}, "passed", source="x" * 8192
    ).to_json()
    submission, reference = files
    tasks.evaluate = _Empty(report)  # type: ignore[assignment]  # the one thing that is not measured
    tasks.build = _no_builds  # type: ignore[assignment]  # as above
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[str] = context.Queue()
    ends = [context.Process(target=_serve, args=(told,), daemon=True)]
    ends[0].start()
    address = told.get()
    ends.append(context.Process(target=_work, args=(address, workers, told), daemon=True))
    ends[1].start()
    told.get()
    both = {"scheduler": str(ends[0].pid), "sender": "self"}
    before = {name: _resident(process) for name, process in both.items()}
    with DaskEngine(workers, address) as engine:
        start = time.monotonic()
        futures = [
            engine.submit(Request(submission, reference, "simulator", seed=number))
            for number in range(evaluations)
        ]
        sent = time.monotonic() - start
        for future in as_completed(futures):
            future.result()
        seconds = time.monotonic() - start
        most = {name: _resident(process) for name, process in both.items()}
    for process in ends:
        process.kill()
    print(f"{workers} workers, {evaluations} evaluations: {evaluations / seconds:.0f} a second")
    print(f"sent within {sent:.1f} s, ended within {seconds:.1f} s")
    for name in both:
        grown = (most[name] - before[name]) / evaluations
        print(f"{name}: {most[name] / 2**20:.0f} MiB, {grown / 2**10:.1f} KiB an evaluation")


def gpus(seconds: float, jobs: int | None, folder: Path, *, is_built: bool) -> None:
    """Print the throughput of the visible GPUs: evaluations per hour, at the references' own sizes.

    Unless `is_built`, each pair of submission and reference is first checked once, so that its
    build is in the cache. The measurement begins when `jobs` evaluations have ended, and lasts
    `seconds`. New evaluations are sent until the measurement ends, so that no GPU runs out of work.
    """
    pairs = _pairs(folder)
    jobs = jobs or EngineChoice("dask", "").hardware("cuda").jobs
    with harness.Client("dask", jobs=jobs, options=_OWN) as client:
        if not is_built:
            wait([client.submit(*pair) for pair in pairs])
        begun = time.monotonic()
        endless = itertools.cycle(pairs)
        running = {client.submit(*pair) for pair in itertools.islice(endless, 2 * jobs)}
        ended: list[Report] = []
        start, first = begun, 0
        while len(ended) < jobs or time.monotonic() < start + seconds:
            done, running = wait(running, 1.0, FIRST_COMPLETED)
            running |= {client.submit(*pair) for pair in itertools.islice(endless, len(done))}
            if len(ended) < jobs:
                start, first = time.monotonic(), len(ended) + len(done)
            ended += [future.result() for future in done]
        lasted = time.monotonic() - start
    _tell(ended[first:], lasted)
    print(f"begun {start - begun:.1f} s before, with {jobs} at a time")
    print(f"{torch.cuda.device_count()} GPUs: {3600 * (len(ended) - first) / lasted:.0f} an hour")


def cold(copies: int, folder: Path) -> None:
    """Print how busy each visible GPU is while copies of submissions are built and checked.

    A unique comment in the C++ source of each copy makes the harness build it anew. The measurement
    starts with the first evaluation, so it leaves out the time before the first build is ready.
    """
    pairs = _pairs(folder)
    sources = {path: path.read_text() for path, _ in pairs}
    jobs = EngineChoice("dask", "").hardware("cuda").jobs
    with tempfile.TemporaryDirectory() as name, local_cluster(jobs, Path(name)) as cluster:
        address = cluster.scheduler_address
        gpus = {worker.address: worker.name for worker in cluster.workers.values()}
        with (
            client_of(cluster) as watching,
            harness.Client("dask", scheduler=address, options=_OWN) as client,
            _utilization() as used,
        ):
            watching.get_task_stream()
            start = time.time()
            futures = []
            for _ in range(copies):
                comment = f"// {secrets.token_hex(8)}\n#include <"
                for path, reference in pairs:
                    copy = sources[path].replace("#include <", comment, 1)
                    futures.append(client.submit(copy, reference))
            reports = [future.result() for future in futures]
            seconds = time.time() - start
            stream = watching.get_task_stream()
    _tell(reports, seconds)
    ran = [
        (str(task["key"]).split()[0], task["worker"], part["start"], part["stop"])
        for task in stream
        for part in task["startstops"]
        if part["action"] == "compute"
    ]
    first = min(begin for kind, _, begin, _ in ran if kind == "evaluate")
    built = max(end for kind, _, _, end in ran if kind == "build")
    ended = min(
        max(end for kind, on, _, end in ran if kind == "evaluate" and on == gpu) for gpu in gpus
    )
    print(f"evaluations from {first - start:.1f} s on, builds until {built - start:.1f} s")
    for number, (gpu, called) in enumerate(gpus.items()):
        held = [(begin, end) for kind, on, begin, end in ran if kind == "evaluate" and on == gpu]
        for what, until in (("while builds go on", built), ("until one has no more to do", ended)):
            samples = [shares[number] for when, shares in used if first <= when <= until]
            print(
                f"{called} {what}: evaluations {100 * _share(held, first, until):.1f} % of the "
                f"time, kernels {statistics.mean(samples):.1f} %"
            )


def contexts(seconds: float) -> None:
    """Print how many CUDA contexts per second processes create, on one GPU and on all GPUs.

    Each context is created by a process of its own, which then ends. Meanwhile this process keeps
    one context on each visible GPU, as evaluators do.
    """
    gpus = torch.cuda.device_count()
    held = [torch.zeros(1, device=f"cuda:{gpu}") for gpu in range(gpus)]
    command = [sys.executable, "-c", _CONTEXTS, str(seconds)]
    for count in sorted({1, len(held)}):
        for each in (1, 4, 12):
            loops = [
                subprocess.Popen([*command, str(gpu)], stdout=subprocess.PIPE, text=True)
                for gpu in range(count)
                for _ in range(each)
            ]
            made = sum(int(loop.communicate()[0]) for loop in loops)
            print(f"{count} GPUs, {each} processes on each: {made / seconds:.1f} contexts a second")


_CONTEXTS = """
import ctypes, os, sys, time
made, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    process = os.fork()
    if not process:
        driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        failed = driver.cuInit(0)
        failed |= driver.cuDeviceGet(ctypes.byref(device), int(sys.argv[2]))
        failed |= driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        os._exit(bool(failed))
    if os.waitpid(process, 0)[1]:
        sys.exit("no context")
    made += 1
print(made)
"""


def builds(names: Sequence[str], folder: Path) -> None:
    """Print submissions' times on an idle machine, and while nvcc runs on all but two processors.

    The other two processors are left to the submission and to the process that times it. Idle and
    busy measurements take turns, so that the GPU is equally warm for both.
    """
    reference = folder / "reference" / "conv_transpose1d.py"
    paths = [folder / "submissions" / f"{name}.py" for name in names]
    with harness.Client(jobs=len(paths), options=_OWN) as client:
        reports = [future.result() for future in client.map(paths, reference)]
    # One processor is for the submission that is timed, and one for the process that times it.
    count = usable_cores() - 2
    with Processes(1) as engine:
        for path, report in zip(paths, reports, strict=True):
            if report.precision is None:
                raise SystemExit(full(report))
            entries = (PlannedSubmission(report.submission, path, report.precision),)
            plan = SpeedPlan(Request(path, reference, "cuda"), entries, kinds=(), seconds=3.0)
            medians: dict[bool, list[float]] = {False: [], True: []}
            for is_busy in (False, True, False, True):
                with _compilers(count if is_busy else 0):
                    (timing,) = engine.measure(plan).result().timings.values()
                medians[is_busy].append(timing.median_ms)
            idle, busy = (statistics.mean(medians[is_busy]) for is_busy in (False, True))
            print(
                f"{path.stem:16} {idle:8.4f} ms idle, {busy:8.4f} beside {count} compilers: "
                f"{100 * (busy / idle - 1):+.2f} %; idle ones differ by "
                f"{100 * abs(medians[False][1] / medians[False][0] - 1):.2f} %"
            )


def _pairs(folder: Path) -> list[tuple[Path, Path]]:
    """Return all pairs of a submission and a reference that it fits, in the project at `folder`."""
    problems = {path: load(path) for path in sorted((folder / "reference").glob("*.py"))}
    return [
        (submission.path, path)
        for submission in discover([folder / "submissions"]).submissions
        for path, problem in problems.items()
        if fits(submission, problem) is None
    ]


def _tell(reports: Sequence[Report], seconds: float) -> None:
    verdicts = Counter(report.verdict for report in reports)
    print(f"{len(reports)} evaluations in {seconds:.1f} s: {dict(verdicts)}")
    for report in reports:
        if not report.is_right:
            print(full(report))


def _share(intervals: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Return the fraction of the time from `begin` to `end` that the intervals cover."""
    covered, reached = 0.0, begin
    for start, stop in sorted(intervals):
        covered += max(0.0, min(stop, end) - max(start, reached))
        reached = max(reached, stop)
    return covered / (end - begin)


@contextlib.contextmanager
def _utilization() -> Iterator[list[tuple[float, list[int]]]]:
    """Yield a list to which a thread appends ten times a second, until the context is closed.

    Each entry has the time, and the utilization of each GPU in percent.
    """
    samples: list[tuple[float, list[int]]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            count = torch.cuda.device_count()
            samples.append((time.time(), [torch.cuda.utilization(gpu) for gpu in range(count)]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _compilers(count: int) -> Iterator[None]:
    """Run `count` copies of nvcc, each in a loop, while the context is open."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "kernel.cu"
        source.write_text("#include <cub/cub.cuh>\n__global__ void kernel() {}\n")
        command = ["sh", "-c", 'while :; do nvcc -c "$0" -o "$1"; done', str(source)]
        running = [
            subprocess.Popen([*command, f"{name}/{number}.o"], start_new_session=True)
            for number in range(count)
        ]
        try:
            yield
        finally:
            for process in running:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _resident(process: str) -> int:
    """Return the resident memory, in bytes, of the process with this id, or of `self`."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _serve(told: multiprocessing.Queue[str]) -> None:
    """Run a Dask scheduler in this process, and send its address through `told`."""

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            told.put(scheduler.address)
            await scheduler.finished()

    asyncio.run(run())


def _work(address: str, count: int, told: multiprocessing.Queue[str]) -> None:
    """Run `count` Dask workers in this process; send a message through `told` when they are ready.

    One process for each worker would need as much memory as a cluster has.
    """

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                await stack.enter_async_context(Worker(address, nthreads=1, memory_limit=0))
            told.put("ready")
            await asyncio.Event().wait()

    asyncio.run(run())


class _Empty:
    def __init__(self, report: str) -> None:
        self._report = report

    def __call__(self, *_: object) -> TaskOutcome:
        return TaskOutcome("report", self._report, "")


def _no_builds(*_: object) -> tasks.Builds:
    return {}


def main() -> None:
    """Run the measurement that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="what")
    one = commands.add_parser("overhead")
    one.add_argument("files", nargs=2, type=Path)
    many = commands.add_parser("scheduler")
    many.add_argument("--workers", type=int, default=64)
    many.add_argument("--evaluations", type=int, default=10_000)
    cards = commands.add_parser("gpus")
    cards.add_argument("--seconds", type=float, default=120.0)
    cards.add_argument("--jobs", type=int, help="at a time, on all GPUs together")
    cards.add_argument("--built", action="store_true", help="everything is built already")
    new = commands.add_parser("cold")
    new.add_argument("--copies", type=int, default=4)
    begun = commands.add_parser("contexts")
    begun.add_argument("--seconds", type=float, default=5.0)
    beside = commands.add_parser("builds")
    beside.add_argument("names", nargs="*", default=["flat_index", "shared_memory", "wgmma_tf32"])
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    if options.what == "overhead":
        overhead(*options.files)
    elif options.what == "builds":
        builds(options.names, here)
    elif options.what == "contexts":
        contexts(options.seconds)
    elif options.what == "cold":
        cold(options.copies, here)
    elif options.what == "gpus":
        gpus(options.seconds, options.jobs, here, is_built=options.built)
    else:
        files = (here / "submissions/flat_index.py", here / "reference/conv_transpose1d.py")
        scheduler(options.workers, options.evaluations, files)


if __name__ == "__main__":
    main()
