"""A memory of failed builds within one run of the harness.

Some failures are temporary: a header may get installed, or the deadline may be raised. The cache
does not store them with finished builds. But a submission that is checked against three problems
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
    """The failed builds of one run.

    Args:
        root: Folder of the cache.
        run: A unique name of the run; empty to remember nothing.
    """

    def __init__(self, root: Path, run: str) -> None:
        self._all = root / "failures"
        self._run = run

    def recall(self, key: str) -> None:
        """Raise the error of an earlier build of `key`; do nothing if none failed.

        Raises:
            CompileError: The extension did not compile.
            CompileTimeout: The deadline passed.
        """
        try:
            kind, text = json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return
        raise CompileTimeout(text) if kind == "timeout" else CompileError(text)

    def keep(self, key: str, error: CompileError | CompileTimeout) -> None:
        """Store a failure.

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
