"""Programs in forks of a fork server behave like started programs, with and without a sandbox."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import harness
from harness.sandbox import bubblewrap
from harness.sandbox.confined import Confinement
from harness.sandbox.fork_server import Programs
from harness.sandbox.forked import CannotFork, Forked, ForkServer
from harness.sandbox.limits import Limits
from tests.processes import descendants
from tests.support import ROOT, run

# The program of the forks: it runs the statement in its argument.
PROGRAM = "import sys\n\ndef main() -> None:\n    exec(sys.argv[1])\n"
MODULE = "program_of_test"

REFERENCE = ROOT / "tests" / "faults" / "reference" / "double.py"
HONEST = ROOT / "tests" / "faults" / "honest.py"

# A seccomp filter for x86-64: setns fails with EPERM, and everything else is allowed.
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
    """The end of a fork, such as `exited with status 0`, and the text that it printed."""

    how: str
    text: str


BOTH = pytest.mark.parametrize("place", ["sandbox", "without_sandbox"], indirect=True)
"""Run a test with a sandbox and without one; the values are names of fixtures."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """Set up the fixture `sandbox` or `without_sandbox`, and return its name.

    The test's parameter is this name. Without a parameter it is `sandbox`.
    """
    name: str = getattr(request, "param", "sandbox")
    request.getfixturevalue(name)
    return name


@pytest.fixture
def server(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """Yield a fork server whose forks run `PROGRAM`, with or without a sandbox."""
    assert bool(bubblewrap.usable()) == (place == "sandbox")
    (tmp_path / f"{MODULE}.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    with contextlib.closing(ForkServer(Programs((), (MODULE,)))) as started:
        yield started


def fork(server: ForkServer, statement: str, title: str = "fork") -> Ended:
    """Run a Python statement in a fork of the server, and return how the fork ended."""
    with tempfile.TemporaryFile() as output:
        process = Forked(
            server, MODULE, [statement], title, Confinement(), output, [output.fileno()]
        )
        try:
            assert process.wait(60)
            how = process.how_it_ended
        finally:
            process.end()
        output.seek(0)
        return Ended(how, output.read().decode())


@BOTH
@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("pass", "exited with status 0"),
        ("raise SystemExit(3)", "exited with status 3"),
        ("1 / 0", "exited with status 1"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import os; os.abort()", "was killed by SIGABRT"),
    ],
)
def test_end_is_told(server: ForkServer, statement: str, how: str) -> None:
    """The server reports the exit status or signal of a fork's program, not of its wrapper."""
    assert fork(server, statement).how == how


@BOTH
def test_traceback_is_in_the_output(server: ForkServer) -> None:
    """An exception in a fork prints a traceback, as in a program that was started."""
    assert "ZeroDivisionError: division by zero" in fork(server, "1 / 0").text


def test_fork_has_nothing_of_the_servers(server: ForkServer) -> None:
    """A fork has its own descriptors, environment, folder and name, and no socket of the server."""
    found = fork(
        server,
        "import os; print(sorted(os.listdir('/proc/self/fd'))); print(os.getcwd())\n"
        "print(open('/proc/self/comm').read().strip())\n"
        "print('SECRET_TOKEN' in open('/proc/self/environ').read())",
        title="a_name_that_is_long",
    )
    # 3 is the descriptor that it was given, and 4 the folder that is being listed. A process name
    # has at most 15 characters.
    assert found.text == "['0', '1', '2', '3', '4']\n/home/sandbox\na_name_that_is_\nFalse\n"


@pytest.mark.parametrize("place", ["without_sandbox"], indirect=True)
def test_fork_without_a_sandbox_has_a_scratch_folder(server: ForkServer) -> None:
    """Without a sandbox, each fork has its own scratch folder, which is removed in the end.

    It is the working, home and temporary folder of the fork.
    """
    statement = (
        "import os, tempfile; open('left', 'w')\n"
        "print(os.getcwd(), os.environ['HOME'], tempfile.gettempdir(), os.listdir())"
    )
    texts = [fork(server, statement).text for _ in range(2)]
    folders = [text.split()[:3] for text in texts]
    assert all(len(set(each)) == 1 for each in folders)
    assert folders[0] != folders[1]
    assert all(text.endswith(" ['left']\n") for text in texts)
    assert not any(Path(each[0]).exists() for each in folders)


@BOTH
def test_fork_that_is_killed_at_once_is_gone(server: ForkServer) -> None:
    """A fork that is killed before it reaches its program never runs the program."""
    statement = "import signal; signal.pause()"
    with tempfile.TemporaryFile() as output:
        for _ in range(20):
            process = Forked(server, MODULE, [statement], "is_killed", Confinement(), output, [])
            try:
                process.kill()
                assert process.how_it_ended == "was killed by SIGKILL"
                assert not _processes_named("is_killed")
            finally:
                process.end()


