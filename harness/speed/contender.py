"""Who is timed: a submission or a baseline, each kind in a worker of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from harness.gpu.recording import Launched
from harness.judging import verdict
from harness.judging.own_kernels import launched_from
from harness.judging.weights import WeightsMismatchError, match_weights
from harness.problems.grid import Case
from harness.problems.values import initialisation_seed
from harness.worker.protocol import Message
from harness.worker.shared import Exported
from harness.worker.supervisor import Step, Worker


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
    """

    milliseconds: float
    idle_ms: float
    waited_ms: float
    output: Mapping[str, Any]
    launched: tuple[Launched, ...] | None = None


class Contender:
    """One that can be called; `options` are what its worker needs to know with each call."""

    def __init__(self, name: str, worker: Worker, options: Mapping[str, Any]) -> None:
        self.name = name
        self._worker = worker
        self._options = options

    @property
    def built(self) -> Sequence[bytes]:
        """The shared objects that were built for it."""
        return self._worker.built

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
        header = ask(self._worker, "time", asked, seconds=seconds).header
        waited = 1e3 * (time.perf_counter() - start)
        try:
            sample = Sample(
                float(header["milliseconds"]),
                float(header["idle"]),
                waited,
                header,
                launched_from(header["launched"]) if recorded else None,
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
        ask(self._worker, "repeat", {**self._options, "places": list(places), "count": count})


def prepare_submission(
    worker: Worker, case: Case, weights: Mapping[str, Tensor], shared: Exported
) -> None:
    """Construct `ModelNew` with these weights; the submission is imported already.

    Raises:
        ContenderError: It raises, or its weights do not fit.
    """
    seed = initialisation_seed(case)
    built = ask(worker, "construct", {"arguments": dict(case.arguments), "seed": seed})
    shapes = {
        name: tensor.shape
        for name, tensor in zip(built.header["names"], built.tensors, strict=True)
    }
    try:
        names = match_weights(weights, shapes)
    except WeightsMismatchError as error:
        raise ContenderError(str(error)) from None
    ask(worker, "weights", {"names": [names[name] for name in weights]}, tuple(weights.values()))
    ask(worker, "attach", {"shared": shared.to_plain()})


def prepare_baseline(
    worker: Worker, case: Case, weights: Mapping[str, Tensor], shared: Exported
) -> None:
    """Construct `Model` with these weights."""
    ask(worker, "construct", {"arguments": dict(case.arguments)})
    ask(worker, "weights", {"names": list(weights)}, tuple(weights.values()))
    ask(worker, "attach", {"shared": shared.to_plain()})


def ask(
    worker: Worker,
    step: Step,
    header: Mapping[str, Any],
    tensors: tuple[Tensor, ...] = (),
    seconds: float | None = None,
) -> Message:
    """Have a worker do one step.

    Raises:
        ContenderError: It answered with a fault.
        WorkerFailure: It died or took too long.
    """
    answer = worker.request(step, dict(header), tensors, seconds)
    if "fault" in answer.header:
        raise ContenderError(verdict.of_fault(answer.header["fault"]).message)
    return answer
