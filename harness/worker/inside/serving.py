"""A worker's loop: receive a request for a step, do the step, and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.messages.channel import Answer, Channel, Disconnected, Message
from harness.worker.inside.faults import Fault

Steps = Mapping[str, Callable[[Message], Answer]]
"""A worker's steps, by the names in the trusted side's requests."""


def serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Fault]) -> None:
    """Serve the supervisor until it hangs up.

    Args:
        channel: Connection to the supervisor.
        steps: The steps.
        describe: Returns the fault for a step's exception.
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
