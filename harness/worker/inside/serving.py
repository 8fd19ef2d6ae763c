"""A worker's loop: receive a request for a step, do the step, and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.messages.channel import Answer, Channel, Disconnected, Message
from harness.messages.protocol import Asked
from harness.worker.steps import PROTOCOL, Failed, Ready

Steps = Mapping[type[Asked[Any]], Callable[[Message[Any]], Answer]]
"""The functions that do a worker's steps, by the classes of the supervisor's requests."""


def serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Failed]) -> None:
    """Answer the supervisor's requests until it closes the connection.

    Args:
        channel: Connection to the supervisor.
        steps: Functions that do the steps.
        describe: Function that returns the answer for an exception that a step raised.
    """
    channel.send(Ready())
    try:
        while True:
            _serve(channel, steps, describe)
    except Disconnected:
        return


def _serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Failed]) -> None:
    message = channel.receive(PROTOCOL.requests)
    try:
        body, tensors = steps[type(message.body)](message)
        channel.send(body, tensors, nonce=message.nonce)
    except Disconnected:
        raise
    # A submission may raise anything, SystemExit too. It may also have names that are not Unicode,
    # which cannot be sent.
    except BaseException as error:
        channel.send(describe(error), nonce=message.nonce)
