"""Messages over the channel between the supervising process and a worker."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Annotated

import pytest
import torch
from msgspec import Meta, Struct
from msgspec.json import Decoder

from harness.messages.channel import DTYPES, Channel, DeadlineExceeded, Disconnected, ProtocolError


class Body(Struct, frozen=True):
    """The body of a message in these tests."""

    a: Annotated[int, Meta(ge=0, lt=1 << 48)] = 0
    texts: tuple[str, ...] = ()


BODIES: Decoder[Body] = Decoder(Body)


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
    Channel(other).send(Body(1), [tensor, torch.empty(0, 3, dtype=dtype)], nonce="of this request")
    message = channel.receive(BODIES, time.monotonic() + 10)
    assert (message.body, message.nonce) == (Body(1), "of this request")
    assert message.tensors[0].equal(tensor)
    assert message.tensors[0].dtype == dtype
    assert message.tensors[1].shape == (0, 3)


def test_silence_ends_at_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    """`receive` raises DeadlineExceeded at its deadline if only half a message has come."""
    channel, other = ends
    other.sendall(struct.pack("<I", 100) + b"{")
    with pytest.raises(DeadlineExceeded):
        channel.receive(BODIES, time.monotonic() + 0.05)


def test_hanging_up_is_noticed(ends: tuple[Channel, socket.socket]) -> None:
    """`receive` raises Disconnected if the sender closes its socket in the middle of a message."""
    channel, other = ends
    other.sendall(b"\x05")
    other.close()
    with pytest.raises(Disconnected):
        channel.receive(BODIES, time.monotonic() + 10)


def plain(body: object = None, *, tensors: object = (), **more: object) -> bytes:
    """Return the JSON of a message, of which each part may be wrong."""
    header = {"nonce": "", "tensors": tensors, "body": {"a": 1} if body is None else body}
    return json.dumps({**header, **more}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not json", "malformed"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field"),
        (plain(tensors=[{"dtype": "object", "shape": [1]}]), "a tensor of dtype object"),
        (plain(tensors=[{"dtype": "float32", "shape": [-1]}]), "shape"),
        (plain(tensors=[{"dtype": "float32", "shape": [1 << 50]}]), "shape"),
        (plain(tensors=[{"dtype": "float32", "shape": [1] * 65}]), "shape"),
        (plain(tensors=[{"dtype": "float32", "shape": [0]}] * 4097), "tensors"),
        (plain(nonce="n" * 65), "nonce"),
        (plain(another=1), "unknown field"),
        (plain([]), "Expected `object`"),
        (plain({"a": "1"}), r"\$.a"),
        (plain({"a": 1.5}), r"\$.a"),
        (plain({"a": True}), r"\$.a"),
        # A lone surrogate, which no terminal and no file could hold.
        (plain({"texts": ["\ud800"]}), "."),
        # Python cannot convert very large integers to floats or text.
        (plain().replace(b"1", b"9" * 4200), r"\$.a"),
        (plain().replace(b"1", b"1e999"), "."),
        (plain().replace(b"1", b"Infinity"), "malformed"),
        # Copying it would overflow the stack.
        (plain().replace(b"1", b"[" * 4000 + b"]" * 4000), "."),
    ],
)
def test_what_is_no_message_is_refused(
    ends: tuple[Channel, socket.socket], data: bytes, words: str
) -> None:
    """A message that does not have the form which its receiver expects raises ProtocolError."""
    channel, other = ends
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match=words) as refused:
        channel.receive(BODIES, time.monotonic() + 10)
    assert len(str(refused.value)) <= 200


def test_tensors_beyond_what_is_expected_are_refused(ends: tuple[Channel, socket.socket]) -> None:
    """Tensors that are larger than the receiver expects are refused before they are read."""
    channel, other = ends
    data = plain(tensors=[{"dtype": "float64", "shape": [1 << 40]}])
    other.sendall(struct.pack("<I", len(data)) + data)
    with pytest.raises(ProtocolError, match="at most 100 are expected"):
        channel.receive(BODIES, time.monotonic() + 10, max_tensor_bytes=100)


def test_header_that_is_too_long_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    """A header that claims 4 GiB is refused by its length alone, before any memory is allocated."""
    channel, other = ends
    other.sendall(struct.pack("<I", 0xFFFFFFFF))
    with pytest.raises(ProtocolError, match="4294967295 bytes"):
        channel.receive(BODIES, time.monotonic() + 10)


def test_text_that_is_not_unicode_is_not_sent(ends: tuple[Channel, socket.socket]) -> None:
    """A body with a lone surrogate is refused by `send`, and the next message arrives whole."""
    channel, other = ends
    with pytest.raises(UnicodeEncodeError):
        Channel(other).send(Body(texts=("\ud800",)))
    Channel(other).send(Body(2))
    assert channel.receive(BODIES, time.monotonic() + 10).body == Body(2)
