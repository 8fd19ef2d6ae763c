"""Pytest's settings for this suite: what it collects, the order, and shared fixtures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.sandbox import layers

HERE = Path(__file__).resolve().parent

# The tests check these submissions through the harness. Pytest must not collect them itself.
collect_ignore = [
    "adversarial/cheats",
    "adversarial/honest",
    "adversarial/naive.py",
    "defects",
    "faults",
    "hostile",
    "kernels",
    "sandbox/attacks",
    "slow",
]

# These files take minutes each, the others seconds. A long file that started last would run alone
# at the end, while the other processes had nothing to do.
SLOWEST_FIRST = (
    # Its traces take ten times as long in a process that has already run the other tests.
    "problems/rounding/test_propagate.py",
    "adversarial/test_corpus.py",
    "test_other_reference.py",
    "test_defects.py",
    "test_dask.py",
    "test_client.py",
    "gate/test_command.py",
    "compiler/test_builder.py",
    "test_verdicts.py",
    "test_kernels.py",
    "test_references.py",
    "judging/test_general.py",
    "test_killed.py",
    "test_slow.py",
    "test_whole_tiles.py",
    "test_faults.py",
    "test_hostile.py",
    "judging/test_integrity.py",
    "test_pytest_plugin.py",
    "test_cli.py",
    "judging/test_diagnose.py",
)

# Tests run side by side on small tensors, so more threads would only wait for each other.
torch.set_num_threads(1)


def pytest_configure() -> None:
    """Bind each process of pytest-xdist to one processor.

    On one processor, the harness evaluates submissions within the pytest process. On several, it
    would start evaluator processes, which would each import torch and wait for the other tests.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER")
    if name:
        processors = sorted(os.sched_getaffinity(0))
        own = processors[int(name.removeprefix("gw")) % len(processors)]
        os.sched_setaffinity(0, {own})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests, so that the files of `SLOWEST_FIRST` come first."""
    slow = [HERE / name for name in SLOWEST_FIRST]
    items.sort(key=lambda item: slow.index(item.path) if item.path in slow else len(slow))


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Skip the test, with the reason, if a layer of the sandbox is missing."""
    reason = layers.why_open()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def without_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put a `bwrap` on the PATH that fails, as bubblewrap does where AppArmor forbids namespaces.

    Yields:
        The path of the failing program.
    """
    program = tmp_path_factory.mktemp("bin") / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        yield program
