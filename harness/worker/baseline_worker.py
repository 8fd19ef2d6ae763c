"""A worker for a baseline: it runs the reference, which is trusted, directly on the GPU."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from harness.messages.kinds import BaselineKind
from harness.messages.protocol import Asked
from harness.problems.configuration import ConstructorCall
from harness.sandbox.confined import ProcessTree
from harness.system import interpreter
from harness.worker.steps import Construct, Failed, SetWeights, Time, Timed
from harness.worker.supervisor import Deadlines, StepFailed, TimeLeft, Worker

A = TypeVar("A")


class BaselineWorker(Worker):
    """A worker that times the trusted reference, outside of any sandbox.

    Each method raises `StepFailed` if the reference raises an exception, and `WorkerFailure` if the
    worker gives no valid answer.
    """

    def __init__(self, reference: Path, kind: BaselineKind, deadlines: Deadlines) -> None:
        """Start a worker for one kind of baseline, such as `torch.compile`."""
        self._kind = kind
        super().__init__(reference, deadlines, TimeLeft(deadlines))

    def construct(self, call: ConstructorCall) -> None:
        """Construct `Model`."""
        self._done(Construct.of(call))

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Replace parameters and buffers, by name."""
        self._done(SetWeights(tuple(weights)), tuple(weights.values()))

    def time(self, asked: Time, seconds: float | None) -> Timed:
        """Time one call; `seconds` is the deadline, or None for the usual one."""
        return self._done(asked, seconds=seconds)

    def _done(
        self, asked: Asked[A], tensors: Sequence[Tensor] = (), seconds: float | None = None
    ) -> A:
        answer = self._request(asked, tensors, seconds)
        if isinstance(answer, Failed):
            raise StepFailed(answer.fault)
        return answer

    def _start_process(self, descriptor: int) -> ProcessTree:
        words = [str(descriptor), str(self._file), self._kind]
        return ProcessTree(
            subprocess.Popen(
                interpreter.command("harness.worker.inside.baselines", *words),
                env=interpreter.environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[descriptor],
                start_new_session=True,
            )
        )
