"""What the trusted side and a worker say to a device, in tests."""

from __future__ import annotations

import socket
import time

import torch

from harness.device.process import DeviceClient
from harness.messages.channel import Message
from harness.simulator.layout.calls import AnswerEntry, RequestEntry

PLAINLY = {"in_new_memory": False, "arrangement": "contiguous"}
"""How inputs lie where nothing else is asked for."""


def ask(device: DeviceClient, do: str, *tensors: torch.Tensor, **header: object) -> Message:
    """As the trusted side asks."""
    return device.ask(do, time.monotonic() + 60, lambda _: ({"usage": ""}, ()), tensors, **header)


def call(worker: socket.socket, number: int, data: bytes = b"") -> tuple[int, bytes]:
    """As a worker's runtime asks: the error, and what came back."""
    worker.sendall(bytes(RequestEntry(number, 0, len(data))) + data)
    answer = AnswerEntry.from_buffer_copy(received(worker, 16))
    return answer.error, received(worker, answer.size)


def received(worker: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer where the other side hangs up."""
    data = b""
    while len(data) < count:
        more = worker.recv(count - len(data))
        if not more:
            break
        data += more
    return data