@BOTH
def test_end_of_a_fork_is_seen_at_its_descriptors(server: ForkServer) -> None:
    """When a fork ends, its connections close, since no other process holds its descriptors."""
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as output:
        with theirs:
            process = Forked(
                server, MODULE, ["pass"], "ends", Confinement(), output, [theirs.fileno()]
            )
        try:
            ours.settimeout(60)
            assert ours.recv(1) == b""
        finally:
            process.end()


@BOTH
def test_what_a_fork_takes_too_much_of_ends_it(server: ForkServer) -> None:
    """A fork that exceeds its memory limit is killed, with or without a sandbox."""
    limits = replace(Limits.for_this_machine(), memory_bytes=1 << 28)
    statement = "import signal; taken = b'1' * (1 << 29); signal.pause()"
    with tempfile.TemporaryFile() as output:
        process = Forked(
            server, MODULE, [statement], "takes", Confinement(limits=limits), output, []
        )
        try:
            assert process.wait(60)
            assert process.how_it_ended == "took more than 0.2 GiB of memory and was killed"
        finally:
            process.end()


def test_what_a_fork_leaves_behind_is_ended(server: ForkServer) -> None:
    """A process that a fork has started in another session ends with the fork."""
    statement = "import os, signal\nif os.fork() == 0:\n    os.setsid(); signal.pause()"
    with tempfile.TemporaryFile() as output:
        process = Forked(server, MODULE, [statement], "leaves_a_child", Confinement(), output, [])
        try:
            assert process.wait(60)
            assert not _processes_named("leaves_a_child")
        finally:
            process.end()


def _processes_named(name: str) -> list[Path]:
    """Return the /proc paths of the running processes with this name, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            before, _, after = path.read_text().rpartition(")")
            if before.endswith(f"({name}") and not after.startswith(" Z"):
                found.append(path)
    return found


def test_one_fork_does_not_see_the_other(server: ForkServer) -> None:
    """A fork does not see files that another fork has written; each has its own sandbox."""
    fork(server, "open('/tmp/left', 'w').write('x'); open('left', 'w').write('x')")
    found = fork(server, "import os; print(os.listdir('/tmp'), os.listdir('.'))")
    assert "left" not in found.text


@BOTH
def test_server_that_has_gone_is_told(server: ForkServer) -> None:
    """A fork of a server that has ended raises CannotFork, instead of waiting forever."""
    server.close()
    with tempfile.TemporaryFile() as output, pytest.raises(CannotFork, match="has ended"):
        Forked(server, MODULE, ["pass"], "fork", Confinement(), output, [])


@pytest.mark.thorough
@pytest.mark.usefixtures("sandbox")
def test_kernel_that_lets_nobody_enter_costs_only_time(tmp_path: Path) -> None:
    """If the kernel forbids setns, submissions are started in their sandbox, and not forked.

    The output has no note about this slower start.
    """
    command = [sys.executable, "-P", "-m", "harness", "check", HONEST, "--reference", REFERENCE]
    done = run([sys.executable, "-c", WITHOUT_SETNS, *map(str, command)], tmp_path)
    assert done.status == 0, done.out + done.err
    assert "honest on double: passed" in done.out
    assert "note: submissions run without" not in done.out


@pytest.mark.thorough
@pytest.mark.usefixtures("sandbox")
def test_strangers_device_is_not_a_fork() -> None:
    """The device process of an untrusted submission is started, not forked.

    A forked device process would have the worker's memory layout, so that the worker would know the
    addresses in the device process.
    """
    options = harness.Options(device="simulator", grid="own", untrusted=True)
    with harness.Client("in_process", options=options) as client:
        assert client.submit(HONEST, REFERENCE).result().verdict == "passed"
    assert any("-m\0harness.device.main\0" in said for _, said in descendants(os.getpid()))


@pytest.mark.usefixtures("sandbox")
def test_root_of_a_container_is_told_that_nothing_limits_processes(tmp_path: Path) -> None:
    """Root without CAP_SYS_ADMIN is told that the number of a sandbox's processes is not limited.

    Tests that start any number of processes are then skipped.
    """
    if os.geteuid() != 0:
        pytest.skip("only root has capabilities to give up")
    asked = "from harness.sandbox.layers import why_open; print(why_open())"
    done = run(["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", asked], tmp_path)
    assert "root's processes can be limited only with CAP_SYS_ADMIN" in done.out, done.err
