"""Fuzzing of whole conversations, each with a new device, beside another device of the process.

`python -m tests.device.fuzzing_sessions COUNT SEED` runs COUNT conversations. In each conversation,
the trusted side sends its requests in any order. Before each request, the worker sends any number
of messages: calls, parts of calls, and calls with a wrong size.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import select
import socket
import sys
import tempfile
from collections import Counter

import torch

from harness.compiler.cache import Cache, default_root
from harness.device.place import Place
from harness.device.process import DeviceClient, DeviceProcess
from harness.device.requests import Begin, End, FindLeaks, FindLines, PutInputs, PutWeights
from harness.messages.channel import Disconnected
from harness.simulator.layout.calls import MOST_BYTES, AnswerEntry, RequestEntry, RuntimeCall
from harness.simulator.native.library import build_machine_library
from tests.device.conversing import ask, put, read, received
from tests.device.fuzzing import Hostile, operators

_ANSWER_SECONDS = 0.05
_STEPS_OF_A_SESSION = 12
_MOST_MESSAGES = 12
_KEPT = torch.arange(64.0)


class Worker:
    """A worker that sends hostile messages to a device."""

    def __init__(self, draw: random.Random, device: DeviceClient, hostile: Hostile) -> None:
        self._draw = draw
        self._socket = device.worker_socket
        self._hostile = hostile
        self.sent = 0

    def be_hostile(self) -> None:
        """Send a random number of messages, and read those answers that come soon."""
        with contextlib.suppress(OSError):
            for _ in range(self._draw.randrange(_MOST_MESSAGES)):
                self._send()
                self.sent += 1

    def _send(self) -> None:
        call, data = self._hostile.message()
        size = len(data)
        kind = self._draw.random()
        if kind < 0.02:
            size = self._draw.choice((size + 1, MOST_BYTES + 1, 1 << 40, 2**64 - 1))
        message = bytes(RequestEntry(call, 0, size)) + data
        if kind > 0.99:
            message = message[: self._draw.randrange(len(message))]
        self._socket.sendall(message)
        if size > len(data) or kind > 0.99:
            # A device waits for the rest of a call until the worker's deadline.
            self._socket.shutdown(socket.SHUT_WR)
        if call != RuntimeCall.RELEASE:
            self._hear(call)

    def _hear(self, call: int) -> None:
        """Read the answer to a call if it comes within 0.05 s."""
        if not select.select([self._socket], [], [], _ANSWER_SECONDS)[0]:
            return
        head = received(self._socket, ctypes.sizeof(AnswerEntry))
        if len(head) < ctypes.sizeof(AnswerEntry):
            raise ConnectionError
        entry = AnswerEntry.from_buffer_copy(head)
        answer = received(self._socket, entry.size)
        if not entry.error:
            self._hostile.heard(call, answer)


def trusted_step(draw: random.Random, device: DeviceClient, places: list[Place]) -> str:
    """Send one random request of the trusted side to the device.

    Args:
        draw: Source of randomness.
        device: The device.
        places: Places of the current inputs or weights; this function replaces them.

    Returns:
        The name of the request, or `malformed` if the device reports a malformed message.
    """
    do = draw.choice(
        ["begin", "begin", "end", "end", "inputs", "weights", "read", "leaks", "lines"]
    )
    if do in ("inputs", "weights"):
        value = torch.zeros(draw.choice((0, 1, 5, 1000)))
        asked = PutInputs(draw.random() < 0.5) if do == "inputs" else PutWeights()
        places[:] = put(device, value, request=asked)
    elif do == "read":
        anywhere = Place(draw.randrange(1 << 48), (draw.randrange(9),), (1,), draw.randrange(20))
        read(device, *places, anywhere)
    elif do == "end":
        told = ask(device, End({str(i): place for i, place in enumerate(places)}))
        return "malformed" if told.malformed else do
    elif do == "begin":
        ask(device, Begin(budget=draw.choice((None, 1000)), counting=draw.random() < 0.2))
    elif do == "lines":
        ask(device, FindLines("mine.py"))
    else:
        ask(device, FindLeaks())
    return do


def main(count: int, seed: int) -> None:
    """Run `count` conversations; raise an exception if one changes the other device's memory."""
    library = build_machine_library(Cache(default_root()))
    draw = random.Random(seed)  # noqa: S311 - for replay, not for secrecy
    known = operators()
    seen: Counter[str] = Counter()
    process = DeviceProcess(library, 1, must_be_confined=False)
    with tempfile.TemporaryFile() as output:
        neighbour = process.begin(output, 0, 1)
        (kept,) = put(neighbour, _KEPT)
        for _ in range(count):
            device = process.begin(output, 0, 1)
            worker = Worker(draw, device, Hostile(draw, known, kept.address))
            places: list[Place] = []
            try:
                for _ in range(_STEPS_OF_A_SESSION):
                    worker.be_hostile()
                    seen[trusted_step(draw, device, places)] += 1
            except Disconnected:
                seen["ended"] += 1
            finally:
                device.close()
            seen["messages"] += worker.sent
            assert torch.equal(read(neighbour, kept)[1][0], _KEPT)
        neighbour.close()
        process.close()
        output.seek(0)
        print(output.read().decode(errors="replace")[-2000:], file=sys.stderr)
    print(dict(seen))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
