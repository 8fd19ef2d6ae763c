"""Messages between the harness's processes: a typed body as JSON, and raw tensor bytes.

A message is a 4-byte little-endian length, that many bytes of JSON, and the bytes of the tensors
that the JSON's `tensors` lists, in order. The JSON's `body` is a `msgspec.Struct`; its receiver
says which classes it accepts.

The sender may be hostile. So nothing is ever unpickled, every size is checked before memory is
allocated for it, and a body is decoded only into the classes that the receiver expects.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import torch
from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder, Encoder

MAX_HEADER_BYTES = 16 << 20
MAX_TENSORS = 4096
MAX_DIMENSIONS = 64
MAX_TENSOR_BYTES = 16 << 30
"""Limit of all tensors of a message together, unless the receiver expects less."""

_MOST_OF_A_NONCE = 64
_MOST_OF_AN_ERROR = 200

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
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}

T = TypeVar("T")


class ProtocolError(ValueError):
    """A received message is not valid; the text says why."""


class Disconnected(ConnectionError):
    """The connection is closed: the process at its other end has closed it or has ended."""


class DeadlineExceeded(TimeoutError):
    """A deadline passed before a whole message was sent or received."""


Answer = tuple[Struct, Sequence[torch.Tensor]]
"""A body and tensors that answer a message."""


@dataclass(frozen=True)
class Message(Generic[T]):
    """A body and tensors; tensors that `Channel` has received are contiguous, on the CPU.

    Attributes:
        body: The decoded body.
        tensors: The tensors.
        nonce: The text by which an answer names its request; empty if there is none.
    """

    body: T
    tensors: tuple[torch.Tensor, ...] = ()
    nonce: str = ""

    def require(self, nonce: str) -> None:
        """Raise a `ProtocolError` unless the message answers the request with this nonce."""
        if self.nonce != nonce:
            raise ProtocolError("a message that answers no request")


class _Described(Struct, frozen=True, forbid_unknown_fields=True):
    """The dtype (a key of `DTYPES`) and the shape of a tensor that follows the JSON."""

    dtype: str
    shape: Annotated[
        tuple[Annotated[int, Meta(ge=0, lt=1 << 48)], ...], Meta(max_length=MAX_DIMENSIONS)
    ]


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON of a message; `Message` explains the fields."""

    nonce: Annotated[str, Meta(max_length=_MOST_OF_A_NONCE)]
    tensors: Annotated[tuple[_Described, ...], Meta(max_length=MAX_TENSORS)]
    body: Raw


# Made here, not when they are used: code that replaces functions of msgspec later does not affect
# messages. And two threads must not be the first to use a class (see system/codec.py).
_ENCODER = Encoder()
_HEADERS = Decoder(_Header)


class Channel:
    """One end of a socket connection over which messages are sent and received."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def has_unread(self) -> bool:
        """Return whether the socket holds received bytes that `receive` has not read yet."""
        self._socket.settimeout(0)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:  # no bytes, or the other side is gone
            return False

    def send(
        self,
        body: Struct,
        tensors: Sequence[torch.Tensor] = (),
        deadline: float | None = None,
        nonce: str = "",
    ) -> None:
        """Send one message before `deadline`, a time of `time.monotonic()`; None for no limit.

        Raises:
            DeadlineExceeded: The receiver did not read the message in time.
            Disconnected: The connection is closed.
            UnicodeEncodeError: A text of the body has a lone surrogate; nothing was sent.
        """
        contiguous = [tensor.detach().cpu().contiguous() for tensor in tensors]
        described = tuple(_Described(NAMES[each.dtype], tuple(each.shape)) for each in contiguous)
        data = _ENCODER.encode(_Header(nonce, described, Raw(_ENCODER.encode(body))))
        self._write(_LENGTH.pack(len(data)) + data, deadline)
        for tensor in contiguous:
            self._write(_bytes_of(tensor), deadline)

    def receive(
        self,
        bodies: Decoder[T],
        deadline: float | None = None,
        max_tensor_bytes: int = MAX_TENSOR_BYTES,
        nonces: Sequence[str] = (),
    ) -> Message[T]:
        """Wait for one message until `deadline`, a time of `time.monotonic()`; None for no limit.

        Args:
            bodies: Decoder of the classes that the body may have.
            deadline: The deadline.
            max_tensor_bytes: Largest size in bytes of all tensors together.
            nonces: The nonces that the message may have; empty for any.

        Raises:
            DeadlineExceeded: No whole message came in time.
            Disconnected: The connection is closed.
            ProtocolError: The message is invalid, or its tensors are too large.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > MAX_HEADER_BYTES:
            raise ProtocolError(f"a header of {length} bytes")
        header = decoded(_HEADERS, self._read(length, deadline))
        # The body of an answer to an earlier request may have another class.
        if nonces and header.nonce not in nonces:
            raise ProtocolError("a message that answers no request")
        listed = [(_dtype(each.dtype), each.shape) for each in header.tensors]
        total = sum(math.prod(shape) * dtype.itemsize for dtype, shape in listed)
        if total > max_tensor_bytes:
            raise ProtocolError(
                f"tensors of {total} bytes, at most {max_tensor_bytes} are expected"
            )
        body = decoded(bodies, header.body)
        tensors = tuple(self._read_tensor(*each, deadline) for each in listed)
        return Message(body, tensors, header.nonce)

    def _read_tensor(
        self, dtype: torch.dtype, shape: Sequence[int], deadline: float | None
    ) -> torch.Tensor:
        count = math.prod(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        data = self._read(count * dtype.itemsize, deadline)
        return torch.frombuffer(data, dtype=dtype).reshape(shape)

    def _write(self, data: bytes | memoryview, deadline: float | None) -> None:
        self._set_timeout(deadline)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise DeadlineExceeded from None
        except OSError as error:
            raise Disconnected(str(error)) from None

    def _set_timeout(self, deadline: float | None) -> None:
        # Each read or write gets the time that is left of the whole message's deadline. With a
        # timeout for each read, a slow sender could keep the receiver for ever.
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise DeadlineExceeded
        self._socket.settimeout(left)

    def _read(self, count: int, deadline: float | None) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            self._set_timeout(deadline)
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


def decoded(bodies: Decoder[T], data: bytes | bytearray | Raw) -> T:
    """Return what untrusted JSON describes.

    Raises:
        ProtocolError: The JSON is malformed, too deep, or fits none of the decoder's classes. The
            text says where.
    """
    try:
        return bodies.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec quotes texts of the JSON, which may be long.
        raise ProtocolError(str(error)[:_MOST_OF_AN_ERROR]) from None


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise ProtocolError(f"a tensor of dtype {name[:40]}")
    return DTYPES[name]


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    if not tensor.numel():
        return memoryview(b"")
    return tensor.reshape(-1).view(torch.uint8).numpy().data
