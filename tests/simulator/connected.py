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
from typing import Any

from torch import Tensor

from harness.device.executor import Assembler
from harness.device.process import DeviceClient
from harness.device.session import DeviceSession
from harness.device.simulated import Simulator
from harness.finding import Finding
from harness.messages.channel import Channel, Message
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.native.library import Libraries
from harness.simulator.ptx.fatbinary import DeviceCode
from harness.worker.answers import findings_of
from harness.worker.inside.client_device import ClientDevice, place_of

_SECONDS = 600.0


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
    work: tuple[Mapping[str, Any], ...]
    failure: Mapping[str, Any] | None
    spent: int


def no_usage(code: DeviceCode) -> Mapping[str, Any]:
    """Return an empty resource usage (registers, shared memory), for tests without ptxas."""
    del code
    return {}


class Connected:
    """A device process with two clients, both in this process.

    One client stands for the worker, which runs the submission. The other client stands for the
    harness, which inspects the device.
    """

    def __init__(
        self, libraries: Libraries, usage: Callable[[DeviceCode], Mapping[str, Any]] = no_usage
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

    def ask(self, do: str, *tensors: Tensor, **header: object) -> Message:
        """Send a request to the device process as the harness does; return the reply."""
        deadline = time.monotonic() + _SECONDS
        return self._trusted.ask(do, deadline, lambda asked: (asked, ()), tensors, **header)

    def observe(self) -> Seen:
        """Return everything that the device process recorded since the last call."""
        told = self.ask("end", parameters={}).header
        spent = told["spent"]
        self.ask("begin")
        found = findings_of(Message({"findings": told["findings"]}))
        return Seen(tuple(found), tuple(told["work"]["during"]), told.get("failure"), spent)

    def writers(self, tensor: Tensor) -> Tensor:
        """Return, for each element of a device tensor, the code of its last writer.

        The code is 0 if some byte of the element was never written.
        """
        return self.ask("read", places=[place_of(tensor)]).tensors[1]

    def leaks(self) -> list[int]:
        """Return the sizes in bytes of cudaMalloc allocations that were not freed."""
        return list(self.ask("leaks").header["leaks"])
