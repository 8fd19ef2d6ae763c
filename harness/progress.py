"""What one evaluation is at, on a terminal."""

from __future__ import annotations

import sys

from harness.evaluate import Progress, Request


class ProgressLine:
    """Show on a terminal what one evaluation is at."""

    def __init__(self, request: Request) -> None:
        self._title = f"{request.submission.stem} on {request.problem.stem}"
        self._done = 0

    def __call__(self, progress: Progress) -> None:
        """Say it in place of what was said last; nothing where nobody looks on."""
        if not sys.stderr.isatty():
            return
        self._done += progress.event == "case"
        doing = f"building {progress.name}" if progress.event == "building" else "running cases"
        print(f"\r\033[K{self._title}: {doing}, {self._done} done\r", end="", file=sys.stderr)
