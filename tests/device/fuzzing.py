"""Fuzzing of a worker's calls to the device: random, mutated, or built on earlier answers.

`python -m tests.device.fuzzing COUNT SEED` sends COUNT messages, with every kind of call.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.compiler.cache import Cache, default_root
from harness.device.calls import Calls, Refused
from harness.device.executor import Assembler
from harness.device.record import Record
from harness.device.simulated import Simulator
from harness.device.simulated_memory import SimulatedMemory
from harness.device.values import Malformed
from harness.sandbox.limits import Limits
from harness.simulator.layout.calls import DEFAULT_STREAM, HOST, RuntimeCall, TensorEntry, Value
from harness.simulator.layout.runtime import LaunchEntry
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.native.library import build_machine_library

LIMIT = 64 << 20
"""Limit of the device's memory, in bytes."""

_MOST_BYTES = 4 << 30
"""Limit of the process's memory, in bytes; torch's own code takes 1 GiB of it."""

_EDGES = (0, 1, 2, 7, 511, 512, 4096, LIMIT, LIMIT + 1, 1 << 31, 1 << 48, (1 << 63) - 1)
_NUMBERS = (*_EDGES, *(2**64 - 1 - edge for edge in _EDGES))


def operators() -> list[tuple[str, str, Any]]:
    """Return name, overload and schema of every `aten` operator of torch."""
    return [
        (schema.name, schema.overload_name, schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    ]


@dataclass
class Hostile:
    """A source of hostile messages, which learns from the device's answers.

    The device would refuse random bytes at once. So most messages use addresses, streams and
    tickets from earlier answers. Calls of operators mostly follow the operator's real schema, and
    numbers are at the edges of the valid range.

    Attributes:
        draw: Source of randomness.
        operators: Operators as `operators` returns them.
        base: An address in the device's memory, for use before any answer has one.
        addresses: Recently allocated addresses.
        streams: Recently created streams.
        tickets: Recent tickets of events.
    """

    draw: random.Random
    operators: list[tuple[str, str, Any]]
    base: int
    addresses: list[int] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    tickets: list[int] = field(default_factory=list)

    def message(self) -> tuple[int, bytes]:
        """Return a random call: its number and its bytes."""
        if self.draw.random() < 0.02:
            return self.draw.randrange(64), self.draw.randbytes(self.draw.randrange(200))
        call = self.draw.choice(
            [*RuntimeCall, RuntimeCall.OPERATOR, RuntimeCall.OPERATOR, RuntimeCall.OPERATOR]
        )
        data = self._maker(call)()
        if self.draw.random() < 0.1:
            data = self._mutated(data)
        return call, data

    def stream(self) -> int:
        """Return a stream for the next message; the stream may not exist."""
        return self.draw.choice((DEFAULT_STREAM, DEFAULT_STREAM, *self.streams, HOST, 9999))

    def heard(self, call: int, answer: bytes) -> None:
        """Remember the addresses, streams and tickets of an answer."""
        if call == RuntimeCall.STREAM and len(answer) == 8:
            self.streams = [*self.streams[-5:], *struct.unpack("<Q", answer)]
        if call == RuntimeCall.RECORD and len(answer) == 8:
            self.tickets = [*self.tickets[-20:], *struct.unpack("<Q", answer)]
        if call == RuntimeCall.ALLOCATE and len(answer) == 8:
            self.addresses = [*self.addresses[-40:], struct.unpack("<Q", answer)[0]]

    def _maker(self, call: RuntimeCall) -> Callable[[], bytes]:
        numbers = {
            RuntimeCall.ALLOCATE: 2, RuntimeCall.FREE: 1, RuntimeCall.RELEASE: 1,
            RuntimeCall.READ: 2, RuntimeCall.COPY: 3, RuntimeCall.FILL: 3,
            RuntimeCall.FIND: 1, RuntimeCall.MEMORY: 1, RuntimeCall.SEED: 1,
        }  # fmt: skip
        if call in numbers:
            return lambda: b"".join(self._number() for _ in range(numbers[call]))
        if call == RuntimeCall.RECORD:
            return bytes
        if call in (RuntimeCall.WAIT, RuntimeCall.SYNCHRONIZE):
            return lambda: struct.pack("<Q", self.draw.choice((0, 1, *self.tickets)))
        if call == RuntimeCall.END_STREAM:
            return lambda: struct.pack("<Q", self.draw.choice((1, *self.streams)))
        if call == RuntimeCall.STREAM:
            return self._small
        if call == RuntimeCall.WRITE:
            return lambda: self._number() + self.draw.randbytes(self.draw.randrange(64))
        if call in (RuntimeCall.LAUNCH, RuntimeCall.OCCUPANCY):
            size = ctypes.sizeof(LaunchEntry)
            return lambda: self._small() + self.draw.randbytes(size) + b"kernel\0" + self._small()
        if call == RuntimeCall.OPERATOR:
            return self._operator
        if call == RuntimeCall.MODULE:
            return lambda: struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64) + self.draw.randbytes(64)
        return lambda: self._small() + self.draw.randbytes(self.draw.randrange(24))

    def _number(self) -> bytes:
        kind = self.draw.random()
        if kind < 0.5 and self.addresses:
            number = self.draw.choice(self.addresses) + self.draw.choice((0, 0, 0, 4, 512, -4))
        elif kind < 0.7:
            number = self.draw.randrange(1 << 12)
        else:
            number = self.draw.choice((*_NUMBERS, self.base))
        return struct.pack("<Q", number % 2**64)

    def _small(self) -> bytes:
        return struct.pack("<Q", self.draw.randrange(3))

    def _operator(self) -> bytes:
        name, overload, schema = self.draw.choice(self.operators)
        values = [self._value(str(argument.type)) for argument in schema.arguments]
        return self._text(name) + self._text(overload) + b"".join(values)

    def _value(self, kind: str) -> bytes:
        if kind.startswith("Optional") and self.draw.random() < 0.6:
            return bytes([Value.NONE])
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if kind.startswith("List"):
            count = self.draw.randrange(4)
            inner = kind.removeprefix("List[").removesuffix("]")
            items = b"".join(self._value(inner) for _ in range(count))
            return struct.pack("<BQ", Value.LIST, count) + items
        if kind == "Tensor":
            return self._tensor()
        if kind == "bool":
            return struct.pack("<BB", Value.TRUTH, self.draw.randrange(2))
        if kind == "int":
            near = self.draw.randrange(-3, 5)
            number = near if self.draw.random() < 0.9 else self.draw.choice(_EDGES)
            return struct.pack("<Bq", Value.INTEGER, number)
        if kind in ("float", "number"):
            return struct.pack("<Bd", Value.REAL, self.draw.choice((0.0, 1.0, -1.5, 1e30)))
        if kind == "str":
            return self._text(self.draw.choice(("sum", "mean", "none", "floor", "left")))
        if kind == "Device":
            return bytes([Value.DEVICE])
        return bytes([Value.NONE])

    def _tensor(self) -> bytes:
        dimensions = self.draw.randrange(5)
        shape = [self.draw.choice((0, 1, 1, 2, 3, 5)) for _ in range(dimensions)]
        strides, step = [0] * dimensions, 1
        for i in reversed(range(dimensions)):
            strides[i] = (
                step if self.draw.random() < 0.9 else self.draw.choice((0, 1, 100, 1 << 40))
            )
            step *= max(shape[i], 1)
        dtype = self.draw.choice((6, 6, 6, 7, 5, 15, 4, 3, 11, 9, *DTYPES, 99))
        address = self.draw.choice(self.addresses) if self.addresses else self.base
        entry = TensorEntry(address, dtype, dimensions, self.draw.choice((0, 0, 0, 1, 2, 3)))
        return (
            bytes([Value.TENSOR])
            + bytes(entry)
            + struct.pack(f"<{2 * dimensions}q", *shape, *strides)
        )

    def _text(self, text: str) -> bytes:
        return struct.pack("<BQ", Value.TEXT, len(text)) + text.encode()

    def _mutated(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.draw.randrange(1, 4)):
            if changed:
                changed[self.draw.randrange(len(changed))] = self.draw.randrange(256)
        cut = self.draw.randrange(len(changed) + 1) if self.draw.random() < 0.3 else len(changed)
        return bytes(changed[:cut])


