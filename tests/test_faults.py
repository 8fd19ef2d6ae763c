"""The submissions of tests/faults/, each of which breaks its process or device in its own way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT, Outcome, harness

FOLDER = ROOT / "tests" / "faults"

ERROR = "error: own configuration in error: "
LATE = f"{ERROR}no answer within 6 s while running forward; killed; --step-seconds allows more"
# The rest of the line that the command prints for each file.
LINES = {
    "abort_in_forward": ERROR + "the worker was killed by SIGABRT while running forward",
    "close_descriptors": ERROR
    + "the worker exited with status 1 while running forward: the connection",
    "exit_at_import": "error: the worker exited with status 0 while importing the submission",
    "honest": "passed: ",
    "illegal_address": (
        "failed: own configuration failed: memcheck: 4-byte store through an address that is not "
        "device"
    ),
    "interrupt_in_forward": ERROR + "KeyboardInterrupt: (interrupt_in_forward.py:8, in forward)",
    "kill_itself": ERROR + "the worker was killed by SIGKILL while running forward",
    "loop_in_cpp": LATE,
    "loop_in_kernel": LATE,
    "loop_in_python": LATE,
    "sys_exit_in_forward": ERROR + "SystemExit: 0 (sys_exit_in_forward.py:10, in forward)",
    "takes_device_memory": ERROR + "OutOfMemoryError: CUDA out of memory. Tried to allocate",
    "takes_host_memory": ERROR + "RuntimeError: [enforce fail at alloc_cpu.cpp",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check` on all files of tests/faults, one of which is right."""
    files = sorted(FOLDER.glob("*.py"))
    options = ("--reference", FOLDER / "reference", "--grid", "own", "--device", "simulator")
    deadline = ("--step-seconds", "6")
    folder = tmp_path_factory.mktemp("faults")
    return harness("check", *files, *options, *deadline, folder=folder)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LINES)
def test_the_verdict_names_what_happened(outcome: Outcome, name: str) -> None:
    """The output line of each file says what happened to its process; the right file passes."""
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert any(line.startswith(f"{name} on double: {LINES[name]}") for line in lines), outcome.out


def test_every_file_has_an_expectation() -> None:
    """Every file of tests/faults has an expected line of output in this module."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(LINES)


@pytest.mark.thorough
def test_nothing_of_the_harness_breaks(outcome: Outcome) -> None:
    """The output has no traceback of the harness, and the status is 1, as not all passed."""
    assert outcome.status == 1
    assert outcome.err == ""
    assert "harness/" not in outcome.out.replace(str(FOLDER), "")


@pytest.mark.thorough
def test_no_process_is_left(outcome: Outcome) -> None:
    """No process of a submission with an endless loop outlives `harness check`."""
    assert outcome.status == 1
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:  # the process has ended meanwhile
            continue
        if str(FOLDER / "loop_in_").encode() in command:
            left.append(command)
    assert left == []
