"""A process of untrusted code with everything that it starts, from its begin to its end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.sandbox import bubblewrap, population, view
from harness.sandbox.limits import Limits
from harness.sandbox.watch import Watch
from harness.system import interpreter

_END_SECONDS = 10.0
_SIGNAL_STATUS = 128

# What is handed down of this process's environment; a test runner's variables, tokens and agents
# are not.
_KEPT_VARIABLES = (
    "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip


@dataclass(frozen=True)
class Confinement:
    """How a process is shut in.

    Attributes:
        readable: Files and folders that it sees beside the system's and Python's own.
        placed: Files that it sees elsewhere than they lie, each with where; see `places`.
        limits: What it may take.
        with_gpu: Whether it sees the GPUs.
        must_hold: Whether it may not run at all where no sandbox can be had.
    """

    readable: tuple[Path, ...] = ()
    placed: Mapping[Path, Path] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits.for_this_machine)
    with_gpu: bool = False
    must_hold: bool = False


def places(submission: Path) -> dict[Path, Path]:
    """Where a confined process finds a submission, which comes first, and the sources beside it.

    A sandbox shows them in a folder of their own, the same one on every machine: so that nothing is
    told by where they lie, and nothing else can lie beside them. Without one they are where they
    are.
    """
    folder = submission.parent
    files = view.of_submission(submission)
    inside = view.SUBMISSIONS if bubblewrap.usable() else folder
    return {path: inside / path.relative_to(folder) for path in files}


class SandboxError(RuntimeError):
    """Code of strangers was not run, because no sandbox can be had; the message says why."""


class ProcessTree:
    """A process and everything that it starts, in a session of its own. `end` must be called."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self, seconds: float) -> bool:
        """Wait for the process itself; answers whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def how_it_ended(self) -> str:
        """In words that go after its name."""
        status = self._status()
        if status >= 0:
            return f"exited with status {status}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
        return f"killed by signal {-status}"

    def _status(self) -> int:
        """0 to 255 as it said itself, or the negative number of a signal."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill it and everything that it started, and see that it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill what is left of it."""
        self.kill()


class Confined(ProcessTree):
    """A running process in a sandbox, or with limits alone where no sandbox can be had.

    It gets no terminal, a scratch folder of its own as working, home and temporary folder, and of
    the environment only what is needed.
    """

    def __init__(
        self,
        command: Sequence[str],
        confinement: Confinement,
        *,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._excess = ""
        self._init: int | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        program = bubblewrap.usable()
        if confinement.must_hold and program is None:
            raise SandboxError(f"no sandbox for untrusted code: {bubblewrap.why_not_usable()}")
        interpreter.compile_bytecode()
        folder: str | None = None
        variables: Mapping[str, str] = {}
        reading, writing = os.pipe()
        waiting, going = os.pipe()
        if program:
            words = [str(program), "--info-fd", str(writing), "--block-fd", str(waiting)]
            words += [*_options(confinement), "--"]
        else:
            words = []
            self._folder = tempfile.TemporaryDirectory(prefix="harness-scratch-")
            folder, variables = self._folder.name, environment(confinement, self._folder.name)
        with (
            open(reading, "rb") as information,  # noqa: PTH123 - a descriptor
            open(going, "wb"),  # noqa: PTH123 - nothing begins before it is closed
        ):
            try:
                process = subprocess.Popen(
                    [*words, *command],
                    cwd=folder,
                    env=variables,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=[*pass_fds, writing, waiting] if program else pass_fds,
                    start_new_session=True,
                )
            finally:
                os.close(writing)
                os.close(waiting)
            # Where bubblewrap failed, its status and its words tell of it.
            with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
                first = json.loads(information.read())["child-pid"]
                self._init = os.pidfd_open(first)
                population.limit(first, confinement.limits.threads)
        super().__init__(process)
        self._watch = Watch(process.pid, confinement.limits, self._stop_for_excess)

    @property
    def how_it_ended(self) -> str:
        """In words that go after its name."""
        return f"{self._excess} and was killed" if self._excess else super().how_it_ended

    def _status(self) -> int:
        status = super()._status()
        return _SIGNAL_STATUS - status if self._init and status > _SIGNAL_STATUS else status

    def kill(self) -> None:
        """Kill it and everything that it started, and see that it is gone."""
        super().kill()
        if self._init is not None:
            # The first process of a namespace is gone when all others in it are.
            waiting = select.poll()
            waiting.register(self._init, select.POLLIN)
            waiting.poll(_END_SECONDS * 1000)

    def end(self) -> None:
        """Kill what is left, and remove the scratch folder."""
        self._watch.end()
        self.kill()
        if self._init is not None:
            os.close(self._init)
            self._init = None
        if self._folder is not None:
            self._folder.cleanup()

    def _stop_for_excess(self, excess: str) -> None:
        self._excess = self._excess or excess
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _options(confinement: Confinement) -> list[str]:
    return bubblewrap.options(
        environment(confinement, bubblewrap.SCRATCH),
        confinement.limits,
        (*view.python(), *confinement.readable),
        confinement.placed,
        view.gpu_devices() if confinement.with_gpu else (),
    )


def environment(confinement: Confinement, scratch: str) -> Mapping[str, str]:
    """What a confined process knows of the environment."""
    hidden = {} if confinement.with_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        **hidden,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": view.python_path(),
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "sandbox",
    }
