"""Messages over the channel between the supervising process and a worker."""

from __future__ import annotations

import json
import socket
import struct
import time

import pytest
import torch

from harness.messages.channel import DTYPES, Channel, DeadlineExceeded, Disconnected, ProtocolError


@pytest.fixture
def ends() -> tuple[Channel, socket.socket]:
    """Return a channel, and the plain socket at its other end."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_tensors_arrive_as_they_were(
    ends: tuple[Channel, socket.socket], dtype: torch.dtype
) -> None:
    """A tensor that is sent over a channel arrives with the same values, shape and dtype.

    That holds for empty and non-contiguous tensors, too.
    """
    channel, other = ends
    tensor = (torch.arange(24).reshape(2, 3, 4) % 2).to(dtype).transpose(0, 2)
    Channel(other).send({"a": 1}, [tensor, torch.empty(0, 3, dtype=dtype)])
    message = channel.receive(time.monotonic() + 10)
    assert message.header["a"] == 1
    assert message.tensors[0].equal(tensor)
    assert message.tensors[0].dtype == dtype
    assert message.tensors[1].shape == (0, 3)


def test_silence_ends_at_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    """`receive` raises DeadlineExceeded at its deadline if only half a message has come."""
    channel, other = ends
    other.sendall(struct.pack("<I", 100) + b"{")
    with pytest.raises(DeadlineExceeded):
        channel.receive(time.monotonic() + 0.05)


def test_hanging_up_is_noticed(ends: tuple[Channel, socket.socket]) -> None:
    """`receive` raises Disconnected if the sender closes its socket in the middle of a message."""
    channel, other = ends
    other.sendall(b"\x05")
    other.close()
    with pytest.raises(Disconnected):
        channel.receive(time.monotonic() + 10)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b"{}",
        json.dumps({"tensors": [{"dtype": "object", "shape": [1]}]}).encode(),
        json.dumps({"tensors": [{"dtype": "float32", "shape": [-1]}]}).encode(),
        json.dumps({"tensors": [{"dtype": "float32", "shape": [1 << 50]}]}).encode(),
    ],
)
def test_what_is_no_message_is_refused(ends: tuple[Channel, socket.socket], header: bytes) -> None:
    """A message with a malformed header raises ProtocolError."""
    channel, other = ends
    other.sendall(struct.pack("<I", len(header)) + header)
    with pytest.raises(ProtocolError):
        channel.receive(time.monotonic() + 10)


def test_header_that_is_too_long_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """A header that claims 4 GiB is refused by its length alone, before any memory is allocated."""
    channel, other = ends
    other.sendall(struct.pack("<I", 0xFFFFFFFF))
    with pytest.raises(ProtocolError, match="4294967295 bytes"):
        channel.receive(time.monotonic() + 10)


def test_half_a_character_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """A lone surrogate in a message is refused, since no terminal and no file could hold it."""
    channel, other = ends
    Channel(other).send({"message": ["\ud800"]})
    with pytest.raises(ProtocolError, match="invalid Unicode"):
        channel.receive(time.monotonic() + 10)


@pytest.mark.parametrize("number", ["9" * 21, "-" + "9" * 4200, "1e999"])
def test_number_that_cannot_be_reckoned_with_is_refused(
    ends: tuple[Channel, socket.socket], number: str
) -> None:
    """A message with an infinite float, or with an integer of more than 20 digits, is refused.

    Otherwise, later code could fail: Python cannot convert very large integers to floats or text.
    """
    channel, other = ends
    data = b'{"tensors": [], "count": ' + number.encode() + b"}"
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match=r"a number of|a number that is too large"):
        channel.receive(time.monotonic() + 10)


def test_what_is_nested_deeply_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """A message with 400 nested lists is refused, because copying it would overflow the stack."""
    channel, other = ends
    data = b'{"tensors": [], "a": ' + b"[" * 400 + b"]" * 400 + b"}"
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match="nested too deeply"):
        channel.receive(time.monotonic() + 10)
