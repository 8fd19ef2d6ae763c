"""Search for reference files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.problems.problem import Problem, ProblemError, load
from harness.system.errors import UsageError


def reference_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the absolute path of each reference file in `paths`, or in a folder of `paths`.

    Raises:
        ProblemError: A folder contains no reference.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.glob("*.py") if not p.name.startswith("_"))
        if path.is_dir() and not inside:
            raise ProblemError(f"{path}: no reference (*.py) in this folder")
        files += inside if path.is_dir() else [path]
    return tuple(dict.fromkeys(file.resolve() for file in files))


def load_references(paths: Iterable[Path]) -> tuple[Problem, ...]:
    """Load each reference file in `paths`, or in a folder of `paths`.

    Raises:
        ProblemError: A file is not a reference, a folder contains no reference, or two references
            have the same name.
    """
    problems: dict[str, Problem] = {}
    for file in reference_files(paths):
        problem = load(file)
        if problem.name in problems:
            twin = problems[problem.name].path
            raise ProblemError(f"{file}: has the same name as {twin}; rename one of them")
        problems[problem.name] = problem
    return tuple(problems.values())


def named(problems: Sequence[Problem], name: str | None) -> tuple[Problem, ...]:
    """Return a tuple of the problem called `name`, or of all problems if `name` is None.

    Raises:
        UsageError: No problem has that name.
    """
    if name is None:
        return tuple(problems)
    chosen = tuple(problem for problem in problems if problem.name == name)
    if not chosen:
        names = ", ".join(problem.name for problem in problems)
        raise UsageError(f"--problem {name}: no such reference; the references are {names}")
    return chosen
