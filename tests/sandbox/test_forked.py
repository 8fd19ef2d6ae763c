"""Programs that are forked into a sandbox are where one would be that began there."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.sandbox import layers
from harness.sandbox.confined import Confinement
from harness.sandbox.fork_server import Program
from harness.sandbox.forked import CannotFork, Forked, ForkServer
from tests.support import ROOT, run

WHY_NOT = layers.why_open()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "unused")

# What the forks run: a statement that is its argument.
PROGRAM = "import sys\n\ndef main() -> None:\n    exec(sys.argv[1])\n"

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = ROOT / "tests" / "faults" / "honest.py"

# What the kernel is told: that setns fails with EPERM, on x86-64, and everything else is allowed.
WITHOUT_SETNS = """
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 308), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class Ended:
    """How a fork ended, and what it printed."""

    how: str
    text: str


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """One for `PROGRAM`."""
    (tmp_path / "program_of_test.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    with contextlib.closing(ForkServer(Program((), "program_of_test"))) as started:
        yield started


def fork(server: ForkServer, statement: str, title: str = "fork") -> Ended:
    """Run a statement in a fork."""
    with tempfile.TemporaryFile() as output:
        process = Forked(server, [statement], title, Confinement(), output, [output.fileno()])
        try:
            assert process.wait(60)
            how = process.how_it_ended
        finally:
            process.end()
        output.seek(0)
        return Ended(how, output.read().decode())


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("pass", "exited with status 0"),
        ("raise SystemExit(3)", "exited with status 3"),
        ("1 / 0", "exited with status 1"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os.abort()", "killed by SIGABRT"),
    ],
)
def test_end_is_told(server: ForkServer, statement: str, how: str) -> None:
    """Statuses and signals are those of the program, not of what stands around it."""
    assert fork(server, statement).how == how


def test_traceback_is_in_the_output(server: ForkServer) -> None:
    """An exception is shown as it is by a program of its own."""
    assert "ZeroDivisionError: division by zero" in fork(server, "1 / 0").text


def test_fork_has_nothing_of_the_servers(server: ForkServer) -> None:
    """Descriptors, environment, folder and name are its own; there is no socket to the server."""
    found = fork(
        server,
        "import os; print(sorted(os.listdir('/proc/self/fd'))); print(os.getcwd())\n"
        "print(open('/proc/self/comm').read().strip())\n"
        "print('SECRET_TOKEN' in open('/proc/self/environ').read())",
        title="a_name_that_is_long",
    )
    # 3 is what it was given, 4 the folder that is being listed; a name has 15 characters.
    assert found.text == "['0', '1', '2', '3', '4']\n/home/sandbox\na_name_that_is_\nFalse\n"


def test_what_a_fork_leaves_behind_is_ended(server: ForkServer) -> None:
    """A child in a session of its own ends with its parent, though nobody has asked for that."""
    statement = "import os, signal\nif os.fork() == 0:\n    os.setsid(); signal.pause()"
    with tempfile.TemporaryFile() as output:
        process = Forked(server, [statement], "leaves_a_child", Confinement(), output, [])
        try:
            assert process.wait(60)
            assert not _processes_named("leaves_a_child")
        finally:
            process.end()


def _processes_named(name: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                found.append(path)
    return found


def test_one_fork_does_not_see_the_other(server: ForkServer) -> None:
    """Neither by process number nor by what was written: each has a sandbox of its own."""
    fork(server, "open('/tmp/left', 'w').write('x'); open('left', 'w').write('x')")
    found = fork(server, "import os; print(os.listdir('/tmp'), os.listdir('.'))")
    assert "left" not in found.text


def test_server_that_has_gone_is_told(server: ForkServer) -> None:
    """Nothing waits for a fork that nobody makes."""
    server.close()
    with tempfile.TemporaryFile() as output, pytest.raises(CannotFork, match="has ended"):
        Forked(server, ["pass"], "fork", Confinement(), output, [])


def test_kernel_that_lets_nobody_enter_costs_only_time(tmp_path: Path) -> None:
    """Where setns is forbidden, submissions begin in their sandbox instead; nothing is said."""
    command = [sys.executable, "-P", "-m", "harness", "check", HONEST, "--reference", REFERENCE]
    done = run([sys.executable, "-c", WITHOUT_SETNS, *map(str, command)], tmp_path)
    assert done.status == 0, done.out + done.err
    assert "honest on double: passed" in done.out
    assert "note: submissions run without" not in done.out
