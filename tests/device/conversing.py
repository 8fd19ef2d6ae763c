"""Requests to a device, as the trusted side and as a worker send them, for tests.

The device process executes kernels. The trusted side judges, and a worker runs a submission.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor

from harness.device.place import Place
from harness.device.process import DeviceClient
from harness.device.requests import (
    End,
    Evidence,
    PtxasRan,
    PutInputs,
    PutWeights,
    Read,
    RunPtxas,
    Values,
)
from harness.messages.channel import Answer
from harness.messages.protocol import Asked
from harness.simulator.layout.calls import AnswerEntry, RequestEntry

A = TypeVar("A")


def ask(device: DeviceClient, request: Asked[A]) -> A:
    """Send a request to a device as the trusted side does, and return the answer."""
    return device.ask(request, time.monotonic() + 60, without_ptxas)


def put(
    device: DeviceClient, *tensors: Tensor, request: PutInputs | PutWeights | None = None
) -> tuple[Place, ...]:
    """Have a device store tensors, as inputs unless told otherwise; return where they are."""
    asked = request or PutInputs()
    return device.put(asked, tensors, time.monotonic() + 60, without_ptxas).places


def read(device: DeviceClient, *places: Place) -> tuple[Values, Sequence[Tensor]]:
    """Read tensors of a device, and the codes for the writers of their elements."""
    return device.read(Read(places), 0, time.monotonic() + 60, without_ptxas)


def end(device: DeviceClient) -> Evidence:
    """End a step, and return what the device did in it."""
    return ask(device, End())


def without_ptxas(asked: RunPtxas) -> Answer:
    """Answer a device's request for ptxas as if it had told nothing."""
    del asked
    return PtxasRan(), ()


def call(worker: socket.socket, number: int, data: bytes = b"") -> tuple[int, bytes]:
    """Send a call to a device as a worker's runtime does; return error and data of the answer."""
    worker.sendall(bytes(RequestEntry(number, 0, len(data))) + data)
    answer = AnswerEntry.from_buffer_copy(received(worker, 16))
    return answer.error, received(worker, answer.size)


def received(worker: socket.socket, count: int) -> bytes:
    """Read `count` bytes, or fewer if the device closes the connection."""
    data = b""
    while len(data) < count:
        more = worker.recv(count - len(data))
        if not more:
            break
        data += more
    return data
