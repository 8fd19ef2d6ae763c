"""What importing a submission has built, ahead of its evaluation and perhaps on another machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.evaluate import OnProgress, Progress, Request, settings_for
from harness.worker.build_service import BuildEvent
from harness.worker.device_worker import DeviceWorker
from harness.worker.supervisor import WorkerFailure


def build(request: Request, on_progress: OnProgress = lambda _: None) -> tuple[Path, ...]:
    """Import a submission in a worker of its own, for what it has compiled.

    No GPU is needed, whatever the request says: extensions are compiled for a worker whose device
    is another process, and on the simulator that is the same one.

    Args:
        request: Whose submission; its cases are not run.
        on_progress: Told of each build that begins.

    Returns:
        The folders of the builds in the cache, those that a compiler refuses among them. Why an
        import fails is the evaluation's to say.

    Raises:
        Exception: What `evaluate` raises, where nothing can be evaluated at all.
    """
    settings = settings_for(request)

    def on_build(event: BuildEvent) -> None:
        if event.entry is None and not event.refusal:
            on_progress(Progress("building", event.name))

    with contextlib.ExitStack() as stack:
        try:
            worker = stack.enter_context(DeviceWorker(settings, request.deadlines, on_build))
        except WorkerFailure:
            return ()
        with contextlib.suppress(WorkerFailure):
            worker.request("import")
        return worker.build_folders
