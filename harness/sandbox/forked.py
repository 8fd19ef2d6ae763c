"""The client of a fork server: starts programs as forks, each fork in a sandbox of its own.

Without a sandbox, programs are forked as well, because most of a start's time is the import of
torch.
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

# This command holds the sandbox or the scratch folder open: it waits for a line that nothing
# writes.
_HOLDER = ("/bin/sh", "-c", "echo && read -r line")
_FORK_SECONDS = 120.0
_LONG_SECONDS = 3600.0
_SERVER_ENDED = "the fork server has ended"


class CannotFork(RuntimeError):
    """A process could not be forked, or could not enter its sandbox; the message says why."""


class ForkServer:
    """A running fork server. The caller must call `close`."""

    def __init__(self, programs: Programs) -> None:
        interpreter.compile_bytecode()
        # SOCK_SEQPACKET keeps message boundaries, so a request and its descriptors arrive together.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = subprocess.Popen(
                interpreter.command(
                    "harness.sandbox.fork_server", str(theirs.fileno()), codec.encode(programs)
                ),
                cwd="/",
                # The forks inherit this environment, so it is the one of a sandboxed process.
                env=environment(Confinement(), SCRATCH),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        """True if the server's process is running."""
        return self._process.poll() is None

    def fork(self, fork: Fork, descriptors: Sequence[int]) -> None:
        """Send a request for a fork, with the descriptors that `Fork` lists.

        Raises:
            CannotFork: The server has ended.
        """
        try:
            with self._lock:
                socket.send_fds(self._socket, [codec.encode(fork).encode()], list(descriptors))
        except OSError:
            raise CannotFork(_SERVER_ENDED) from None

    def close(self) -> None:
        """End the server; its forks end when their sandboxes end."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._output.close()


class Forked(Confined):
    """A program that runs in a fork of a fork server, in a sandbox of its own if there is one.

    bubblewrap starts the sandbox with a command that only waits (`_HOLDER`). The fork then enters
    the sandbox's namespaces.
    """

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
        """Start the sandbox, and run the program of `module` in it.

        Args:
            server: The fork server, which has imported `module`.
            module: The module whose `main()` runs.
            arguments: Arguments of the program.
            title: Name of the process in process listings.
            confinement: The restrictions on the process.
            output: File for the program's standard output and error.
            pass_fds: Descriptors that the program finds at the numbers 3, 4 and so on, in this
                order.

        Raises:
            CannotFork: The sandbox did not start, or the fork could not enter it.
            SandboxError: The confinement requires a sandbox, and there is none.
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
                # Either a sandbox or, without bubblewrap, a scratch folder of this process must
                # exist. If bubblewrap started but its process 1 is unknown, nothing may run.
                if not is_ready or (self._init is None and self._folder is None):
                    raise CannotFork(f"bubblewrap {super().how_it_ended}")
                folder = SCRATCH if self._folder is None else self._folder.name
                fork = Fork(module, tuple(arguments), title, folder, self._init is not None)
                sandbox = [] if self._init is None else [self._init]
                server.fork(fork, [*sandbox, telling, output.fileno(), *pass_fds])
            finally:
                # The guard now has the only write end, so its death ends the pipe.
                os.close(telling)
            self._number = self._told_number()
            if self._init is not None:
                population.limit_count(self._number, confinement.limits.threads)
            self._watch.add(self._number)
        except BaseException:
            self.end()
            raise

    def _told_number(self) -> int:
        """Return the program's process number outside of the sandbox, as the guard reports it."""
        try:
            line = self._line(_FORK_SECONDS)
        except TimeoutError:
            line = "the fork server does not answer"
        if line is None or not line.isdigit():
            raise CannotFork(line or _SERVER_ENDED)
        return int(line)

    def kill(self) -> None:
        """Kill the process and all its descendants, and wait until they have ended."""
        if self._init is None and self._number is not None:
            self._kill_group(self._number)
            self._status()
        super().kill()

    def _stop_for_excess(self, excess: str) -> None:
        super()._stop_for_excess(excess)
        if self._init is None and self._number is not None:
            self._kill_group(self._number)

    def _kill_group(self, number: int) -> None:
        """Kill the program's process and its process group, if there is no sandbox.

        With a sandbox this is not needed, because the end of a sandbox kills all its processes. The
        number cannot belong to another process, because the guard keeps it reserved until the
        guard's pipe is closed.
        """
        with contextlib.suppress(ProcessLookupError):
            # The process may not have created its group yet.
            os.kill(number, signal.SIGKILL)
            os.killpg(number, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the process (not its descendants); return whether it ended."""
        if self._ended is None:
            with contextlib.suppress(TimeoutError):
                # Without a status the guard was killed, and the process with it.
                self._ended = int(self._line(seconds) or -signal.SIGKILL)
        return self._ended is not None

    def _status(self) -> int:
        while self._ended is None:
            self.wait(_LONG_SECONDS)
        return self._ended

    def end(self) -> None:
        """Kill all processes of the tree that still run, and close the pipes."""
        super().end()
        self._number = None
        for descriptor in (self._told, self._holding):
            os.close(descriptor)

    def _line(self, seconds: float) -> str | None:
        """Return the next line that the guard reports; None if the guard has closed the pipe.

        Raises:
            TimeoutError: No line came within `seconds`.
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
"""The fork servers of this process, by their programs."""
