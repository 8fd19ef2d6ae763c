"""The loop of a worker: a step is asked for, done and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.messages.channel import Answer, Channel, Disconnected, Message
from harness.worker.inside.faults import Fault

Steps = Mapping[str, Callable[[Message], Answer]]
"""By the name that the trusted side asks for."""


def serve(channel: Channel, steps: Steps, describe: Callable[[BaseException], Fault]) -> None:
    """Serve the supervisor until it hangs up; `describe` says what an exception means."""
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
