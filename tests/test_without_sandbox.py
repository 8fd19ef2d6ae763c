"""Machines on which bubblewrap is missing or does not work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, harness, pytest_

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = ROOT / "tests" / "faults" / "honest.py"


def test_missing_sandbox_is_one_line(without_sandbox: Path, tmp_path: Path) -> None:
    """Both `harness check` and pytest report a missing sandbox once, with the reason and a remedy.

    The submission is checked nevertheless.
    """
    note = (
        f"submissions run without a sandbox: {without_sandbox} is not allowed to create "
        "namespaces here (setting up uid map: Permission denied); run: sysctl -w "
    )
    done = harness("check", HONEST, "--reference", REFERENCE, folder=tmp_path)
    assert done.out.startswith(f"note: {note}")
    assert done.out.count(note) == 1
    assert "honest on double: passed" in done.out
    done = pytest_(HONEST, "--reference", REFERENCE, "--collect-only", folder=tmp_path)
    assert f"\nharness: {note}" in done.out
    assert done.out.count(note) == 1


def test_machine_readable_output_stays_so(without_sandbox: Path, tmp_path: Path) -> None:
    """The note on a missing sandbox goes to standard error if `--json -` writes reports."""
    nothing = tmp_path / "notes.py"
    nothing.write_text("")
    done = harness("check", nothing, "--reference", REFERENCE, "--json", "-", folder=tmp_path)
    assert done.out == ""
    assert str(without_sandbox) in done.err


def test_untrusted_files_are_refused_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--untrusted` without a sandbox runs nothing, and names the sandbox's missing layers."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = harness("check", HONEST, "--untrusted", "--reference", REFERENCE, folder=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "network (can connect to this machine)" in done.err
    assert "limits (can start any number of processes)" in done.err
    assert done.err.endswith("bubblewrap is not installed; run: apt-get install bubblewrap\n")
    for command in (("profile", HONEST), ("gate", HONEST, "--base", "HEAD")):
        other = harness(*command, "--untrusted", "--reference", REFERENCE, folder=tmp_path)
        assert (other.status, other.out) == (2, "")
        assert "network (can connect to this machine)" in other.err
    # The submission is copied, since pytest would read the settings of the folder where it lies.
    shutil.copy(HONEST, tmp_path)
    refused = pytest_("--untrusted", "--reference", REFERENCE, HONEST.name, folder=tmp_path)
    assert refused.status == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --untrusted: these layers of the sandbox do not hold here: " in refused.err
