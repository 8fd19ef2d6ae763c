"""Find reference files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.problem import Problem, ProblemError, load


def load_references(paths: Iterable[Path]) -> tuple[Problem, ...]:
    """Load reference files, and those in folders.

    Raises:
        ProblemError: A file is no reference, a folder has none, or two have the same name.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.glob("*.py") if not p.name.startswith("_"))
        if path.is_dir() and not inside:
            raise ProblemError(f"{path}: no reference (*.py) in this folder")
        files += inside if path.is_dir() else [path]
    problems: dict[str, Problem] = {}
    for file in dict.fromkeys(file.resolve() for file in files):
        problem = load(file)
        if problem.name in problems:
            twin = problems[problem.name].path
            raise ProblemError(f"{file}: has the same name as {twin}; rename one of them")
        problems[problem.name] = problem
    return tuple(problems.values())