def main(count: int, seed: int, trace: str = "") -> None:
    """Send `count` messages; raise an exception if the device fails or exceeds its memory limit.

    Args:
        count: Number of messages.
        seed: Seed of the messages.
        trace: File that holds the last message, for a process that crashes; empty for none.
    """
    torch.set_num_threads(1)
    # A device process has such limits, too. A message that needs more memory is refused.
    Limits(_MOST_BYTES).impose()
    library = ctypes.CDLL(str(build_machine_library(Cache(default_root()))))
    record = Record()
    executor = Simulator(library)(record, Assembler(lambda _: {}, lambda _: b""))
    memory = SimulatedMemory(library)
    memory.limit = LIMIT
    calls = Calls(executor, record, set())
    draw = random.Random(seed)  # noqa: S311 - for replay, not for secrecy
    hostile = Hostile(draw, operators(), memory.base)
    outcomes = {"answered": 0, "refused": 0, "malformed": 0}
    for number in range(count):
        call, data = hostile.message()
        if trace:
            with open(trace, "wb") as file:  # noqa: PTH123
                file.write(struct.pack("<Q", call) + data)
        try:
            hostile.heard(call, calls.answer(call, hostile.stream(), data))
            outcomes["answered"] += 1
        except Refused:
            outcomes["refused"] += 1
        except Malformed:
            outcomes["malformed"] += 1
        assert memory.live_bytes <= LIMIT
        if number % 4096 == 0:
            record.take()
            for allocation in memory.live():
                memory.free(allocation.start)
            hostile.addresses = []
    print(outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
