"""Messages between supervisor and worker."""

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
    """A channel, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_tensors_arrive_as_they_were(
    ends: tuple[Channel, socket.socket], dtype: torch.dtype
) -> None:
    """Values, shape and dtype survive, of empty and non-contiguous tensors too."""
    channel, other = ends
    tensor = (torch.arange(24).reshape(2, 3, 4) % 2).to(dtype).transpose(0, 2)
    Channel(other).send({"a": 1}, [tensor, torch.empty(0, 3, dtype=dtype)])
    message = channel.receive(time.monotonic() + 10)
    assert message.header["a"] == 1
    assert message.tensors[0].equal(tensor)
    assert message.tensors[0].dtype == dtype
    assert message.tensors[1].shape == (0, 3)


def test_silence_ends_at_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    """A side that says nothing, or half a message, does not hold up the other."""
    channel, other = ends
    other.sendall(struct.pack("<I", 100) + b"{")
    with pytest.raises(DeadlineExceeded):
        channel.receive(time.monotonic() + 0.05)


def test_hanging_up_is_noticed(ends: tuple[Channel, socket.socket]) -> None:
    """A process that ends in the middle of a message is gone, not late."""
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
    """Nothing that the other side can write is more than an error."""
    channel, other = ends
    other.sendall(struct.pack("<I", len(header)) + header)
    with pytest.raises(ProtocolError):
        channel.receive(time.monotonic() + 10)


def test_header_that_is_too_long_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """The length alone is enough to refuse it: nothing is allocated for it."""
    channel, other = ends
    other.sendall(struct.pack("<I", 0xFFFFFFFF))
    with pytest.raises(ProtocolError, match="4294967295 bytes"):
        channel.receive(time.monotonic() + 10)


def test_half_a_character_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """No terminal and no file could hold it: whoever shows the report would fail."""
    channel, other = ends
    Channel(other).send({"message": ["\ud800"]})
    with pytest.raises(ProtocolError, match="half a character"):
        channel.receive(time.monotonic() + 10)


@pytest.mark.parametrize("number", ["9" * 21, "-" + "9" * 4200, "1e999"])
def test_number_that_cannot_be_reckoned_with_is_refused(
    ends: tuple[Channel, socket.socket], number: str
) -> None:
    """A quotient of it would be no float, and a sum of some no text."""
    channel, other = ends
    data = b'{"tensors": [], "count": ' + number.encode() + b"}"
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match=r"a number of|too large a number"):
        channel.receive(time.monotonic() + 10)


def test_what_is_nested_deeply_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """It parses, but whoever copies or writes it runs out of stack."""
    channel, other = ends
    data = b'{"tensors": [], "a": ' + b"[" * 400 + b"]" * 400 + b"}"
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match="nested too deeply"):
        channel.receive(time.monotonic() + 10)
