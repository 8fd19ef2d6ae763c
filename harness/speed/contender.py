"""Who is timed: a submission or a baseline, each kind in a worker of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harness.finding import Finding
from harness.gpu.recording import Launched
from harness.judging.conversation import Conversation, StepFault
from harness.judging.own_kernels import launched_from
from harness.worker.answers import findings_of
from harness.worker.shared import Exported


class ContenderError(RuntimeError):
    """A contender cannot be timed; the message says why, in one line."""


@dataclass(frozen=True)
class Sample:
    """One timed call, as its worker tells it.

    Attributes:
        milliseconds: Device time.
        idle_ms: How much later the whole device was idle.
        waited_ms: From the question to the answer, by this side's clock.
        output: What kind of output there was; the values are in shared memory.
        launched: Its kernels; None where they were not recorded.
        changed: What it has changed in its process since it was last looked at.
    """

    milliseconds: float
    idle_ms: float
    waited_ms: float
    output: Mapping[str, Any]
    launched: tuple[Launched, ...] | None = None
    changed: tuple[Finding, ...] = ()


class Contender:
    """One that can be called; `options` are what its worker needs to know with each call."""

    def __init__(self, name: str, conversation: Conversation, options: Mapping[str, Any]) -> None:
        self.name = name
        self._conversation = conversation
        self._options = options

    @property
    def built(self) -> Sequence[bytes]:
        """The shared objects that were built for it."""
        return self._conversation.built

    def time(
        self, places: Sequence[int], seconds: float | None = None, *, recorded: bool = False
    ) -> Sample:
        """One timed call on what the shared inputs hold now.

        Args:
            places: Where the shared tensors lie, as `Exported.at` takes it.
            seconds: For the call, if not as long as any step.
            recorded: Whether its kernels are recorded, which costs time.

        Raises:
            ContenderError: It raised, or answered nonsense.
            WorkerFailure: Its worker died or took too long.
        """
        start = time.perf_counter()
        asked = {**self._options, "places": list(places), "recorded": recorded}
        with _faults():
            answer = self._conversation.ask("time", asked, seconds=seconds)
        header = answer.header
        waited = 1e3 * (time.perf_counter() - start)
        try:
            sample = Sample(
                float(header["milliseconds"]),
                float(header["idle"]),
                waited,
                header,
                launched_from(header["launched"]) if recorded else None,
                tuple(findings_of(answer)) if "findings" in header else (),
            )
        except (KeyError, TypeError, ValueError):
            raise ContenderError(f"{self.name}: its worker sent no times") from None
        if not 0 < sample.milliseconds <= waited:
            raise ContenderError(
                f"{self.name}: its worker tells of {sample.milliseconds} ms, "
                f"and answered after {waited:.3f} ms"
            )
        return sample

    def repeat(self, places: Sequence[int], count: int) -> None:
        """Calls in a row, until the last is done; raises as `time` does."""
        asked = {**self._options, "places": list(places), "count": count}
        with _faults():
            self._conversation.ask("repeat", asked)


def prepare_submission(
    conversation: Conversation, weights: Mapping[str, Tensor], shared: Exported
) -> None:
    """Import the submission, and construct `ModelNew` with these weights.

    Raises:
        ContenderError: It raises, or its weights do not fit.
        WorkerFailure: Its worker died or took too long.
    """
    with _faults():
        conversation.ask("import", {})
        elements = sum(weight.numel() for weight in weights.values())
        conversation.match(weights, conversation.construct(elements=elements))
        conversation.send_weights(weights)
        conversation.ask("attach", {"shared": shared.to_plain()})


def prepare_baseline(
    conversation: Conversation, weights: Mapping[str, Tensor], shared: Exported
) -> None:
    """Construct `Model` with these weights; raises as `prepare_submission` does."""
    with _faults():
        conversation.construct()
        conversation.send_weights(weights)
        conversation.ask("attach", {"shared": shared.to_plain()})


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except StepFault as fault:
        raise ContenderError(str(fault)) from None
