"""Hints for pytest sessions without a reference, in which plugin.py registers this module.

Such sessions are mostly in repositories that do not use the harness. So this module imports no
other module of the harness. It reads a file only if the user named the file or if pytest found no
test. Its hints are only about files that contain a submission.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

_SUBMISSION = re.compile(rb"^(class\s+ModelNew\b|ModelNew\s*=)", re.MULTILINE)
_TEST = re.compile(rb"^[ \t\f]*(async\s+)?(def\s+test|class\s+Test)", re.MULTILINE)
_GIVE = (
    "to check it, give --reference PATH, or set harness_reference = [PATH] under "
    "[tool.pytest.ini_options]"
)

_SEEN = pytest.StashKey[list[Path]]()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """If the user named a submission, collect an error; pytest itself would import it as a test."""
    collectors = yield
    if collectors and parent.session.isinitpath(file_path) and _is_submission(file_path):
        return [_Unchecked.from_parent(parent, path=file_path)]
    if not collectors and file_path.suffix == ".py":
        parent.config.stash.setdefault(_SEEN, []).append(file_path)
    return collectors


class _Unchecked(pytest.File):
    """The collector of a submission that the user named, in a session without a reference."""

    def collect(self) -> Iterable[pytest.Item]:
        """Raise an error that says how to give a reference.

        Raises:
            pytest.Collector.CollectError: Always.
        """
        raise self.CollectError(f"{self.path} defines ModelNew: {_GIVE}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """If pytest found a submission but no tests, print how to give a reference."""
    if exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED:
        return
    first = next(filter(_is_submission, config.stash.get(_SEEN, ())), None)
    if first is not None:
        terminalreporter.write_line(f"harness: {first} defines ModelNew: {_GIVE}")


def is_excluded_by_name(path: Path) -> bool:
    """Return whether a file's name shows that the file is not a submission, such as `test_*`."""
    return path.name.startswith(("test_", "conftest.", "_"))


def _is_submission(path: Path) -> bool:
    """Return whether a file defines `ModelNew` and no tests; False if it cannot be read."""
    if is_excluded_by_name(path):
        return False
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return bool(_SUBMISSION.search(content)) and not _TEST.search(content)
