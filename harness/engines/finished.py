"""Keep each report when it is there, so that a run can go on where another was broken off.

A file for each evaluation, under a digest of everything that decides how it goes: the contents of
submission and reference, what was asked for, compilers, torch, the GPU, and the harness itself. So
a report that is found is one that the evaluation would give again, but for the values it was drawn
from; they are the report's own, and its seed replays them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from harness import __version__
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
from harness.worker.supervisor import Deadlines

FOLDER = Path(".harness") / "finished"
"""Below the folder from which pytest or the command line is called."""

CONCLUSIVE: tuple[Verdict, ...] = ("passed", "agrees", "failed", "declined", "unsupported")
"""What is taken over: an `error` may be the machine's, such as a deadline or a full disk."""

_OLD_SECONDS = 7 * 24 * 3600

# What submissions may build from beside their own text, through load() or #include.
_SOURCES = frozenset(
    (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".hxx", ".inc", ".inl", ".ptx")
)


class Finished:
    """The reports of evaluations that ended, in this run and in earlier ones."""

    def __init__(self, folder: Path, gpu: str) -> None:
        """In a folder, of evaluations on such a GPU; on the simulator its name is empty."""
        self._folder = folder
        self._gpu = gpu

    def keep(self, request: Request, report: Report) -> None:
        """Keep the report of a request.

        Raises:
            OSError: it cannot be written.
        """
        if report.verdict in CONCLUSIVE:
            self._sweep()
            key = self._key(request, report.content_hash, report.problem_hash)
            write_whole(self._folder / f"{key}.json", report.to_json() + "\n")

    def find(self, request: Request, seed: int | None = None) -> Report | None:
        """The report that the request would give again, where there is one that can be read.

        Args:
            request: What is about to be asked; the values may be others.
            seed: None, or the only one that will do.
        """
        try:
            hashes = file_digest(request.submission), file_digest(request.problem)
            path = self._folder / f"{self._key(request, *hashes)}.json"
            made = path.stat().st_mtime
            report = Report.from_json(path.read_text())
        except (OSError, ValueError):
            return None
        # What the name promises is checked too: these files are nobody's secret.
        fits = (report.content_hash, report.problem_hash) == hashes
        fits = fits and report.verdict in CONCLUSIVE and seed in (None, report.seed)
        folders = (request.submission.parent, *request.readable)
        changed = any(any(_changed_since(made, folder)) for folder in folders)
        return report if fits and not changed else None

    def _key(self, request: Request, content_hash: str, problem_hash: str) -> str:
        # These decide with which values it goes, how fast, and what is an error by being too slow.
        same = replace(request, seed=0, cores=1, cache=Path(), deadlines=Deadlines(), run="")
        same = replace(same, cases=_undrawn(request.cases))
        plain = codec.encode(same)
        return digest((plain, content_hash, problem_hash, *self._surroundings))

    @cached_property
    def _surroundings(self) -> tuple[str, ...]:
        """What else decides how an evaluation goes."""
        return (self._gpu, torch_version(), __version__, own_digest(), *_compilers(self._gpu))

    def _sweep(self) -> None:
        """Remove reports that are too old to be taken over."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _OLD_SECONDS:
                    path.unlink()


def _undrawn(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases without what was drawn for this run: their values, and those of random sizes."""
    return tuple(replace(case, seed=0) for case in cases if case.label != "random")


def _compilers(gpu: str) -> tuple[str, ...]:
    try:
        toolchain = find_toolchain(cuda_here() if gpu else None)
    except ToolchainError:
        # Nothing can be evaluated either, which is said before the first evaluation.
        return ()
    return (toolchain.cuda.version, toolchain.host.version)


def own_digest() -> str:
    """Of the harness's own files: while it is worked on, its version stays as it is."""
    files = sorted(path for path in PACKAGE.rglob("*") if _is_own(path))
    return digest(f"{path.relative_to(PACKAGE)} {file_digest(path)}" for path in files)


def _is_own(path: Path) -> bool:
    return path.is_file() and path.suffix in {".py", *_SOURCES}


def _changed_since(moment: float, folder: Path) -> Iterator[Path]:
    """Newer sources in a folder, from which a submission may have been built; or a newer file."""
    if folder.is_file() and folder.stat().st_mtime > moment:
        yield folder
    for here, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in names:
            path = Path(here) / name
            with contextlib.suppress(OSError):
                if path.suffix in _SOURCES and path.stat().st_mtime > moment:
                    yield path
