"""A submission's worker: `python -m harness.worker.inside.main DESCRIPTOR INSTRUCTIONS`."""

from __future__ import annotations

import socket
import sys
from functools import partial

import torch

from harness.messages.channel import Channel
from harness.sandbox.limits import die_with_parent
from harness.system import codec, interpreter
from harness.worker.inside.asking import Asking
from harness.worker.inside.faults import describe
from harness.worker.inside.serving import serve
from harness.worker.inside.session import Session
from harness.worker.settings import WorkerArguments


def main() -> None:
    """Run the worker: answer the supervisor's requests until it closes the connection."""
    interpreter.settle()
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    told = codec.decode(sys.argv[2], WorkerArguments)
    told.limits.impose()
    # The submission sees only its own path as the command line.
    sys.argv = [str(told.submission)]
    torch.set_num_threads(1)
    steps = Session(told, Asking(channel)).steps()
    serve(channel, steps, partial(describe, submission=told.submission))


if __name__ == "__main__":
    main()
