"""Requests to a worker, which constructs a submission's model and calls it in one case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.finding import Finding
from harness.judging import verdict
from harness.judging.weights import WeightPlace, WeightsMismatchError, match_weights
from harness.messages.channel import MAX_TENSOR_BYTES, Message
from harness.messages.digests import digest
from harness.problems.grid import Case
from harness.problems.one_namespace import shared_in
from harness.problems.problem import Problem
from harness.problems.surroundings import move_for, multiprocessors_for
from harness.problems.values import initialisation_seed
from harness.worker.answers import findings_of
from harness.worker.supervisor import Step, Worker

# Bytes that an answer may have for each expected element: a number of any dtype, a byte that says
# what wrote it, and more elements than expected. The slack lets a mistake return any small output.
_MORE_ELEMENTS = 32
_SLACK_BYTES = 64 << 20

MOST_ELEMENTS = MAX_TENSOR_BYTES // _MORE_ELEMENTS
"""The expected number of elements if the size of a right answer is unknown."""


class StepFault(RuntimeError):
    """A failed step of a worker, such as `construct` or `forward`; the message is one line.

    Attributes:
        stop: The verdict and message that the fault leads to.
        findings: Findings that the step had already made when it failed.
    """

    def __init__(self, stop: verdict.Stop, findings: Sequence[Finding] = ()) -> None:
        super().__init__(stop.message)
        self.stop = stop
        self.findings = tuple(findings)


class Conversation:
    """The requests to one worker process about one case of a submission.

    Attributes:
        places: ModelNew's parameter for each of the reference's weights; None before `match`.
    """

    def __init__(self, worker: Worker, problem: Problem, case: Case) -> None:
        self._worker = worker
        self._case = case
        self._constants = {"constants": shared_in(problem, case, worker.source)}
        self.places: Mapping[str, WeightPlace] | None = None
        # The device's work while weights were set, as plain data.
        self._before: list[Mapping[str, Any]] = []

    @property
    def source(self) -> str:
        """The text of the submission's file."""
        return self._worker.source

    def ask(
        self,
        step: Step,
        header: Mapping[str, Any],
        tensors: Sequence[Tensor] = (),
        *,
        elements: int = 0,
        seconds: float | None = None,
    ) -> Message:
        """Have the worker do one step, such as `construct` or `forward`.

        Args:
            step: Name of the step.
            header: Plain data for the step.
            tensors: Tensors for the step.
            elements: Approximate number of elements in a right answer.
            seconds: Deadline in seconds; None for the step's usual one.

        Returns:
            The worker's answer.

        Raises:
            StepFault: The worker answered that the step raised an exception.
            WorkerFailure: The worker died, took too long, or sent an invalid answer.
        """
        most = _MORE_ELEMENTS * elements + _SLACK_BYTES
        answer = self._worker.request(step, dict(header), tensors, seconds, max_tensor_bytes=most)
        if "fault" in answer.header:
            stop = verdict.stop_for_fault(answer.header["fault"], self._case, step)
            raise StepFault(stop, findings_of(answer))
        if work := answer.header.get("work"):
            work["before"], self._before = [*self._before, *work["before"]], []
        return answer

    def import_submission(self) -> None:
        """Have the worker import the submission; raise as `ask` does."""
        self.ask("import", self._constants)

    def construct(self, *, elements: int = 0) -> Message:
        """Have the worker construct the model; raise as `ask` does.

        Args:
            elements: Approximate number of elements in the model's weights.
        """
        seed, call = initialisation_seed(self._case), self._case.constructor_call
        header = {
            "positional": list(call.positional),
            "named": dict(call.named),
            "numbers": sorted(self._case.numbers.items()),
            "multiprocessors": self._multiprocessors(),
            "move": move_for(self._case),
            **self._constants,
            "seed": seed,
        }
        return self.ask("construct", header, elements=elements)

    def _multiprocessors(self) -> int | None:
        """Return how many multiprocessors the device is to report; None for its usual number.

        A kernel that reads %smid may index memory by it, so the usual number is reported to it.
        """
        return None if "smid" in self.source else multiprocessors_for(self._case)

    def match(
        self,
        weights: Mapping[str, Tensor],
        constructed: Message,
        unused: Callable[[], Collection[str]],
    ) -> bool:
        """Find ModelNew's parameter for each of the reference's weights.

        Args:
            weights: The weights as the reference initialises them.
            constructed: The answer to `construct`.
            unused: Function that returns the names of the weights that may be missing, as in
                `match_weights`.

        Returns:
            True if ModelNew has initialised every matched parameter with the reference's values.

        Raises:
            StepFault: A weight that an output depends on has no counterpart.
        """
        theirs = dict(zip(constructed.header["names"], constructed.tensors, strict=True))
        try:
            self.places = match_weights(weights, theirs, unused)
        except WeightsMismatchError as error:
            raise StepFault(verdict.Stop("failed", str(error))) from None
        return all(
            torch.equal(place.laid(weights[name]), theirs[place.name])
            for name, place in self.places.items()
        )

    def send_weights(self, weights: Mapping[str, Tensor]) -> dict[str, str]:
        """Copy the reference's weights into the model; raise as `ask` does.

        A submission can run code of its own in this step, such as a method of its parameters. What
        its device does then counts as work before the next call.

        After `match`, weights without a parameter in ModelNew are left out. Before `match`, all
        weights are sent under the reference's names.

        Returns:
            Digests of the weights that were sent, by ModelNew's names.
        """
        given = dict(weights)
        if self.places is not None:
            placed = ((each, weights[name]) for name, each in self.places.items())
            given = {place.name: place.laid(weight) for place, weight in placed}
        answer = self.ask("weights", {"names": list(given)}, tuple(given.values()))
        # A baseline has no device that records work.
        self._before = [*answer.header.get("work", {}).get("during", ())]
        return {name: digest(value) for name, value in given.items()}
