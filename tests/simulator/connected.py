"""A simulated `cuda` device for the process of a test.

The device's memory is in a separate device process, as it is when the harness runs a submission.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from harness.device.executor import Assembler
from harness.device.process import DeviceClient
from harness.device.record import Work
from harness.device.requests import Begin, End, FindLeaks, Read
from harness.device.session import DeviceSession
from harness.device.simulated import Simulator
from harness.finding import Finding
from harness.messages.channel import Channel
from harness.messages.faults import Fault
from harness.messages.protocol import Asked
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.hardware.resources import Resources
from harness.simulator.native.library import Libraries
from harness.simulator.ptx.fatbinary import DeviceCode
from harness.worker.inside.client_device import ClientDevice, place_of
from tests.device.conversing import without_ptxas

_SECONDS = 600.0
A = TypeVar("A")


@dataclass(frozen=True)
class Seen:
    """Everything that the device process recorded since the last query.

    Attributes:
        findings: Findings of the checks of memory, races and barriers.
        work: Sums of the device's work, one for each operator, kernel and kind of copy.
        failure: Description of the failure that broke the device; None if nothing did.
        spent: Work of the simulator in thread-instructions, as `Budget` counts it.
    """

    findings: tuple[Finding, ...]
    work: tuple[Work, ...]
    failure: Fault | None
    spent: int


def no_usage(code: DeviceCode) -> Mapping[str, Resources]:
    """Return an empty resource usage (registers, shared memory), for tests without ptxas."""
    del code
    return {}


class Connected:
    """A device process with two clients, both in this process.

    One client stands for the worker, which runs the submission. The other client stands for the
    harness, which inspects the device.
    """

    def __init__(
        self,
        libraries: Libraries,
        usage: Callable[[DeviceCode], Mapping[str, Resources]] = no_usage,
    ) -> None:
        ours, theirs = socket.socketpair()
        calls, worker = socket.socketpair()
        self._process = os.fork()
        if not self._process:
            ours.close()
            worker.close()
            library = ctypes.CDLL(str(libraries.machine))
            assembler = Assembler(usage, lambda _: b"")
            make = Simulator(library)
            DeviceSession(make, calls, Channel(theirs), assembler=assembler).serve()
            os._exit(0)
        theirs.close()
        calls.close()
        self._trusted = DeviceClient(Channel(ours), worker, lambda: None)
        # A worker does this first as well.
        ctypes.CDLL(str(libraries.runtime), mode=ctypes.RTLD_GLOBAL)
        self.client = ClientDevice(libraries, worker.fileno(), DEVICE)
        self.recover = self.client.recover

    def ask(self, request: Asked[A]) -> A:
        """Send a request to the device process as the harness does; return the reply."""
        deadline = time.monotonic() + _SECONDS
        return self._trusted.ask(request, deadline, without_ptxas)

    def observe(self) -> Seen:
        """Return everything that the device process recorded since the last call."""
        told = self.ask(End())
        self.ask(Begin())
        return Seen(told.findings, told.during, told.failure, told.spent)

    def writers(self, tensor: Tensor) -> Tensor:
        """Return, for each element of a device tensor, the code of its last writer.

        The code is 0 if some byte of the element was never written.
        """
        request, deadline = Read((place_of(tensor),)), time.monotonic() + _SECONDS
        return self._trusted.read(request, 0, deadline, without_ptxas)[1][1]

    def leaks(self) -> list[int]:
        """Return the sizes in bytes of cudaMalloc allocations that were not freed."""
        return list(self.ask(FindLeaks()).sizes)
