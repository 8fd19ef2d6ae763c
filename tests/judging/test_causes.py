"""Causes and consequences among the findings of a case."""

from __future__ import annotations

import pytest

from harness.finding import Finding
from harness.judging.causes import causes_first, counted, is_late, parted, with_used_values

LATE = Finding("racecheck", "fill: runs on a stream that the caller's stream does not wait for")
WORK = Finding("own work", "none of its own kernels was launched")


def in_kernel(check: str, message: str, line: int, severity: str = "error") -> Finding:
    """Return a finding of a check in the kernel `sum`, at a line of the submission."""
    return Finding(check, message, "sum", "/a/mine.py", line, severity=severity)  # type: ignore[arg-type]


RACE = in_kernel("racecheck", "4-byte store at mine.py:12 races with the load at mine.py:17 by", 12)
OUTSIDE = in_kernel("memcheck", "4-byte store past the end", 17)


def test_late_work_stands_first() -> None:
    """Findings about work that nothing waits for come first, then findings in kernels.

    All other findings come last.
    """
    assert causes_first([WORK, RACE, OUTSIDE, LATE]) == [LATE, RACE, OUTSIDE, WORK]
    assert is_late([WORK, LATE])
    assert not is_late([WORK, RACE])


@pytest.mark.parametrize(
    ("cause", "line", "follows"), [(RACE, 17, True), (RACE, 1, False), (LATE, 1, True)]
)
def test_race_explains_reads_of_unwritten_memory(cause: Finding, line: int, follows: bool) -> None:
    """A finding about late work explains every initcheck finding of the call.

    A race explains the initcheck findings at the line that its message names.
    """
    read = in_kernel("initcheck", "4-byte load of memory that nothing wrote", line)
    expected = ([cause, OUTSIDE], [read]) if follows else ([cause, read, OUTSIDE], [])
    assert parted([cause, read, OUTSIDE]) == expected


def test_used_value_that_is_undefined_is_an_error() -> None:
    """Warnings of synccheck, but not of racecheck, become errors in a case with wrong numbers."""
    shuffle = in_kernel("synccheck", "takes an undefined value from lane 20", 3, "warning")
    race = in_kernel("racecheck", "no __syncwarp() between them", 4, "warning")
    blamed, other = with_used_values([shuffle, race])
    assert (blamed.severity, other.severity) == ("error", "warning")


@pytest.mark.parametrize(
    ("outputs", "findings", "words"),
    [
        (7, 2, "this also explains 7 wrong outputs and 2 other findings, not listed here"),
        (1, 0, "this also explains 1 wrong output, not listed here"),
        (0, 0, ""),
    ],
)
def test_consequences_are_counted(outputs: int, findings: int, words: str) -> None:
    """The wrong outputs and findings that a finding explains are counted in one line."""
    assert counted(outputs, findings) == words
