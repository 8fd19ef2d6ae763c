"""`MemoryBudget`, which shares a GPU's memory between processes; the tests need no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.gpu.lease import MemoryBudget
from harness.system import interpreter

HOLDER = """
import sys
from pathlib import Path
from harness.gpu.lease import MemoryBudget
with MemoryBudget("gpu", 100, Path(sys.argv[1])).share(int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path, size: int) -> subprocess.Popen[str]:
    """Start a process that takes a share of a `MemoryBudget`, and then prints `held`.

    The process holds the share until its standard input ends.
    """
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(size)],
        env=interpreter.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def has_it(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == "held\n"


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.mark.thorough
def test_as_many_as_fit_at_a_time(tmp_path: Path) -> None:
    """Several processes hold shares of the memory if these fit together; a further one waits."""
    first, second = holder(tmp_path, 40), holder(tmp_path, 50)
    assert has_it(first)
    assert has_it(second)
    account = MemoryBudget("gpu", 100, tmp_path)
    assert account.held == 90
    third = holder(tmp_path, 30)
    assert account.held == 90
    end(first)
    assert has_it(third)
    assert account.held == 80
    end(second)
    end(third)
    assert account.held == 0


@pytest.mark.thorough
@pytest.mark.parametrize("size", [60, 1000])
def test_share_of_a_killed_process_is_free(tmp_path: Path, size: int) -> None:
    """The share of memory of a killed process is free again.

    A share larger than the whole memory is granted when no other share is held.
    """
    first = holder(tmp_path, 90)
    assert has_it(first)
    first.kill()
    first.wait()
    second = holder(tmp_path, size)
    assert has_it(second)
    end(second)


@pytest.mark.thorough
def test_broken_account_is_begun_anew(tmp_path: Path) -> None:
    """The file that records the held shares is replaced if a power failure has damaged it."""
    first = holder(tmp_path, 100)
    assert has_it(first)
    end(first)
    (account,) = tmp_path.iterdir()
    account.write_text('{"12 34": 5')
    second = holder(tmp_path, 100)
    assert has_it(second)
    end(second)
