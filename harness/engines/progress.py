"""What evaluations are at, while they are: in place on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import AMISS, CaseReport
from harness.system.escape import one_line
from harness.system.output import say

# Between two lines about one evaluation, where nothing happens that is worth one of its own.
_QUIET_SECONDS = 30.0


class ProgressLines:
    """Tells of several evaluations at a time.

    Args:
        out: Where text goes. What is no terminal gets lines, so that who reads them later, or when
            the run was broken off, knows how far it came; a terminal gets one line on standard
            error, in place of the last one.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._under_way: dict[str, _Evaluation] = {}

    def follow(self, request: Request) -> OnProgress:
        """Gives what is told of a request's progress, from any thread."""
        evaluation = _Evaluation(request.title)

        def tell(progress: Progress) -> None:
            with self._lock:
                self._under_way.setdefault(request.title, evaluation)
                is_news = evaluation.add(progress)
                if not self._out.isatty():
                    if is_news:
                        say(f"... {evaluation.line}", self._out)
                elif sys.stderr.isatty():
                    print(f"\r\033[K{evaluation.state}\r", end="", file=sys.stderr)

        return tell

    def ended(self, request: Request) -> None:
        """A request's report is there."""
        with self._lock:
            self._under_way.pop(request.title, None)

    def broken_off(self) -> Iterator[str]:
        """A line for each evaluation that has begun and not ended: what is known of it."""
        with self._lock:
            for evaluation in self._under_way.values():
                yield f"... {evaluation.state}; broken off"


class _Evaluation:
    """What is known of one evaluation."""

    def __init__(self, title: str) -> None:
        self.title = one_line(title)
        self._doing = "importing"
        self._cases = 0
        self._done = 0
        self._is_searching = False
        self._wrong: list[CaseReport] = []
        self._last_told = time.monotonic()
        self.line = ""

    @property
    def state(self) -> str:
        """In a line."""
        if not self._cases:
            return f"{self.title}: {self._doing}"
        done = f"{self.title}: {self._done} of {self._cases} cases done"
        if self._is_searching:
            return f"{done}; searching for more"
        if not self._wrong:
            return done
        first = self._wrong[0]
        told = one_line(f"{first.id}: {first.message}")
        return f"{done}, {len(self._wrong)} not right, the first {told}"

    def add(self, progress: Progress) -> bool:
        """Take note; answers whether there is a `line` worth telling."""
        known = len(self._wrong)
        if progress.event == "started":
            # Perhaps not for the first time: another machine may have begun, and vanished.
            self._done, self._wrong = 0, []
        elif progress.event == "building":
            self._doing = one_line(f"building {progress.name}")
        elif progress.event == "imported":
            self._cases = progress.cases
        elif progress.event == "searching":
            self._is_searching = True
        elif progress.case:
            self._done += 1
            if progress.case.verdict in AMISS:
                self._wrong.append(progress.case)
        now = time.monotonic()
        is_news = (
            progress.event in ("building", "searching")
            or (known != len(self._wrong) == 1 and self._done < self._cases)
            or now - self._last_told > _QUIET_SECONDS
        )
        if is_news:
            self._last_told, self.line = now, self.state
        return is_news
