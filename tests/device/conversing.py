"""Requests to a device, as the trusted side and as a worker send them, for tests.

The device process executes kernels. The trusted side judges, and a worker runs a submission.
"""

from __future__ import annotations

import socket
import time

import torch

from harness.device.process import DeviceClient
from harness.messages.channel import Message
from harness.simulator.layout.calls import AnswerEntry, RequestEntry

PLAINLY = {"in_new_memory": False, "arrangement": "contiguous"}
"""The place and arrangement of inputs if a test asks for nothing else."""


def ask(device: DeviceClient, do: str, *tensors: torch.Tensor, **header: object) -> Message:
    """Send a request to a device as the trusted side does, and return the answer."""
    return device.ask(do, time.monotonic() + 60, lambda _: ({"usage": ""}, ()), tensors, **header)


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
