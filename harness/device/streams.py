"""Order of the work on several CUDA streams.

CUDA promises two things only. The work of one stream runs in order, and a stream continues after an
event that it waits for. So if a worker has streams besides the default one, its work is kept until
the host waits for it, or until the step ends. The work then runs in one of two orders that CUDA
allows. The two orders differ as much as possible:

- the first stream first, and only the work that is waited for, with all that must precede it;
- the last stream first, and all work that may run.

If a submission forgets a wait, some work runs too early in one of the two orders, and reads values
that are not computed yet. Work that nothing waits for does not run at all. No other order is tried,
because the number of orders grows exponentially. So with three or more streams, a mistake that
shows only in another order is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from harness.device.values import Malformed
from harness.simulator.layout.calls import DEFAULT_STREAM, HOST

_MOST_STREAMS = 4096
# A GPU's driver queues as many launches before it makes the host wait.
_MOST_PENDING = 1024
_MOST_PENDING_BYTES = 64 << 20
_MOST_TICKETS = 4096


class RealStreams(Protocol):
    """A GPU's streams, on which the work of a timed call runs side by side."""

    def create(self, stream: int, *, is_blocking: bool) -> None:
        """Create a stream that the other methods find by the number `stream`.

        A blocking stream and the default stream wait for each other.
        """

    def destroy(self, stream: int) -> None:
        """Destroy a stream when all its work is done."""

    def on(self, stream: int) -> AbstractContextManager[None]:
        """Return a context in which work is queued on the stream with that number."""

    def record(self, ticket: int, stream: int) -> None:
        """Record an event with the number `ticket` after all work that the stream has so far."""

    def wait(self, stream: int, ticket: int) -> None:
        """Make the stream's next work wait for the event that was recorded as number `ticket`."""

    def forget_tickets(self) -> None:
        """Drop the recorded events; their numbers are not used again."""


@dataclass(frozen=True)
class _Work:
    """A piece of a stream's work that has not run yet.

    Attributes:
        stream: Number of the work's stream.
        name: Description of the work, in words.
        after: Numbers of the pending work that must run before this work.
        run: Function that does the work.
    """

    stream: int
    name: str
    after: frozenset[int]
    run: Callable[[], None]


@dataclass
class _Stream:
    """A worker's stream.

    Attributes:
        is_blocking: True if this stream and the default stream wait for each other.
        last: Numbers of the work that must run before the stream's next work.
    """

    is_blocking: bool
    last: set[int] = field(default_factory=set)


