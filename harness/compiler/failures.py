"""A store of failed builds, for the duration of one command.

Some failures are temporary: a header may get installed, or the deadline may be raised. So the build
cache does not store them. Without this store, a submission that is checked against three problems
would wait for the same failure three times, possibly in three processes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.compiler.cache import STALE_SECONDS, remove
from harness.compiler.compiler import CompileTimeout
from harness.compiler.ninja import CompileError
from harness.system.files import write_whole


class Failures:
    """The failed builds of one command, stored on disk for all of its processes.

    Args:
        root: Folder of the build cache.
        run: A unique name of the command; empty to store nothing.
    """

    def __init__(self, root: Path, run: str) -> None:
        self._all = root / "failures"
        self._run = run

    def recall(self, key: str) -> None:
        """Raise the stored error of an earlier build of `key`; do nothing if no error is stored.

        Raises:
            CompileError: The earlier build did not compile.
            CompileTimeout: The earlier build exceeded its deadline.
        """
        try:
            kind, text = json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return
        raise CompileTimeout(text) if kind == "timeout" else CompileError(text)

    def keep(self, key: str, error: CompileError | CompileTimeout) -> None:
        """Store the error of the build of `key`.

        Raises:
            OSError: The failure cannot be written.
        """
        if not self._run:
            return
        self._sweep()
        told = (
            ("error", error.output) if isinstance(error, CompileError) else ("timeout", str(error))
        )
        write_whole(self._path(key), json.dumps(told))

    def _path(self, key: str) -> Path:
        return self._all / self._run / f"{key}.json"

    def _sweep(self) -> None:
        for folder in self._all.glob("*"):
            if time.time() - folder.stat().st_mtime > STALE_SECONDS:
                remove(folder)
