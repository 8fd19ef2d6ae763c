"""Judgements in a thread of their own, so that a worker can make its next call meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import ParamSpec, Self

from harness.judging import verdict
from harness.judging.conversation import StepFault
from harness.system.futures import complete_from

_Arguments = ParamSpec("_Arguments")


class Aside:
    """Context manager that runs judgements one at a time, in the order in which they are started.

    The reference bounds the sizes of all outputs. The deadline is for outputs whose judgement takes
    long for another reason.

    Args:
        seconds: Deadline of each judgement, from the moment when its result is waited for.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._judged: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What the call before a failing one showed belongs to the report.
        wait([self._judged] if self._judged else [], self._seconds)

    def start(
        self,
        judge: Callable[_Arguments, None],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> None:
        """Wait for the judgement under way, and start the next one; raises what `finish` raises."""
        self.finish()
        judged: Future[None] = Future()

        def run() -> None:
            complete_from(judged, lambda: judge(*arguments, **named))

        # A judgement beyond its deadline cannot be stopped. Nothing waits for this thread, not even
        # the end of the process.
        Thread(target=run, name="judge", daemon=True).start()
        self._judged = judged

    def finish(self) -> None:
        """Wait for the judgement under way, if there is one.

        Raises:
            StepFault: The judgement took longer than the deadline.
            Exception: The judgement raised it.
        """
        judged, self._judged = self._judged, None
        if judged is None:
            return
        wait([judged], self._seconds)
        if not judged.done():
            message = f"the judgement of its outputs took more than {self._seconds:g} seconds"
            raise StepFault(verdict.Stop("error", message))
        judged.result()
