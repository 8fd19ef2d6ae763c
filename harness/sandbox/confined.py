"""Start, supervision and end of a process that runs untrusted code, with all its descendants."""

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

# The only variables that are inherited from this process. A list of allowed names, because the
# environment of a test runner may hold tokens and sockets of agents.
_KEPT_VARIABLES = (
    "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip


@dataclass(frozen=True)
class Confinement:
    """The restrictions on a process of untrusted code.

    Attributes:
        readable: Files and folders that the process can read, besides those of the system and
            Python.
        placed: Files that the process sees at other paths: for each real path, the path in the
            sandbox; see `places`.
        limits: Resource limits of the process and its descendants.
        with_gpu: True if the process can use the GPUs.
        must_hold: True if the process must not run at all without a sandbox.
    """

    readable: tuple[Path, ...] = ()
    placed: Mapping[Path, Path] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits.for_this_machine)
    with_gpu: bool = False
    must_hold: bool = False


def places(submission: Path) -> dict[Path, Path]:
    """Return the paths at which a confined process sees a submission's file and sources beside it.

    A sandbox shows these files in a folder that is the same on every machine. So the path reveals
    nothing, and the folder contains no other file. Without a sandbox, the files keep their paths.

    Returns:
        For each real path, the path that the process sees; the submission comes first.
    """
    folder = submission.parent
    files = view.of_submission(submission)
    inside = view.SUBMISSIONS if bubblewrap.usable() else folder
    return {path: inside / path.relative_to(folder) for path in files}


class SandboxError(RuntimeError):
    """Untrusted code was not run because no sandbox is available; the message says why."""


class ProcessTree:
    """A process in a session of its own, and all its descendants. The caller must call `end`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the process (not its descendants); return whether it ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def how_it_ended(self) -> str:
        """A description of how the process ended, such as `exited with status 1`."""
        status = self._status()
        if status >= 0:
            return f"exited with status {status}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
        return f"was killed by signal {-status}"

    def _status(self) -> int:
        """Return the exit status (0 to 255), or minus the number of the signal that killed it."""
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process and all its descendants, and wait until they have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill all processes of the tree that still run."""
        self.kill()


class Confined(ProcessTree):
    """A running process in a sandbox, or with resource limits alone if there is no sandbox.

    The process has no terminal, and only the necessary environment variables. A new scratch folder
    is its working, home and temporary folder.
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
            open(going, "wb"),  # noqa: PTH123 - closing it starts the command
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
            # bubblewrap blocks on --block-fd until this block ends. In between, the thread limit is
            # set, so that the command never runs without it. If bubblewrap failed, its status and
            # output say why.
            with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
                first = json.loads(information.read())["child-pid"]
                self._init = os.pidfd_open(first)
                population.limit(first, confinement.limits.threads)
        super().__init__(process)
        self._watch = Watch(process.pid, confinement.limits, self._stop_for_excess)

    @property
    def how_it_ended(self) -> str:
        """A description of how the process ended, such as `exited with status 1`."""
        return f"{self._excess} and was killed" if self._excess else super().how_it_ended

    def _status(self) -> int:
        status = super()._status()
        # bubblewrap reports a command killed by signal n as status 128 + n, like a shell.
        return _SIGNAL_STATUS - status if self._init and status > _SIGNAL_STATUS else status

    def kill(self) -> None:
        """Kill the process and all its descendants, and wait until they have ended."""
        super().kill()
        if self._init is not None:
            # Process 1 of a PID namespace ends only after all others in it have ended.
            waiting = select.poll()
            waiting.register(self._init, select.POLLIN)
            waiting.poll(_END_SECONDS * 1000)

    def end(self) -> None:
        """Kill all processes of the tree that still run, and remove the scratch folder."""
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
    """Return all environment variables of a confined process whose scratch folder is `scratch`."""
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
