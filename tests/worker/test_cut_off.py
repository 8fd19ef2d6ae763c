"""A worker or a device process that is killed while it exchanges messages with the trusted side."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import harness
from harness.messages.channel import Channel
from harness.records.report import Report
from harness.sandbox.confined import Confined
from harness.sandbox.forked import Forked
from tests.processes import descendants
from tests.support import ROOT

FAULTS = ROOT / "tests" / "faults"
MESSAGES = 100
"""A little below the number of messages of a check of the own configuration."""


@dataclass
class Killer:
    """A counter of messages that kills a worker or device process before a chosen message."""

    title: str
    left: int = -1

    def count(self) -> None:
        """Count a message; kill the process if the message is the chosen one."""
        self.left -= 1
        if self.left == 0:
            found = [pid for pid, said in descendants(os.getpid()) if self.title in said]
            assert found, f"no {self.title} runs"
            for pid in found:
                with contextlib.suppress(ProcessLookupError):  # it ends with another of them
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Return a killer that counts each message which this process sends or receives."""
    found = Killer("")

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            found.count()
            return real(*arguments, **options)

        return call

    monkeypatch.setattr(Channel, "send", counted(Channel.send))
    monkeypatch.setattr(Channel, "receive", counted(Channel.receive))
    return found


@pytest.fixture(scope="module")
def client() -> Iterator[harness.Client]:
    """Yield a harness client that evaluates in this process."""
    options = harness.Options(device="simulator", grid="own", seed=1)
    with harness.Client("in_process", options=options) as found:
        yield found


def checked(client: harness.Client) -> Report:
    """Return the report on an honest submission."""
    reference = FAULTS / "reference" / "double.py"
    return client.submit(FAULTS / "honest.py", reference).result()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("honest", ("the worker was killed by SIGKILL",)),
        # Either side may notice the end first, so there are two messages.
        ("harness-device", ("the device has ended", "the connection to the device was lost")),
    ],
)
def test_killed_at_a_message(
    client: harness.Client, killer: Killer, title: str, words: tuple[str, ...]
) -> None:
    """The report says which process was killed, and the next submission passes."""
    killer.title = title
    # A process that is killed before it has begun gives another message.
    for message in range(3, MESSAGES, 20):
        killer.left = message
        cut_off = checked(client)
        assert killer.left <= 0, f"a check has fewer than {message} messages"
        assert cut_off.verdict == "error", (message, cut_off.message)
        assert any(each in cut_off.message for each in words), (message, cut_off.message)
    assert checked(client).verdict == "passed"


@pytest.mark.thorough
def test_device_process_that_has_just_been_killed_is_replaced(
    client: harness.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check passes if the shared device process was killed, and its end is not known yet."""
    assert checked(client).verdict == "passed"
    for pid, said in descendants(os.getpid()):
        if "harness-device" in said:
            os.kill(pid, signal.SIGKILL)
    # A caller that does not wait learns nothing of the end.
    for kind in (Confined, Forked):
        monkeypatch.setattr(kind, "wait", waits_if_it_may(kind.wait))
    assert checked(client).verdict == "passed"


def waits_if_it_may(wait: Callable[..., bool]) -> Callable[..., bool]:
    """Return the method `wait` of a process, changed to return False if it may not wait at all."""
    return lambda process, seconds: seconds > 0 and wait(process, seconds)
