"""Messages between the supervisor and a worker: a JSON header and raw tensor bytes.

A message is a 4-byte little-endian length, that many bytes of JSON, and the bytes of the tensors
that the JSON's `tensors` lists, in order.

The sender may be hostile. So nothing is ever unpickled, and every size is checked before memory is
allocated for it.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

# Imported by name: code that replaces json's functions later does not affect messages.
from json import dumps, loads
from typing import Any

import torch

MAX_HEADER_BYTES = 16 << 20
MAX_TENSORS = 4096
MAX_DIMENSIONS = 64
MAX_TENSOR_BYTES = 16 << 30
"""Limit of all tensors of a message together, unless the receiver expects less."""

# Deeper than any message of the harness, and shallow enough for recursion.
_MOST_LEVELS = 32
_MOST_DIGITS = 20

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
    """A received message is not valid; the text says why."""


class Disconnected(ConnectionError):
    """The connection is closed: the process at its other end has closed it or has ended."""


class DeadlineExceeded(TimeoutError):
    """A deadline passed before a whole message was sent or received."""


Answer = tuple[dict[str, Any], Sequence[torch.Tensor]]
"""A header and tensors that answer a message."""


@dataclass(frozen=True)
class Message:
    """A JSON header and tensors; tensors that `Channel` has received are contiguous, on the CPU."""

    header: dict[str, Any]
    tensors: tuple[torch.Tensor, ...] = ()


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
        header: dict[str, Any],
        tensors: Sequence[torch.Tensor] = (),
        deadline: float | None = None,
    ) -> None:
        """Send one message before `deadline`, a time of `time.monotonic()`; None for no limit.

        Raises:
            DeadlineExceeded: The receiver did not read the message in time.
            Disconnected: The connection is closed.
        """
        contiguous = [tensor.detach().cpu().contiguous() for tensor in tensors]
        described = [
            {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
            for t in contiguous
        ]
        data = dumps({**header, "tensors": described}).encode()
        self._write(_LENGTH.pack(len(data)) + data, deadline)
        for tensor in contiguous:
            self._write(_bytes_of(tensor), deadline)

    def receive(
        self, deadline: float | None = None, max_tensor_bytes: int = MAX_TENSOR_BYTES
    ) -> Message:
        """Wait for one message until `deadline`, a time of `time.monotonic()`; None for no limit.

        Raises:
            DeadlineExceeded: No whole message came in time.
            Disconnected: The connection is closed.
            ProtocolError: The message is invalid, or its tensors exceed `max_tensor_bytes`
                together.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > MAX_HEADER_BYTES:
            raise ProtocolError(f"a header of {length} bytes")
        header = _parsed(bytes(self._read(length, deadline)))
        listed = _described_tensors(header.pop("tensors", None))
        total = sum(math.prod(shape) * dtype.itemsize for dtype, shape in listed)
        if total > max_tensor_bytes:
            raise ProtocolError(
                f"tensors of {total} bytes, at most {max_tensor_bytes} are expected"
            )
        return Message(header, tuple(self._read_tensor(*each, deadline) for each in listed))

    def _read_tensor(
        self, dtype: torch.dtype, shape: list[int], deadline: float | None
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


def _parsed(data: bytes) -> dict[str, Any]:
    """Parse an untrusted JSON header; check its numbers, texts and levels of nesting.

    Raises:
        ProtocolError: The header is not a JSON object. Or it has an infinite or too long number,
            invalid Unicode, or too many levels of nesting.
    """
    try:
        header = loads(
            data, parse_constant=_refuse_constant, parse_int=_whole, parse_float=_fraction
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a header that does not parse: {error}") from None
    if not isinstance(header, dict):
        raise ProtocolError("a header that is not an object")
    _refuse_what_is_no_text_or_too_deep(header)
    return header


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _whole(digits: str) -> int:
    """Return an integer of a JSON text; it may have at most `_MOST_DIGITS` digits.

    The limit excludes much larger integers, for which Python's conversion to a float or to text
    raises an error.
    """
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:_MOST_DIGITS]} is a number that is too large")
    return number


def _refuse_what_is_no_text_or_too_deep(header: dict[str, Any]) -> None:
    level: list[object] = [header]
    for _ in range(_MOST_LEVELS):
        level = [each for value in level for each in _parts(value)]
        for value in level:
            if isinstance(value, str) and not _is_unicode(value):
                raise ProtocolError("a header with invalid Unicode")
        if not level:
            return
    raise ProtocolError("a header that is nested too deeply")


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return chain(value, value.values())
    return value if isinstance(value, list) else ()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _described_tensors(plain: object) -> list[tuple[torch.dtype, list[int]]]:
    if not isinstance(plain, list) or len(plain) > MAX_TENSORS:
        raise ProtocolError("a header without a list of tensors")
    return [_described_tensor(each) for each in plain]


def _described_tensor(plain: object) -> tuple[torch.dtype, list[int]]:
    name, shape = (
        (plain.get("dtype"), plain.get("shape")) if isinstance(plain, dict) else (None, None)
    )
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise ProtocolError(f"a tensor of dtype {str(name)[:40]}")
    fits = (
        isinstance(shape, list)
        and len(shape) <= MAX_DIMENSIONS
        and all(type(length) is int and 0 <= length < 1 << 48 for length in shape)
    )
    if not isinstance(shape, list) or not fits:
        raise ProtocolError(f"a tensor of shape {str(shape)[:200]}")
    return dtype, shape


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    if not tensor.numel():
        return memoryview(b"")
    return tensor.reshape(-1).view(torch.uint8).numpy().data
