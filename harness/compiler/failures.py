"""Remember, within one run of the harness, which builds have failed.

Some failures are not for ever: a header may get installed, a deadline be longer. They are not kept
with finished builds. But a submission that is checked against three problems would wait for the
same failure three times, and its evaluations may be in three processes.
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
    """What failed in one run.

    Args:
        root: Where builds are kept.
        run: The run's name, which nobody else has; empty for one that remembers nothing.
    """

    def __init__(self, root: Path, run: str) -> None:
        self._all = root / "failures"
        self._run = run

    def recall(self, key: str) -> None:
        """Fail as the build of `key` did before; nothing where it did not.

        Raises:
            CompileError: it did not compile.
            CompileTimeout: it took too long.
        """
        try:
            kind, text = json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return
        raise CompileTimeout(text) if kind == "timeout" else CompileError(text)

    def keep(self, key: str, error: CompileError | CompileTimeout) -> None:
        """Remember a failure.

        Raises:
            OSError: it cannot be written.
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
