"""The trusted side of a fork server: programs that run in a sandbox without having been started.

Where no sandbox can be had they are forked all the same: it is importing torch that costs.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO

from harness.sandbox import population
from harness.sandbox.bubblewrap import SCRATCH
from harness.sandbox.confined import Confined, Confinement, environment
from harness.sandbox.fork_server import Fork, Programs
from harness.system import codec, interpreter
from harness.system.shared import Shared

# The sandbox, or the scratch folder, lasts as long as this waits for a line, which nobody writes.
_HOLDER = ("/bin/sh", "-c", "echo && read -r line")
_FORK_SECONDS = 120.0
_LONG_SECONDS = 3600.0
_SERVER_ENDED = "the fork server has ended"


class CannotFork(RuntimeError):
    """A process could not be forked, or not into its sandbox; the message says why."""


class ForkServer:
    """A process that has imported programs and forks for each of their runs. `close` ends it."""

    def __init__(self, programs: Programs) -> None:
        interpreter.compile_bytecode()
        # Messages stay whole, whichever of several processes has sent them.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = subprocess.Popen(
                interpreter.command(
                    "harness.sandbox.fork_server", str(theirs.fileno()), codec.encode(programs)
                ),
                cwd="/",
                # The forks have it, and so must not know more than what is started in a sandbox.
                env=environment(Confinement(), SCRATCH),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for another fork."""
        return self._process.poll() is None

    def fork(self, fork: Fork, descriptors: Sequence[int]) -> None:
        """Ask for a fork.

        Raises:
            CannotFork: the server is gone.
        """
        try:
            with self._lock:
                socket.send_fds(self._socket, [codec.encode(fork).encode()], list(descriptors))
        except OSError:
            raise CannotFork(_SERVER_ENDED) from None

    def close(self) -> None:
        """End it; its forks end with their sandboxes."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._output.close()


class Forked(Confined):
    """A run of one of a fork server's programs, in a sandbox of its own where one can be had."""

    def __init__(
        self,
        server: ForkServer,
        module: str,
        arguments: Sequence[str],
        title: str,
        confinement: Confinement,
        output: IO[bytes],
        pass_fds: Sequence[int],
    ) -> None:
        """Where these descriptors are numbered from 3 on, standard output and error being one.

        Raises:
            CannotFork: its sandbox did not begin, or it may not enter it.
            SandboxError: it must be in one, and none can be had.
        """
        self._ended: int | None = None
        self._number: int | None = None
        self._unread = b""
        waiting, self._holding = os.pipe()
        reading, writing = os.pipe()
        with open(waiting, "rb") as line, open(writing, "wb") as ready:  # noqa: PTH123
            super().__init__(_HOLDER, confinement, stdin=line, stdout=ready)
        with open(reading, "rb") as said:  # noqa: PTH123 - a descriptor
            is_ready = said.readline() == b"\n"
        self._told, telling = os.pipe()
        try:
            try:
                # Without a sandbox there is a scratch folder of this side's. Where a sandbox should
                # be, nothing runs outside of it.
                if not is_ready or (self._init is None and self._folder is None):
                    raise CannotFork(f"bubblewrap {super().how_it_ended}")
                folder = SCRATCH if self._folder is None else self._folder.name
                fork = Fork(module, tuple(arguments), title, folder, self._init is not None)
                sandbox = [] if self._init is None else [self._init]
                server.fork(fork, [*sandbox, telling, output.fileno(), *pass_fds])
            finally:
                # Its end is seen where nobody else can tell any more.
                os.close(telling)
            self._number = self._told_number()
            if self._init is not None:
                population.limit_count(self._number, confinement.limits.threads)
            self._watch.add(self._number)
        except BaseException:
            self.end()
            raise

    def _told_number(self) -> int:
        """The process's number in this namespace, as its guard tells it."""
        try:
            line = self._line(_FORK_SECONDS)
        except TimeoutError:
            line = "the fork server does not answer"
        if line is None or not line.isdigit():
            raise CannotFork(line or _SERVER_ENDED)
        return int(line)

    def kill(self) -> None:
        """Kill it and everything that it started, and see that it is gone."""
        if self._init is None and self._number is not None:
            self._kill_group(self._number)
            self._status()
        super().kill()

    def _stop_for_excess(self, excess: str) -> None:
        super()._stop_for_excess(excess)
        if self._init is None and self._number is not None:
            self._kill_group(self._number)

    def _kill_group(self, number: int) -> None:
        """Kill the process and its group, which no sandbox ends.

        The number is nobody else's until the pipe is closed on which the guard tells.
        """
        with contextlib.suppress(ProcessLookupError):
            # It may not have a group of its own yet.
            os.kill(number, signal.SIGKILL)
            os.killpg(number, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Wait for the process itself; answers whether it has ended."""
        if self._ended is None:
            with contextlib.suppress(TimeoutError):
                # Where nobody tells, it has ended with everything else.
                self._ended = int(self._line(seconds) or -signal.SIGKILL)
        return self._ended is not None

    def _status(self) -> int:
        while self._ended is None:
            self.wait(_LONG_SECONDS)
        return self._ended

    def end(self) -> None:
        """Kill what is left of it."""
        super().end()
        self._number = None
        for descriptor in (self._told, self._holding):
            os.close(descriptor)

    def _line(self, seconds: float) -> str | None:
        """The next line that is told of it; None if there will be none.

        Raises:
            TimeoutError: there was none in that time.
        """
        deadline = time.monotonic() + seconds
        waiting = select.poll()
        waiting.register(self._told, select.POLLIN)
        while b"\n" not in self._unread:
            if not waiting.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                raise TimeoutError
            more = os.read(self._told, 4096)
            if not more:
                return None
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


fork_servers = Shared(ForkServer)
"""Those of this process, by their programs."""
