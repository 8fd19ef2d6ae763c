"""Control of device processes by the supervisor: start, requests, and end.

The supervisor is the harness's trusted code that also starts the workers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar

from msgspec import structs
from torch import Tensor

from harness.device.main import MOST_BYTES, DeviceArguments
from harness.device.requests import (
    ASKED,
    PROTOCOL,
    AtPlaces,
    PutInputs,
    PutWeights,
    Read,
    RunPtxas,
    Values,
)
from harness.gpu.window import WORTHWHILE_BYTES, ExportedMemory, own_window, room_for
from harness.messages.channel import Answer, Channel, Message
from harness.messages.protocol import Asked
from harness.sandbox.confined import Confined, Confinement
from harness.sandbox.fork_server import FIRST_DESCRIPTOR, Programs
from harness.sandbox.forked import CannotFork, Forked, fork_servers
from harness.sandbox.limits import Limits
from harness.system import codec, interpreter
from harness.system.shared import Shared

A = TypeVar("A")
Serve = Callable[[RunPtxas], Answer]
"""A function that answers a device's request to run ptxas."""

MODULE = "harness.device.main"
"""The device process's program."""
_TITLE = "harness-device"
_START_SECONDS = 120.0


class DeviceProcess:
    """A process that forks, for each worker, a process that serves as the worker's device.

    The sandbox of all these processes has neither files nor a network.
    """

    def __init__(
        self,
        library: Path | None,
        cores: int,
        forked_from: Programs | None = None,
        *,
        must_be_confined: bool,
    ) -> None:
        """Start the process.

        Args:
            library: The simulator's shared library; None for devices on the GPU.
            cores: Number of cores that a device may use.
            forked_from: Programs that a fork server has imported, `MODULE` among them. The process
                is forked from this server. With None, or if the fork fails, a new Python process is
                started.
            must_be_confined: Whether the process must not run without a sandbox.
        """
        self._is_on_gpu = library is None
        self._numbers = itertools.count(1)
        self._is_lost = False
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._trusted = ours
        ours.settimeout(_START_SECONDS)
        limits = Limits.for_this_machine(cores)
        told = codec.encode(DeviceArguments(library, limits))
        confinement = Confinement(
            (library,) if library else (),
            {},
            limits,
            with_gpu=library is None,
            must_hold=must_be_confined,
        )
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        with theirs:
            self._process = _begun(forked_from, told, confinement, self._output, theirs.fileno())

    @property
    def is_alive(self) -> bool:
        """True if the process still runs, so that it can start another device."""
        # The end of a killed process may be reported only after its socket has closed.
        return not self._is_lost and not self._process.wait(0)

    def begin(self, output: IO[bytes], schedule: int, cores: int) -> DeviceClient:
        """Start a device for one worker, and return the client for it.

        Args:
            output: File that receives what the worker's kernels print.
            schedule: Number of the order in which the simulator runs blocks and warps.
            cores: Number of cores that may run blocks of one launch side by side.

        Raises:
            OSError: The device process has ended.
        """
        ours, theirs = socket.socketpair()
        calls, worker = socket.socketpair()
        number = next(self._numbers)
        asked = {"session": number, "schedule": schedule, "cores": cores}
        try:
            with theirs, calls, self._lock:
                descriptors = [calls.fileno(), theirs.fileno(), output.fileno()]
                socket.send_fds(self._trusted, [json.dumps(asked).encode()], descriptors)
        except OSError:
            ours.close()
            worker.close()
            self._is_lost = True
            raise
        window = own_window() if self._is_on_gpu else None
        return DeviceClient(Channel(ours), worker, lambda: self._end(number), window)

    def _end(self, number: int) -> None:
        with self._lock:
            try:
                self._trusted.send(json.dumps({"end": number}).encode())
                self._trusted.recv(MOST_BYTES)
            except OSError:  # the process is gone, and its devices with it
                self._process.kill()

    def close(self) -> None:
        """End the process and all its devices."""
        self._trusted.close()
        self._process.end()
        self._output.close()


