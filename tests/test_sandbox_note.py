"""What is said where bubblewrap cannot work, and trusted submissions run all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import ROOT, harness, pytest_

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = ROOT / "tests" / "faults" / "honest.py"


@pytest.fixture
def forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bubblewrap that says what Ubuntu's says, where AppArmor forbids its namespaces."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: setting up uid map: Permission denied >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_missing_sandbox_is_one_line(forbidden: Path, tmp_path: Path) -> None:
    """Both front ends say it once, with why and what to do; the submission is checked."""
    note = (
        f"submissions run without a sandbox: {forbidden} may not make namespaces here "
        "(setting up uid map: Permission denied); run: sysctl -w "
    )
    done = harness("check", HONEST, "--reference", REFERENCE, folder=tmp_path)
    assert done.out.startswith(f"note: {note}")
    assert done.out.count(note) == 1
    assert "honest on double: passed" in done.out
    done = pytest_(HONEST, "--reference", REFERENCE, "--collect-only", folder=tmp_path)
    assert f"\nharness: {note}" in done.out
    assert done.out.count(note) == 1


def test_machine_readable_output_stays_so(forbidden: Path, tmp_path: Path) -> None:
    """Where standard output is for reports, the line is on the other one."""
    nothing = tmp_path / "notes.py"
    nothing.write_text("")
    done = harness("check", nothing, "--reference", REFERENCE, "--json", "-", folder=tmp_path)
    assert done.out == ""
    assert str(forbidden) in done.err
