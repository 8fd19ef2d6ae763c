"""A worker's loop: receive a request for a step, do the step, and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.messages.channel import Answer, Channel, Disconnected, Message
from harness.worker.inside.faults import Fault

Steps = Mapping[str, Callable[[Message], Answer]]
"""A worker's steps, by the names in the supervisor's requests."""


def serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Fault]) -> None:
    """Answer the supervisor's requests until it closes the connection.

    Args:
        channel: Connection to the supervisor.
        steps: Functions that do the steps, by the names in requests.
        describe: Function that returns the fault for an exception that a step raised.
    """
    channel.send({"nonce": ""})
    try:
        while True:
            _serve(channel, steps, describe)
    except Disconnected:
        return


def _serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Fault]) -> None:
    message = channel.receive()
    nonce = {"nonce": message.header.pop("nonce")}
    try:
        header, tensors = steps[message.header["step"]](message)
    except BaseException as error:  # a submission may raise anything, SystemExit too
        channel.send({"fault": describe(error).to_json(), "findings": [], **nonce})
    else:
        channel.send({**header, **nonce}, tensors)
