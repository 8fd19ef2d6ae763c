"""Builds of a submission ahead of its evaluation, possibly on another machine."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

from harness.evaluate import OnProgress, Progress, Request, settings_for
from harness.problems.one_namespace import shared_constants
from harness.worker.build_service import BuildEvent
from harness.worker.device_worker import DeviceWorker
from harness.worker.supervisor import StepFailed, WorkerFailure


def build(request: Request, on_progress: OnProgress = lambda _: None) -> tuple[Path, ...]:
    """Import a submission in a new worker, so that its CUDA extensions are compiled into the cache.

    No GPU is needed, even if the request's device is a GPU. A worker never uses the device itself,
    so extensions are compiled in the same way for the simulator and for a GPU.

    Args:
        request: A request for the submission. The request's cases are not run.
        on_progress: Function that is called when a build begins.

    Returns:
        The folders of the builds in the cache, including builds that a compiler refused. If the
        import fails, the later evaluation reports why.

    Raises:
        Exception: An error of `evaluate` that occurs before the submission is imported.
    """
    settings, reference = settings_for(request), ast.parse(request.problem.read_bytes())

    def on_build(event: BuildEvent) -> None:
        if event.entry is None and not event.refusal:
            on_progress(Progress("building", event.name))

    with contextlib.ExitStack() as stack:
        try:
            worker = stack.enter_context(DeviceWorker(settings, request.deadlines, on_build))
        except WorkerFailure:
            return ()
        with contextlib.suppress(StepFailed, WorkerFailure):
            worker.import_submission(shared_constants(reference, worker.source))
        return worker.build_folders
