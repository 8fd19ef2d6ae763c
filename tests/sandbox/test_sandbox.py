"""The verdicts of submissions that attack the machine or the harness, and the sandbox's limits."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.sandbox.confined import Confined, Confinement
from harness.sandbox.limits import Limits
from harness.worker.supervisor import Deadlines
from tests.support import REFERENCE, Outcome, harness, request_for

FOLDER = Path(__file__).parent / "attacks"
PROBLEM = REFERENCE / "conv_transpose1d.py"

pytestmark = pytest.mark.usefixtures("sandbox")

# The line on each attack continues so after the names of submission and problem.
VERDICTS = {
    "looks_around": "error: raises at import: holes: []",
    "forks": "error: the worker started more than 256 processes and was killed while importing",
    "floods": "error: OSError: [Errno 27] File too large (floods.py",
    "leaves_a_daemon": "error: raises at import: left a daemon",
    "includes_a_secret": "error: does not compile: ",
    "killed": "error: the worker was killed by SIGKILL while importing the submission",
    "forges": "error: the worker sent an invalid message (a message that answers no "
    "request) while importing",
    "forges_rubbish": "error: the worker sent an invalid message (JSON is malformed: ",
    "answers_twice": "error: own configuration in error; ",
    "asks_for_nonsense": "error: the worker sent an invalid message (Expected `str` matching ",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check --untrusted` on all files of tests/sandbox/attacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_TOKEN", "1234")
        return harness(
            "check", FOLDER, "--untrusted", "--reference", PROBLEM,
            folder=tmp_path_factory.mktemp("attacks"),
        )  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_attack_gets_its_verdict(outcome: Outcome, name: str) -> None:
    """The output has a line with the expected verdict on each attack, and no traceback."""
    begin = f"{name} on conv_transpose1d: {VERDICTS[name]}"
    assert any(line.startswith(begin) for line in outcome.out.splitlines()), outcome.out
    assert "Traceback" not in outcome.out + outcome.err


def test_answer_too_many_is_told(outcome: Outcome) -> None:
    """If a worker sends a second answer to one request, the output reports an invalid message."""
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("answers_twice on ")]
    assert ": the worker sent an invalid message (a message that " in line


def test_every_attack_has_an_expectation() -> None:
    """Every file of tests/sandbox/attacks has an expected verdict in this module."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(VERDICTS)


def test_compilers_error_shows_no_file_of_the_machine(outcome: Outcome) -> None:
    """A compiler error does not quote the machine's own files, such as /etc/passwd.

    That holds if a source includes the file, and if a compiler option names it.
    """
    assert "root:" not in outcome.out


def test_nothing_is_left(outcome: Outcome) -> None:
    """No process of an attack outlives `harness check`, even if it left its session and parent."""
    assert outcome.status == 1
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        # The process may have ended meanwhile.
        with contextlib.suppress(OSError):
            commands.append((process / "cmdline").read_bytes())
    assert not [each for each in commands if os.fsencode(FOLDER) in each]
    assert not list(FOLDER.glob("*.txt"))


@pytest.mark.thorough
def test_endless_compilation_ends_at_its_deadline(tmp_path: Path) -> None:
    """A compilation that never ends is killed at its deadline, and the message says so."""
    path = tmp_path / "endless.py"
    path.write_text(
        "from torch import nn\nfrom torch.utils.cpp_extension import load_inline\n"
        "load_inline(name='endless', cpp_sources='constexpr long f(long n) "
        "{ while (true) n = n * 3 + 1; return n; } constexpr long x = f(1);', "
        "no_implicit_headers=True, extra_cflags=['-fconstexpr-loop-limit=2147483647', "
        "'-fconstexpr-ops-limit=999999999999'])\n"
        "class ModelNew(nn.Module):\n"
        "    def __init__(self, in_channels, out_channels, kernel_size):\n"
        "        super().__init__()\n"
    )
    deadlines = Deadlines(build=4.0)
    report = evaluate(request_for(path, PROBLEM, deadlines=deadlines, untrusted=True))
    assert report.verdict == "error"
    assert report.message == "no answer within 4 s while building endless; killed"


