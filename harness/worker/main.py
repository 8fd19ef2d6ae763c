"""The untrusted side: `python -m harness.worker.main DESCRIPTOR SETTINGS`."""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
from collections.abc import Callable

import torch

from harness import interpreter
from harness.worker.baselines import BaselineSession
from harness.worker.faults import describe
from harness.worker.protocol import Channel, Disconnected, Message
from harness.worker.session import Session
from harness.worker.settings import Settings
from harness.worker.timing import Answer

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the supervisor until it hangs up."""
    interpreter.settle()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    settings = Settings.from_json(sys.argv[2])
    # The submission sees a command line of its own.
    sys.argv = [str(settings.submission)]
    torch.set_num_threads(1)
    session: Session | BaselineSession
    if settings.baseline is None:
        session = Session(settings, channel.send)
    else:
        session = BaselineSession(settings.submission, settings.baseline)
    steps = session.steps()
    channel.send({"event": "ready"})
    try:
        while True:
            _serve(channel, steps, settings, session)
    except Disconnected:
        return


def _serve(
    channel: Channel,
    steps: dict[str, Callable[[Message], Answer]],
    settings: Settings,
    session: Session | BaselineSession,
) -> None:
    message = channel.receive()
    try:
        header, tensors = steps[message.header["step"]](message)
    except BaseException as error:  # a submission may raise anything, SystemExit too
        fault = describe(error, settings.submission).to_json()
        channel.send({"fault": fault, "findings": session.findings_so_far()})
    else:
        channel.send(header, tensors)


if __name__ == "__main__":
    main()
