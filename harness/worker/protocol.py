"""Messages between the supervisor and a worker: a JSON header and raw tensor bytes.

A message is a 4-byte little-endian length, that many bytes of JSON, and the bytes of the tensors
that the JSON's `tensors` lists, in order. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

MAX_HEADER_BYTES = 16 << 20
MAX_TENSOR_BYTES = 16 << 30

_LENGTH = struct.Struct("<I")

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


class ProtocolError(ValueError):
    """The other side sent something that is no message."""


class Disconnected(ConnectionError):
    """The other side is gone."""


class DeadlineExceeded(TimeoutError):
    """No whole message came in time."""


@dataclass(frozen=True)
class Message:
    """One message; `tensors` are on the CPU and contiguous."""

    header: dict[str, Any]
    tensors: tuple[torch.Tensor, ...] = ()


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, header: dict[str, Any], tensors: Sequence[torch.Tensor] = ()) -> None:
        """Send one message.

        Raises:
            Disconnected: the other side is gone.
        """
        contiguous = [tensor.detach().cpu().contiguous() for tensor in tensors]
        described = [
            {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
            for t in contiguous
        ]
        data = json.dumps({**header, "tensors": described}).encode()
        try:
            self._socket.settimeout(None)
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
            for tensor in contiguous:
                self._socket.sendall(_bytes_of(tensor))
        except OSError as error:
            raise Disconnected(str(error)) from None

    def receive(self, deadline: float | None = None) -> Message:
        """Wait for one message until `deadline`, a time of `time.monotonic()`.

        Raises:
            DeadlineExceeded: it did not come in time.
            Disconnected: the other side is gone.
            ProtocolError: what came is not a message.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > MAX_HEADER_BYTES:
            raise ProtocolError(f"a header of {length} bytes")
        try:
            header = json.loads(bytes(self._read(length, deadline)))
            listed = [(DTYPES[t["dtype"]], [int(n) for n in t["shape"]]) for t in header["tensors"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"a header that does not fit: {error!r}") from None
        return Message(header, tuple(self._read_tensor(*each, deadline) for each in listed))

    def _read_tensor(
        self, dtype: torch.dtype, shape: list[int], deadline: float | None
    ) -> torch.Tensor:
        count = math.prod(shape)
        if min(shape, default=0) < 0 or count * dtype.itemsize > MAX_TENSOR_BYTES:
            raise ProtocolError(f"a tensor of shape {shape}")
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        data = self._read(count * dtype.itemsize, deadline)
        return torch.frombuffer(data, dtype=dtype).reshape(shape)

    def _read(self, count: int, deadline: float | None) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlineExceeded
                self._socket.settimeout(left)
            else:
                self._socket.settimeout(None)
            try:
                got = self._socket.recv_into(view)
            except TimeoutError:
                raise DeadlineExceeded from None
            except OSError as error:
                raise Disconnected(str(error)) from None
            if got == 0:
                raise Disconnected("the connection was closed")
            view = view[got:]
        return data


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    if not tensor.numel():
        return memoryview(b"")
    return tensor.reshape(-1).view(torch.uint8).numpy().data