class Streams:
    """A worker's CUDA streams, and the work that is pending on them.

    If the worker uses only the default stream, each piece of work runs when it is submitted. In a
    timed call, work also runs when it is submitted, on real streams. The order is recorded even
    then, to find work that nothing waits for.

    A ticket is the number of an event. It represents all work that a stream had when the event was
    recorded.

    Args:
        real: The GPU's streams for timed calls; None for a device that does not measure time.
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
        """Begin a step of the worker, such as one forward call.

        Args:
            is_reversed: Whether work runs in the second order of this module, the last stream
                first.
            is_timed: Whether work runs at once on real streams, instead of being kept.
        """
        self._is_reversed = is_reversed
        self._real = self._made if is_timed else None

    def create(self, *, is_blocking: bool) -> int:
        """Create a stream, and return its number.

        Raises:
            Malformed: The worker has too many streams.
        """
        if len(self._streams) == _MOST_STREAMS:
            raise Malformed(f"more than {_MOST_STREAMS} streams")
        self._last_stream += 1
        self._streams[self._last_stream] = _Stream(is_blocking)
        if self._made:
            self._made.create(self._last_stream, is_blocking=is_blocking)
        return self._last_stream

    def destroy(self, number: int) -> None:
        """Destroy a stream; its pending work stays pending.

        Raises:
            Malformed: The stream does not exist.
        """
        stream = self._streams.pop(number, None)
        if stream is None:
            raise Malformed(f"unknown stream number {number}")
        if stream.is_blocking:
            self._default.last |= stream.last
        if self._made:
            self._made.destroy(number)

    def submit(self, number: int, name: str, run: Callable[[], None], nbytes: int = 0) -> None:
        """Run work at once, or keep it until something waits for it.

        Args:
            number: Number of the stream; `HOST` for work of the host, which always runs at once.
            name: Description of the work, in words.
            run: Function that does the work.
            nbytes: Bytes of memory that the work occupies while it is kept.

        Raises:
            Malformed: The stream does not exist.
            BaseException: `run` raised it, or earlier work that had to run first raised it.
        """
        stream = self._known(number)
        if number == HOST or not (self._streams or self._pending):
            run()
            return
        if self._real:
            # The work is done, but something must still wait for it: an empty piece is kept.
            with self._real.on(number):
                run()
            run, nbytes = _nothing, 0
        self._keep(stream, _Work(number, name, frozenset(self._last_of(stream)), run))
        self._pending_bytes += nbytes
        if len(self._pending) > _MOST_PENDING or self._pending_bytes > _MOST_PENDING_BYTES:
            self.synchronize()

    @contextmanager
    def at_once(self, number: int, name: str) -> Iterator[None]:
        """Return a context for a stream's work whose result is needed now.

        The caller does the work inside the context. All work that must precede it has run when the
        context is entered. `name` describes the work in words.
        """
        stream = self._known(number)
        if number == HOST:
            yield
            return
        self._run(self._last_of(stream))
        with self._real.on(number) if self._real else nullcontext():
            yield
        if number != DEFAULT_STREAM:
            # Something must wait for it all the same.
            self._keep(stream, _Work(number, name, frozenset(), _nothing))

    def when_idle(self, run: Callable[[], None]) -> None:
        """Call `run` as soon as no work is pending."""
        self._when_idle.append(run)
        self._settle()

    def record(self, number: int) -> int:
        """Record an event on a stream, and return its ticket.

        The ticket represents all work that the stream has so far.
        """
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
        """Make a stream's next work run after the work that a ticket represents."""
        stream = self._known(number)
        if self._real:
            self._real.wait(number, ticket)
        stream.last = self._last_of(stream) | self._tickets.get(ticket, frozenset())

    def wait_for(self, ticket: int) -> None:
        """Run the work that a ticket represents, because the host waits for it."""
        self._run(self._tickets.get(ticket, ()))

    def synchronize(self) -> None:
        """Run all pending work."""
        self._run(tuple(self._pending))

    def end(self) -> tuple[str, ...]:
        """End a step: run the work that the default stream waits for, and drop the rest.

        The submission's caller continues on the default stream, which does not wait for the rest.

        Returns:
            Descriptions of the dropped work.
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
            raise Malformed(f"unknown stream number {number}")
        return self._streams[number]

    def _last_of(self, stream: _Stream) -> set[int]:
        """Return the numbers of the pending work that must run before a stream's next work."""
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
        """Run the pending work with these numbers, after all work that must precede it."""
        wanted = self._pending.keys() & wanted
        # One order runs only work that is needed, the other all work that may run.
        allowed = self._pending.keys() if self._is_reversed else self._needed(wanted)
        try:
            while wanted & self._pending.keys():
                number = self._next(allowed)
                self._pending.pop(number).run()
        except BaseException:
            # No work runs after an error that broke the device.
            self._drop()
            raise
        self._settle()

    def _needed(self, wanted: Collection[int]) -> Collection[int]:
        """Return the numbers of the wanted work and of all pending work that must precede it."""
        found: set[int] = set()
        left = list(wanted)
        while left:
            number = left.pop()
            if number not in found:
                found.add(number)
                left += self._pending[number].after & self._pending.keys()
        return found

    def _next(self, allowed: Collection[int]) -> int:
        """Return the number of the work to run next.

        Work may run if its number is in `allowed` and no pending work must precede it. Among the
        work that may run, the first stream comes first; in the reversed order, the last stream.
        """
        sign = -1 if self._is_reversed else 1
        ready = (
            (sign * work.stream, number)
            for number, work in self._pending.items()
            if number in allowed and not work.after & self._pending.keys()
        )
        return min(ready)[1]

    def _settle(self) -> None:
        """Drop all tickets and call the functions given to `when_idle`, if no work is pending."""
        # Timed work may still run on one of several real streams.
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
    """Do nothing; it stands in for work that has already run and is kept only for its order."""
