"""Streams: what is asked for on several of them runs in an order that CUDA allows.

CUDA promises no more than that the work of one stream runs in order, and that one goes on after
an event that it waits for. So while a worker has other streams than the default one, its work is
kept until something waits for it, and then runs in one of two orders that are as far apart as that
allows. What runs too early in one of them reads what is not there yet, and what nobody waits for
does not run at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from harness.device.values import Malformed
from harness.simulator.layout.calls import DEFAULT_STREAM, HOST

_MOST_STREAMS = 4096
# As many as a GPU's driver queues before it lets the host wait.
_MOST_PENDING = 1024
_MOST_PENDING_BYTES = 64 << 20
_MOST_TICKETS = 4096


class RealStreams(Protocol):
    """Those of a GPU, on which work that is timed runs side by side."""

    def create(self, stream: int, *, is_blocking: bool) -> None:
        """Have another one; a blocking one and the default one wait for each other."""

    def destroy(self, stream: int) -> None:
        """Let one go when its work is done."""

    def on(self, stream: int) -> AbstractContextManager[None]:
        """Around work for that stream."""

    def record(self, ticket: int, stream: int) -> None:
        """Let `ticket` stand for what the stream has been asked for so far."""

    def wait(self, stream: int, ticket: int) -> None:
        """Let what the stream is asked for next run after that."""

    def forget_tickets(self) -> None:
        """None that was given so far is asked for again."""


@dataclass(frozen=True)
class _Work:
    stream: int
    name: str
    after: frozenset[int]
    run: Callable[[], None]


@dataclass
class _Stream:
    """One of a worker's.

    Attributes:
        is_blocking: Whether it and the default one wait for each other.
        last: Numbers of the work that what it is asked for next comes after.
    """

    is_blocking: bool
    last: set[int] = field(default_factory=set)


class Streams:
    """A worker's streams; without any but the default one all is done at once.

    Args:
        real: Where work runs as soon as it is asked for, while a call is timed; None for a device
            that times nothing.
    """

    def __init__(self, real: RealStreams | None = None) -> None:
        self._made = real
        self._real: RealStreams | None = None
        self._streams: dict[int, _Stream] = {}
        self._default = _Stream(is_blocking=True)
        self._pending: dict[int, _Work] = {}
        self._pending_bytes = 0
        self._tickets: dict[int, frozenset[int]] = {}
        self._last_stream = self._last_work = self._last_ticket = 0
        self._is_reversed = False
        self._when_idle: list[Callable[[], None]] = []

    def begin(self, *, is_reversed: bool, is_timed: bool) -> None:
        """Begin a step.

        Args:
            is_reversed: Whether what streams may do in any order runs the other way around.
            is_timed: Whether all runs as soon as it may, on real streams.
        """
        self._is_reversed = is_reversed
        self._real = self._made if is_timed else None

    def create(self, *, is_blocking: bool) -> int:
        """The number of another stream.

        Raises:
            Malformed: there are too many.
        """
        if len(self._streams) == _MOST_STREAMS:
            raise Malformed(f"more than {_MOST_STREAMS} streams")
        self._last_stream += 1
        self._streams[self._last_stream] = _Stream(is_blocking)
        if self._made:
            self._made.create(self._last_stream, is_blocking=is_blocking)
        return self._last_stream

    def destroy(self, number: int) -> None:
        """Let a stream go; what it was asked for stays asked for."""
        stream = self._streams.pop(number, None)
        if stream is None:
            raise Malformed(f"no stream has the number {number}")
        if stream.is_blocking:
            self._default.last |= stream.last
        if self._made:
            self._made.destroy(number)

    def submit(self, number: int, name: str, run: Callable[[], None], nbytes: int = 0) -> None:
        """Ask for work.

        Args:
            number: The stream, or `HOST`.
            name: What it is, in words.
            run: Does it.
            nbytes: That it keeps until then.

        Raises:
            BaseException: what the work raises, where it runs at once, and what work raises that
                has to run first.
        """
        stream = self._known(number)
        if number == HOST or not (self._streams or self._pending):
            run()
            return
        if self._real:
            # What is kept is only who has to wait for it.
            with self._real.on(number):
                run()
            run, nbytes = _nothing, 0
        self._keep(stream, _Work(number, name, frozenset(self._last_of(stream)), run))
        self._pending_bytes += nbytes
        if len(self._pending) > _MOST_PENDING or self._pending_bytes > _MOST_PENDING_BYTES:
            self.synchronize()

    @contextmanager
    def at_once(self, number: int, name: str) -> Iterator[None]:
        """Around work of a stream that cannot be kept, since its answer is asked for."""
        stream = self._known(number)
        if number == HOST:
            yield
            return
        self._run(self._last_of(stream))
        with self._real.on(number) if self._real else nullcontext():
            yield
        if number != DEFAULT_STREAM:
            # Somebody has to wait for it all the same.
            self._keep(stream, _Work(number, name, frozenset(), _nothing))

    def when_idle(self, run: Callable[[], None]) -> None:
        """Do something when no work is left that came before."""
        self._when_idle.append(run)
        self._settle()

    def record(self, number: int) -> int:
        """A ticket that stands for all that a stream has been asked for so far."""
        stream = self._known(number)
        if len(self._tickets) == _MOST_TICKETS:
            self.synchronize()
        self._last_ticket += 1
        if self._real:
            self._real.record(self._last_ticket, number)
        if after := self._last_of(stream):
            self._tickets[self._last_ticket] = frozenset(after)
        return self._last_ticket

    def wait(self, number: int, ticket: int) -> None:
        """Let what a stream is asked for next run after what the ticket stands for."""
        stream = self._known(number)
        if self._real:
            self._real.wait(number, ticket)
        stream.last = self._last_of(stream) | self._tickets.get(ticket, frozenset())

    def wait_for(self, ticket: int) -> None:
        """Do what the ticket stands for: the host waits for it."""
        self._run(self._tickets.get(ticket, ()))

    def synchronize(self) -> None:
        """Do all that is left."""
        self._run(tuple(self._pending))

    def end(self) -> tuple[str, ...]:
        """End a step, after which the caller goes on with the default stream.

        Returns:
            What was asked for on streams that the default one does not wait for, in words; it is
            not done.
        """
        try:
            self._run(self._last_of(self._default))
            return tuple(work.name for work in self._pending.values())
        finally:
            if self._made:
                self._made.forget_tickets()
            self._real = None
            self._drop()

    def _known(self, number: int) -> _Stream:
        if number in (DEFAULT_STREAM, HOST):
            return self._default
        if number not in self._streams:
            raise Malformed(f"no stream has the number {number}")
        return self._streams[number]

    def _last_of(self, stream: _Stream) -> set[int]:
        """What the next work of a stream comes after, so far as it is not done."""
        found = set(stream.last)
        if stream is self._default:
            found = found.union(*(each.last for each in self._streams.values() if each.is_blocking))
        elif stream.is_blocking:
            found |= self._default.last
        return found & self._pending.keys()

    def _keep(self, stream: _Stream, work: _Work) -> None:
        self._last_work += 1
        self._pending[self._last_work] = work
        stream.last = {self._last_work}

    def _run(self, wanted: Iterable[int]) -> None:
        """Do some work, and before it what it comes after."""
        wanted = self._pending.keys() & wanted
        # In one order nothing runs that need not, in the other everything that may.
        allowed = self._pending.keys() if self._is_reversed else self._needed(wanted)
        try:
            while wanted & self._pending.keys():
                number = self._next(allowed)
                self._pending.pop(number).run()
        except BaseException:
            # Nothing runs after what broke the device.
            self._drop()
            raise
        self._settle()

    def _needed(self, wanted: Collection[int]) -> Collection[int]:
        """Numbers of some work and of all that it comes after."""
        found: set[int] = set()
        left = list(wanted)
        while left:
            number = left.pop()
            if number not in found:
                found.add(number)
                left += self._pending[number].after & self._pending.keys()
        return found

    def _next(self, allowed: Collection[int]) -> int:
        """Of what may run now the work of the first stream, or of the last."""
        sign = -1 if self._is_reversed else 1
        ready = (
            (sign * work.stream, number)
            for number, work in self._pending.items()
            if number in allowed and not work.after & self._pending.keys()
        )
        return min(ready)[1]

    def _settle(self) -> None:
        # What is timed may still run on one of several streams.
        if self._pending or (self._real and self._streams):
            return
        self._pending_bytes = 0
        self._tickets.clear()
        todo, self._when_idle = self._when_idle, []
        for run in todo:
            run()

    def _drop(self) -> None:
        self._pending.clear()
        self._settle()


def _nothing() -> None:
    """What was done at once."""
