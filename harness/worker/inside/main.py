"""The untrusted side: `python -m harness.worker.inside.main DESCRIPTOR SETTINGS`."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

import torch

from harness.messages.channel import Channel, Disconnected, Message
from harness.sandbox.limits import die_with_parent
from harness.system import codec, interpreter
from harness.worker.inside.asking import Asking
from harness.worker.inside.baselines import BaselineSession
from harness.worker.inside.faults import describe
from harness.worker.inside.session import Session
from harness.worker.inside.timing import Answer
from harness.worker.settings import Instructions


def main() -> None:
    """Serve the supervisor until it hangs up."""
    interpreter.settle()
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    told = codec.decode(sys.argv[2], Instructions)
    if told.limits is not None:
        told.limits.impose()
    # The submission sees a command line of its own.
    sys.argv = [str(told.submission)]
    torch.set_num_threads(1)
    session: Session | BaselineSession
    if told.baseline is None:
        session = Session(told, Asking(channel))
    else:
        session = BaselineSession(told.submission, told.baseline)
    steps = session.steps()
    channel.send({"nonce": ""})
    try:
        while True:
            _serve(channel, steps, told)
    except Disconnected:
        return


def _serve(
    channel: Channel,
    steps: dict[str, Callable[[Message], Answer]],
    told: Instructions,
) -> None:
    message = channel.receive()
    nonce = {"nonce": message.header.pop("nonce")}
    try:
        header, tensors = steps[message.header["step"]](message)
    except BaseException as error:  # a submission may raise anything, SystemExit too
        fault = describe(error, told.submission, is_simulated=told.libraries is not None)
        channel.send({"fault": fault.to_json(), "findings": [], **nonce})
    else:
        channel.send({**header, **nonce}, tensors)


if __name__ == "__main__":
    main()
