"""The worker that times the reference as a baseline; it runs no untrusted code.

`python -m harness.worker.inside.baselines DESCRIPTOR REFERENCE KIND`
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from harness.gpu.cold_cache import ColdCache
from harness.gpu.driver import Driver
from harness.gpu.side_streams import SideStreams
from harness.gpu.stopwatch import Stopwatch
from harness.gpu.window import ImportedMemory
from harness.messages.channel import Answer, Channel, Message
from harness.messages.kinds import BASELINE_KINDS, BASELINE_PRECISIONS, BaselineKind
from harness.problems.problem import load
from harness.sandbox.limits import die_with_parent
from harness.system import interpreter
from harness.worker.inside.faults import describe
from harness.worker.inside.serving import Steps, serve
from harness.worker.steps import Construct, Constructed, Done, SetWeights, Time, Timed


class BaselineSession:
    """The steps of the worker that times one kind of baseline, with and without TF32."""

    def __init__(self, reference: Path, kind: BaselineKind) -> None:
        self._problem = load(reference)
        self._kind = kind
        driver = Driver()
        self._window = ImportedMemory()
        self._cache = ColdCache(driver)
        self._stopwatch = Stopwatch(driver, SideStreams(driver))
        self._model: nn.Module | None = None
        self._forwards: dict[str, Callable[..., object]] = {}

    def steps(self) -> Steps:
        """Return the functions that do the steps, by the classes of the supervisor's requests."""
        return {Construct: self._construct, SetWeights: self._set_weights, Time: self._time}

    def _construct(self, message: Message[Construct]) -> Answer:
        call = message.body.call
        self._model = self._problem.model(*call.positional, **call.named).cuda()
        # Code that torch compiles depends on whether TF32 is allowed.
        self._forwards = {
            precision: torch.compile(self._model) if self._kind == "torch.compile" else self._model
            for precision in BASELINE_PRECISIONS
        }
        # The trusted side knows the parameters' names, since it has loaded the reference itself.
        return Constructed((), (), ()), ()

    def _set_weights(self, message: Message[SetWeights]) -> Answer:
        assert self._model is not None, "construct comes first"  # noqa: S101
        given = dict(zip(message.body.names, message.tensors, strict=True))
        self._model.load_state_dict({**self._model.state_dict(), **given})
        return Done(), ()

    def _time(self, message: Message[Time]) -> Answer:
        """Time one forward call on inputs in GPU memory that the supervisor shares.

        The output is copied into the shared memory, behind the inputs.
        """
        asked = message.body
        forward = self._forward(asked.precision)
        # Memory that two processes have open was measured to be slower to read than memory of one
        # process alone.
        inputs = [each.clone() for each in self._window.at(asked.handle, asked.placed)]
        arguments = self._problem.forward_arguments(inputs)
        self._cache.empty()
        self._stopwatch.begin()
        with torch.no_grad(), self._stopwatch.queueing():
            output = forward(*arguments)
        milliseconds = self._stopwatch.stop()
        if not isinstance(output, Tensor):
            return Timed(milliseconds), ()
        placed = self._window.put(asked.handle, [output], asked.behind)
        return Timed(milliseconds, placed), ()

    def _forward(self, precision: str) -> Callable[..., object]:
        """Set torch to the precision `fp32` or `tf32`; return the model to call in that mode."""
        torch.backends.cudnn.benchmark = self._kind == "cudnn.benchmark"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        return self._forwards[precision]


def main() -> None:
    """Run the worker: answer the supervisor's requests until it closes the connection."""
    interpreter.settle()
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    reference = Path(sys.argv[2])
    (kind,) = (each for each in BASELINE_KINDS if each == sys.argv[3])
    torch.set_num_threads(1)
    serve(
        channel, BaselineSession(reference, kind).steps(), partial(describe, submission=reference)
    )


if __name__ == "__main__":
    main()
