"""Output of the progress of evaluations: on a terminal one line that is overwritten, else a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

from harness.evaluate import OnProgress, Progress, Request
from harness.records.report import AMISS, CaseReport
from harness.system.escape import cut, one_line
from harness.system.output import say

# Seconds between two lines about one evaluation without news.
_QUIET_SECONDS = 30.0


class ProgressLines:
    """Prints the progress of several evaluations that run at a time.

    Args:
        out: The output of the command. A file or pipe gets a line for each important event, so that
            a log shows how far an interrupted run came. If the output is a terminal, standard error
            shows one line that is overwritten.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._under_way: dict[str, _Evaluation] = {}

    def follow(self, request: Request, version: str = "") -> OnProgress:
        """Return a callback that prints a request's progress; any thread may call it.

        Args:
            request: The request.
            version: Name of the submission's version, if there are several.
        """
        title = f"{request.title}, {version}" if version else request.title
        evaluation = _Evaluation(title)

        def tell(progress: Progress) -> None:
            with self._lock:
                self._under_way.setdefault(title, evaluation)
                is_news = evaluation.add(progress)
                if not self._out.isatty():
                    if is_news:
                        say(f"... {evaluation.line}", self._out)
                elif sys.stderr.isatty():
                    print(f"\r\033[K{evaluation.state}\r", end="", file=sys.stderr)

        return tell

    def ended(self, request: Request) -> None:
        """Stop showing a request, because its report is finished."""
        with self._lock:
            self._under_way.pop(request.title, None)

    def broken_off(self) -> Iterator[str]:
        """Yield a line on the progress of each evaluation that was interrupted."""
        with self._lock:
            for evaluation in self._under_way.values():
                yield f"... {evaluation.state}; interrupted"


class _Evaluation:
    """The progress of one evaluation, and its description for users."""

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
        """The state in one line, with the message of the first case that did not pass."""
        first = f", the first in case {self._first_wrong}" if self._wrong else ""
        return f"{self._counts}{first}"

    @property
    def _counts(self) -> str:
        if not self._cases:
            return f"{self.title}: {self._doing}"
        done = f"{self.title}: {self._done} of {self._cases} cases done"
        if self._is_searching:
            return f"{done}; searching for more"
        return f"{done}, {len(self._wrong)} did not pass" if self._wrong else done

    @property
    def _first_wrong(self) -> str:
        first = self._wrong[0]
        return cut(one_line(f"{first.id}: {first.message}"))

    def add(self, progress: Progress) -> bool:
        """Record progress, and return whether a log should get a line about it.

        If so, the line is stored in `line`.
        """
        known = len(self._wrong)
        if progress.event == "started":
            # An evaluation can start again: on a cluster, the first machine may have vanished.
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
        is_first_wrong = known != len(self._wrong) == 1
        # A log gets a line for a build, for a search, for the first wrong case, and after a long
        # silence. One line for each case would hide these.
        is_news = (
            progress.event in ("building", "searching")
            or (is_first_wrong and self._done < self._cases)
            or now - self._last_told > _QUIET_SECONDS
        )
        if is_news:
            # A log has the message of the first wrong case once.
            self._last_told, self.line = now, self.state if is_first_wrong else self._counts
        return is_news