def test_doubling_processes_end_at_the_kernels_limit() -> None:
    """The kernel itself keeps a sandbox from having more threads than its limit.

    Each process prints `+`, forks until the kernel refuses a child, and prints `-`. All processes
    stay alive until the first one is refused a child. When the first process ends, all end.
    """
    script = (
        "import os, signal\nfirst = os.getpid()\nos.write(1, b'+')\ntry:\n"
        "    while True:\n        if os.fork() == 0: os.write(1, b'+')\n"
        "except OSError: os.write(1, b'-')\n"
        "if os.getpid() != first: signal.pause()\n"
    )
    limits = Limits(memory_bytes=8 << 30, processes=1 << 20, threads=400)
    with tempfile.TemporaryFile() as said:
        process = Confined([sys.executable, "-c", script], Confinement(limits=limits), stdout=said)
        try:
            assert process.wait(60)
            assert process.how_it_ended == "exited with status 0"
        finally:
            process.end()
        said.seek(0)
        text = said.read()
    assert 1 < text.count(b"+") < limits.threads
    assert text.count(b"-") > 0


def test_sandboxes_do_not_share_a_limit() -> None:
    """The threads of one sandbox do not count towards the limit of another sandbox."""
    sleeps = (
        "import threading\nend = threading.Event()\nthreading.stack_size(65536)\n"
        "for _ in range(300): threading.Thread(target=end.wait, daemon=True).start()\n"
        "print(flush=True)\nend.wait()\n"
    )
    limits = Limits(memory_bytes=8 << 30, threads=400)
    running: list[Confined] = []
    try:
        for _ in range(2):
            reading, writing = os.pipe()
            command = [sys.executable, "-c", sleeps]
            running.append(Confined(command, Confinement(limits=limits), stdout=writing))
            os.close(writing)
            with open(reading, "rb") as said:  # noqa: PTH123 - a descriptor
                assert said.read(1) == b"\n"
    finally:
        for process in running:
            process.end()


def test_memory_of_a_whole_tree_is_limited() -> None:
    """A sandbox's processes are killed if their memory in total exceeds the limit.

    Each process by itself takes little memory.
    """
    script = (
        "import os, time\nfor _ in range(6): os.fork()\nx = b'x' * (16 << 20)\ntime.sleep(60)\n"
    )
    confinement = Confinement(limits=Limits(memory_bytes=256 << 20))
    process = Confined([sys.executable, "-c", script], confinement)
    try:
        assert process.wait(60)
        assert process.how_it_ended == "took more than 0.2 GiB of memory and was killed"
    finally:
        process.end()


def test_shared_memory_counts_once() -> None:
    """Memory that forked processes share counts only once towards the memory limit."""
    script = (
        "import os, time\nx = b'x' * (128 << 20)\nfor _ in range(3): os.fork()\ntime.sleep(0.5)\n"
    )
    confinement = Confinement(limits=Limits(memory_bytes=320 << 20))
    process = Confined([sys.executable, "-c", script], confinement)
    try:
        assert process.wait(60)
        assert process.how_it_ended == "exited with status 0"
    finally:
        process.end()


def test_scratch_folder_is_limited() -> None:
    """The sandbox's scratch folder, whose files lie in memory, has a limited size."""
    script = "for n in range(99): open(str(n), 'wb').write(bytes(1 << 20))"
    limits = Limits(memory_bytes=1 << 30, scratch_bytes=8 << 20)
    with tempfile.TemporaryFile() as said:
        process = Confined([sys.executable, "-c", script], Confinement(limits=limits), stderr=said)
        try:
            assert process.wait(60)
            said.seek(0)
            assert b"No space left on device" in said.read()
        finally:
            process.end()
