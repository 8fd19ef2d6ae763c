"""Requests to a worker, which constructs a submission's model and calls it in one case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from msgspec import structs
from torch import Tensor

from harness.device.record import Work
from harness.finding import Finding
from harness.judging import verdict
from harness.judging.weights import WeightPlace, WeightsMismatchError, match_weights
from harness.messages.channel import MAX_TENSOR_BYTES
from harness.messages.digests import digest
from harness.problems.grid import Case
from harness.problems.one_namespace import shared_in
from harness.problems.problem import Problem
from harness.problems.surroundings import move_for, multiprocessors_for
from harness.problems.values import initialisation_seed
from harness.worker.device_worker import ConstructedModel, DeviceWorker, ForwardCall, ForwardOutcome
from harness.worker.steps import Construct
from harness.worker.supervisor import StepFailed

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

    def __init__(self, worker: DeviceWorker, problem: Problem, case: Case) -> None:
        self._worker = worker
        self._case = case
        self._constants = shared_in(problem, case, worker.source)
        self.places: Mapping[str, WeightPlace] | None = None
        # The device's work while weights were set.
        self._before: Sequence[Work] = ()

    @property
    def source(self) -> str:
        """The text of the submission's file."""
        return self._worker.source

    def import_submission(self) -> None:
        """Have the worker import the submission.

        Raises (as every step does):
            StepFault: The step raised an exception.
            WorkerFailure: The worker died, took too long, or sent an invalid answer.
        """
        with self._faults(is_call=False):
            self._worker.import_submission(self._constants)

    def construct(self, *, elements: int = 0) -> ConstructedModel:
        """Have the worker construct the model; raise as `import_submission` does.

        Args:
            elements: Approximate number of elements in the model's weights.
        """
        asked = structs.replace(
            Construct.of(self._case.constructor_call),
            numbers=self._case.numbers,
            multiprocessors=self._multiprocessors(),
            move=move_for(self._case),
            constants=self._constants,
            seed=initialisation_seed(self._case),
        )
        with self._faults(is_call=False):
            return self._worker.construct(asked, _most_bytes(elements))

    def call(
        self,
        how: ForwardCall,
        inputs: Sequence[Tensor],
        *,
        elements: int,
        seconds: float | None = None,
    ) -> ForwardOutcome:
        """Have the worker call the model; raise as `import_submission` does.

        Args:
            how: How the call is made.
            inputs: The inputs.
            elements: Approximate number of elements in right outputs.
            seconds: Deadline in seconds; None for the usual one of a step.
        """
        with self._faults(is_call=True):
            called = self._worker.call(how, inputs, _most_bytes(elements), seconds)
        before, self._before = self._before, ()
        return replace(called, before=(*before, *called.before))

    @contextmanager
    def _faults(self, *, is_call: bool) -> Iterator[None]:
        try:
            yield
        except StepFailed as failed:
            stop = verdict.stop_for_fault(failed.fault, self._case, is_call=is_call)
            raise StepFault(stop, failed.findings) from None

    def _multiprocessors(self) -> int | None:
        """Return how many multiprocessors the device is to report; None for its usual number.

        A kernel that reads %smid may index memory by it, so the usual number is reported to it.
        """
        return None if "smid" in self.source else multiprocessors_for(self._case)

    def match(
        self,
        weights: Mapping[str, Tensor],
        constructed: ConstructedModel,
        unused: Callable[[], Collection[str]],
    ) -> bool:
        """Find ModelNew's parameter for each of the reference's weights.

        Args:
            weights: The weights as the reference initialises them.
            constructed: The result of `construct`.
            unused: Function that returns the names of the weights that may be missing, as in
                `match_weights`.

        Returns:
            True if ModelNew has initialised every matched parameter with the reference's values.

        Raises:
            StepFault: A weight that an output depends on has no counterpart.
        """
        theirs = constructed.weights
        try:
            self.places = match_weights(weights, theirs, unused)
        except WeightsMismatchError as error:
            raise StepFault(verdict.Stop("failed", str(error))) from None
        return all(
            torch.equal(place.laid(weights[name]), theirs[place.name])
            for name, place in self.places.items()
        )

    def send_weights(self, weights: Mapping[str, Tensor]) -> dict[str, str]:
        """Copy the reference's weights into the model; raise as `import_submission` does.

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
        with self._faults(is_call=False):
            self._before = self._worker.set_weights(given)
        return {name: digest(value) for name, value in given.items()}


def _most_bytes(elements: int) -> int:
    """Return how many bytes the tensors of an answer may have that should have `elements`."""
    return _MORE_ELEMENTS * elements + _SLACK_BYTES
