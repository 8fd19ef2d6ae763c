"""The device process: `python -m harness.device.main DESCRIPTOR INSTRUCTIONS`.

It imports torch and the device's code once. For each worker, it then forks a process that is that
worker's device. The parent itself never uses the GPU, because a forked process cannot use its
parent's CUDA context.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

from harness.device.on_gpu import gpu
from harness.device.session import DeviceSession, MakeExecutor
from harness.device.simulated import Simulator
from harness.messages.channel import Channel
from harness.sandbox.limits import Limits, die_with_parent
from harness.system import codec, interpreter

MOST_BYTES = 4096
"""Largest size in bytes of a request from the supervisor to this process."""


@dataclass(frozen=True)
class DeviceArguments:
    """Settings that a device process gets on its command line.

    Attributes:
        library: The simulator's shared library; None for a GPU.
        limits: Resource limits that the process imposes on itself.
    """

    library: Path | None
    limits: Limits


def main() -> None:
    """Start and end devices as the supervisor requests, until it closes the connection."""
    interpreter.settle()
    die_with_parent()
    told = codec.decode(sys.argv[2], DeviceArguments)
    told.limits.impose()
    torch.set_num_threads(1)
    library = ctypes.CDLL(str(told.library)) if told.library else None
    sessions: dict[int, int] = {}
    with socket.socket(fileno=int(sys.argv[1])) as trusted:
        while True:
            # The socket preserves message boundaries, so that this is one whole request.
            data, descriptors, _, _ = socket.recv_fds(trusted, MOST_BYTES, 3)
            if not data:
                break
            asked = json.loads(data)
            if "end" in asked:
                _end(sessions.pop(asked["end"], None))
                trusted.send(b"ended")
                continue
            process = os.fork()
            if not process:
                trusted.close()
                make = Simulator(library, asked["schedule"], asked["cores"]) if library else gpu
                _be_a_device(make, descriptors)
            sessions[asked["session"]] = process
            for descriptor in descriptors:
                os.close(descriptor)
    for child in sessions.values():
        _end(child)


def _be_a_device(make: MakeExecutor, descriptors: list[int]) -> None:
    """Serve as one worker's device until the supervisor closes the connection, then exit."""
    status = 1
    try:
        die_with_parent()
        calls, control, output = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        session = DeviceSession(
            make, socket.socket(fileno=calls), Channel(socket.socket(fileno=control)), set()
        )
        session.serve()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _end(process: int | None) -> None:
    """Kill the process of a device, if it is not None, and wait for its end."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
