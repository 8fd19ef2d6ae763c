"""Reports of finished evaluations, stored so that a run can resume after an interruption.

Each report is one file. Its name is a digest of everything that decides the result: the contents of
submission and reference, the options, the compilers, torch, the GPU, and the harness itself. So
another evaluation would produce the stored report again, apart from its random values. The report
states the seed of its random values, which replays them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from harness.compiler.cache import digest, file_digest
from harness.compiler.flags import torch_version
from harness.compiler.toolchain import ToolchainError, find_toolchain
from harness.evaluate import Request
from harness.gpu.release import cuda_here
from harness.problems.grid import Case
from harness.records.report import Report, Verdict
from harness.system import codec
from harness.system.files import write_whole
from harness.system.interpreter import PACKAGE
from harness.version import __version__
from harness.worker.supervisor import Deadlines

FOLDER = Path(".harness") / "finished"
"""Folder of the stored reports, relative to the folder from which pytest or a command is called."""

CONCLUSIVE: tuple[Verdict, ...] = ("passed", "agrees", "failed", "declined", "unsupported")
"""Verdicts of reports that are stored and reused.

An `error` may come from the machine: a deadline or a full disk.
"""

_OLD_SECONDS = 7 * 24 * 3600

# Suffixes of files beside the submission that it may build from, through load() or #include.
_SOURCES = frozenset(
    (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".hxx", ".inc", ".inl", ".ptx")
)


class ReportCache:
    """A folder with the reports of evaluations that ended in this run or in earlier ones."""

    def __init__(self, folder: Path, gpu: str) -> None:
        """Use the reports in a folder; `gpu` is the name of the GPU, or empty on the simulator."""
        self._folder = folder
        self._gpu = gpu

    def keep(self, request: Request, report: Report) -> None:
        """Store a request's report, unless the verdict is `error` or `not run`.

        Raises:
            OSError: The report cannot be written.
        """
        if report.verdict in CONCLUSIVE:
            self._sweep()
            key = self._key(request, report.content_hash, report.problem_hash)
            write_whole(self._folder / f"{key}.json", report.to_json() + "\n")

    def find(self, request: Request, seed: int | None = None) -> Report | None:
        """Return the stored report that the request would produce again, or None if there is none.

        Args:
            request: The request; its seed may differ from the stored report's seed.
            seed: The seed that the stored report must have, or None for any seed.
        """
        try:
            hashes = file_digest(request.submission), file_digest(request.problem)
            path = self._folder / f"{self._key(request, *hashes)}.json"
            made = path.stat().st_mtime
            report = Report.from_json(path.read_text())
        except (OSError, ValueError):
            return None
        # The content is checked as well as the name, because anyone can write these files.
        fits = (report.content_hash, report.problem_hash) == hashes
        fits = fits and report.verdict in CONCLUSIVE and seed in (None, report.seed)
        # The key does not cover the files beside the submission that a build may include. Instead,
        # a newer source file there invalidates the report.
        folders = (request.submission.parent, *request.readable)
        changed = any(any(_changed_since(made, folder)) for folder in folders)
        return report if fits and not changed else None

    def _key(self, request: Request, content_hash: str, problem_hash: str) -> str:
        # These fields decide the random values, the speed, and how slow an error is. They are not
        # in the key, because they do not decide whether a submission is right.
        same = replace(request, seed=0, cores=1, cache=Path(), deadlines=Deadlines(), run="")
        same = replace(same, cases=_undrawn(request.cases))
        plain = codec.encode(same)
        return digest((plain, content_hash, problem_hash, *self._surroundings))

    @cached_property
    def _surroundings(self) -> tuple[str, ...]:
        """Everything that decides a report, apart from the request.

        This is the GPU, the versions of torch and the compilers, and the harness's version and
        digest.
        """
        return (self._gpu, torch_version(), __version__, harness_digest(), *_compilers(self._gpu))

    def _sweep(self) -> None:
        """Remove stored reports that are more than seven days old."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _OLD_SECONDS:
                    path.unlink()


def _undrawn(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases whose sizes are not random, each with its seed replaced by 0."""
    return tuple(replace(case, seed=0) for case in cases if case.label != "random")


def _compilers(gpu: str) -> tuple[str, ...]:
    try:
        toolchain = find_toolchain(cuda_here() if gpu else None)
    except ToolchainError:
        # Nothing can be evaluated without a toolchain, and this is reported before the first
        # evaluation.
        return ()
    return (toolchain.cuda.version, toolchain.host.version)


def harness_digest() -> str:
    """Return a digest of the contents of the harness's own source files.

    The version alone does not suffice: during development, the files change and the version does
    not.
    """
    files = sorted(path for path in PACKAGE.rglob("*") if _is_own(path))
    return digest(f"{path.relative_to(PACKAGE)} {file_digest(path)}" for path in files)


def _is_own(path: Path) -> bool:
    return path.is_file() and path.suffix in {".py", *_SOURCES}


def _changed_since(moment: float, folder: Path) -> Iterator[Path]:
    """Yield source files below `folder`, or the file `folder` itself, changed after `moment`."""
    if folder.is_file() and folder.stat().st_mtime > moment:
        yield folder
    for here, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in names:
            path = Path(here) / name
            with contextlib.suppress(OSError):
                if path.suffix in _SOURCES and path.stat().st_mtime > moment:
                    yield path