class DeviceClient:
    """The supervisor's connection to one worker's device.

    Attributes:
        worker_socket: The socket that the worker's CUDA runtime sends its calls to.
    """

    def __init__(
        self,
        channel: Channel,
        worker_socket: socket.socket,
        end: Callable[[], None],
        window: ExportedMemory | None = None,
    ) -> None:
        """Take over the connections to a device that was started.

        Args:
            channel: The supervisor's connection to the device.
            worker_socket: The worker's end of its own connection to the device.
            end: Function that ends the device.
            window: GPU memory shared with the device; None for a simulated device.
        """
        self._channel = channel
        self._window = window
        self.worker_socket = worker_socket
        self._end = end

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when the device sends a request."""
        return self._channel.fileno()

    def serve(self, serve: Serve, deadline: float) -> None:
        """Receive one request that the device sends, and answer it with what `serve` returns.

        Raises what `Channel.receive` raises.
        """
        message = self._channel.receive(ASKED, deadline)
        self._channel.send(*serve(message.body), deadline=deadline)

    def ask(self, request: Asked[A], deadline: float, serve: Serve) -> A:
        """Send the device a request, and return its answer; raises as `Channel` does.

        The device may ask for ptxas before it answers; `serve` answers that. The time that `serve`
        takes is added to `deadline`, a time of `time.monotonic()`.
        """
        return self._exchanged(request, (), deadline, serve).body

    def put(
        self,
        request: PutInputs | PutWeights,
        tensors: Sequence[Tensor],
        deadline: float,
        serve: Serve,
    ) -> AtPlaces:
        """Have the device store tensors, and return where they are; works as `ask`."""
        window, size = self._window, sum(tensor.nbytes for tensor in tensors)
        if window and size >= WORTHWHILE_BYTES:
            placed = window.put(tensors)
            request = structs.replace(request, placed=placed, handle=window.handle)
            tensors = ()
        return self._exchanged(request, tensors, deadline, serve).body

    def read(
        self, request: Read, nbytes: int, deadline: float, serve: Serve
    ) -> tuple[Values, Sequence[Tensor]]:
        """Read tensors and a code for the writer of each element; works as `ask`.

        Tensors that are on a GPU are valid until this client's next request.

        Args:
            request: The request.
            nbytes: Size in bytes of the values and the writers of all tensors together.
            deadline: Time of `time.monotonic()` by which the answer must be complete.
            serve: Function that answers the device's own requests.
        """
        window = self._window
        if window and nbytes >= WORTHWHILE_BYTES:
            window.make_room(room_for(nbytes, 2 * len(request.places)))
            request = structs.replace(request, room=window.handle)
        message = self._exchanged(request, (), deadline, serve)
        placed = message.body.placed
        return message.body, window.at(placed) if window and placed else message.tensors

    def _exchanged(
        self, request: Asked[A], tensors: Sequence[Tensor], deadline: float, serve: Serve
    ) -> Message[A]:
        self._channel.send(request, tensors, deadline)
        while True:
            message = self._channel.receive(PROTOCOL.answers[type(request)], deadline)
            if not isinstance(message.body, RunPtxas):
                return message
            start = time.monotonic()
            self._channel.send(*serve(message.body), deadline=deadline)
            deadline += time.monotonic() - start

    def close(self) -> None:
        """End the device and close the connections to it."""
        if self._window:
            self._window.close()
        self.worker_socket.close()
        self._channel.close()
        self._end()


def _begun(
    forked_from: Programs | None,
    told: str,
    confinement: Confinement,
    output: IO[bytes],
    descriptor: int,
) -> Confined:
    """Start a device process: fork it from a fork server if possible, else start it anew."""
    if forked_from:
        words, descriptors = [str(FIRST_DESCRIPTOR), told], [descriptor]
        with contextlib.suppress(CannotFork):
            server = fork_servers.get(forked_from)
            return Forked(server, MODULE, words, _TITLE, confinement, output, descriptors)
    command = interpreter.command(MODULE, str(descriptor), told)
    return Confined(command, confinement, stdout=output, stderr=output, pass_fds=[descriptor])


def _start(key: tuple[Path | None, int, Programs | None, bool]) -> DeviceProcess:
    library, cores, forked_from, must_be_confined = key
    return DeviceProcess(library, cores, forked_from, must_be_confined=must_be_confined)


_processes = Shared(_start)


def shared_process(
    library: Path | None, cores: int, forked_from: Programs | None, *, must_be_confined: bool
) -> DeviceProcess:
    """Return the device process for these arguments, which all checks in this process share.

    The device process is started if it does not run yet, and ends with this process.
    """
    return _processes.get((library, cores, forked_from, must_be_confined))
