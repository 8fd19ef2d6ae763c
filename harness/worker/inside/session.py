"""The submission's side of a check: import it, construct it, run it.

Everything here runs beside untrusted code; what it reports is a claim, and what it returns is
judged elsewhere.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from harness.compiler.extension import ExtensionLoader
from harness.finding import Finding
from harness.gpu.driver import persisting_l2_bytes
from harness.gpu.recording import Recording
from harness.simulator.counters.counters import KernelCounters
from harness.simulator.device.runtime import SimulatedDevice
from harness.worker.digests import digest
from harness.worker.inside.asking import Asking
from harness.worker.inside.call import Clock, Forward, NoClock, call
from harness.worker.inside.faults import name_tensors_by_shape
from harness.worker.inside.state import StateWatch
from harness.worker.inside.timing import Answer, SharedTensors
from harness.worker.protocol import DTYPES, Message
from harness.worker.settings import Instructions

# Enough to notice an output that is handed out twice, without keeping all of them alive.
_REMEMBERED_OUTPUTS = 2
_PERSISTING = "the L2 cache set aside for persisting lines, in bytes,"
# Steps whose inputs and output are in shared memory.
_TIMED = ("time", "repeat")


class Session:
    """One submission in this process."""

    def __init__(self, told: Instructions, asking: Asking) -> None:
        self._submission = told.submission
        name_tensors_by_shape()
        self._device = (
            SimulatedDevice(told.libraries, asking.resources, told.schedule, told.cores)
            if told.libraries
            else None
        )
        ExtensionLoader(told.submission, asking.build).install()
        self._model: torch.nn.Module | None = None
        self._module: Any = None
        self._calls: SharedTensors | None = None
        self._unreported: list[Finding] = []
        self._inputs: list[torch.Tensor] = []
        self._outputs: list[torch.Tensor] = []
        # The same memory as inputs and weights, whatever becomes of those.
        self._inputs_kept: list[torch.Tensor] = []
        self._weights_kept: dict[str, torch.Tensor] = {}
        self._schedule = told.schedule
        self._clock = NoClock() if self._device else Clock()
        self._watch = StateWatch({} if self._device else {_PERSISTING: persisting_l2_bytes})
        self._imported: list[Finding] = []

    def steps(self) -> dict[str, Callable[[Message], Answer]]:
        """By the name that the trusted side asks for."""
        return {
            "import": self.import_submission,
            "construct": self.construct,
            "weights": self.set_weights,
            "forward": self.run,
            "profile": self.run,
            "attach": self.attach,
            "time": self.run,
            "repeat": self.run,
            "leaks": self.leaks,
        }

    def import_submission(self, _: Message) -> Answer:
        """Run the submission's file as a module."""
        path = self._submission
        name = _module_name(path)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path.name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception:
            self._unreported = self._raise_device_failure()
            raise
        self._module = module
        self._imported = self._watch.changes("during import")
        return {}, ()

    def construct(self, message: Message) -> Answer:
        """Make a `ModelNew` on the device; answers its parameters and buffers."""
        torch.manual_seed(message.header["seed"])
        self._model, self._inputs, self._outputs = None, [], []
        self._inputs_kept = []
        if self._device:
            # Each case gets a device that works, whatever became of it in the one before.
            self._device.recover()
            self._device.allow(None)
        model = self._module.ModelNew(**message.header["arguments"])
        self._model = model.cuda().eval()
        self._raise_device_failure()
        # What it takes to construct a model is not judged.
        self._work()
        state = self._state()
        self._weights_kept = {}
        # What was found at import is of every case.
        findings = [*self._imported, *self._watch.changes("during construction")]
        header = {"names": list(state), "findings": list(map(asdict, findings))}
        return header, tuple(state.values())

    def set_weights(self, message: Message) -> Answer:
        """Overwrite parameters and buffers in place."""
        state = self._state()
        with torch.no_grad():
            for name, value in zip(message.header["names"], message.tensors, strict=True):
                state[name].copy_(value)
        self._weights_kept = {name: state[name].detach() for name in message.header["names"]}
        return {}, ()

    def run(self, message: Message) -> Answer:
        """Call the model on inputs that lie in the same storage at every call of one shape.

        A checked call gets its values in the message and answers with the output; so does a counted
        one, with what each kernel did and ptxas says. Timed calls have both in shared memory.
        """
        model, step = self._forward(), message.header["step"]
        inputs = self._shared_inputs(message) if step in _TIMED else self._filled_inputs(message)
        if self._device:
            self._device.reorder(message.header.get("schedule", self._schedule))
            self._device.allow(message.header.get("budget"))
            if step == "profile":
                self._device.start_counting()
        before = self._work()
        recording = Recording() if message.header.get("recorded") else None
        try:
            with recording or contextlib.nullcontext(), self._only_for_the_device():
                called = call(model, inputs, message.header.get("count", 1), self._clock)
            if self._device:
                self._device.raise_unread_error()
        except Exception:
            # A launch that stopped the simulator is the reason; what it led to is not.
            self._unreported = self._raise_device_failure()
            raise
        finally:
            during = self._work()
            counted = self._device.counted() if self._device else {}
        if step == "repeat":
            return {}, ()
        launched = [asdict(each) for each in recording.launched] if recording else []
        if step == "time":
            return self._timed().timed(called, launched)
        thorough = bool(message.header.get("is_last"))
        header, tensors = self._checked(called.output, inputs, thorough)
        header["launched"] = launched
        header["work"] = {"before": before, "during": during}
        header["spent"] = self._device.spent if self._device else 0
        if step == "profile":
            header["kernels"] = self._kernels(counted)
        return header, tensors

    def _only_for_the_device(self) -> contextlib.AbstractContextManager[None]:
        """Keeps the host's code from memory that beside a GPU it could not touch either."""
        return self._device.memory.shut() if self._device else contextlib.nullcontext()

    def _checked(self, output: object, inputs: Sequence[torch.Tensor], thorough: bool) -> Answer:
        """What is told of an output, and it itself; `thorough` as in `StateWatch.changes`."""
        findings = self._raise_device_failure()
        findings += self._watch.changes("during forward", random=True, thorough=thorough)
        header = {
            "findings": list(map(asdict, findings)),
            "inputs": [digest(kept) for kept in self._inputs_kept],
            "weights": {name: digest(kept) for name, kept in self._weights_kept.items()},
        }
        if type(output) is not torch.Tensor:
            kind = type(output)
            return {**header, "type": f"{kind.__module__}.{kind.__qualname__}"}, ()
        header |= {
            "type": "torch.Tensor",
            "device": output.device.type,
            "shares": self._shares_storage_with(output, inputs),
        }
        self._outputs = [*self._outputs, output][-_REMEMBERED_OUTPUTS:]
        if output.dtype not in DTYPES.values():
            return {**header, "type": f"a tensor of {output.dtype}"}, ()
        return header, (output, *self._writers(output))

    def _kernels(self, counted: Mapping[str, KernelCounters]) -> list[dict[str, Any]]:
        usage = self._device.resources() if self._device else {}
        return [
            {"counters": asdict(counters), "resources": name in usage and asdict(usage[name])}
            for name, counters in counted.items()
        ]

    def attach(self, message: Message) -> Answer:
        """See inputs and output that the trusted side has on the GPU."""
        if self._calls is None:
            self._calls = SharedTensors()
        return self._calls.attach(message)

    def leaks(self, _: Message) -> Answer:
        """Forget the model; answers the sizes of what its C++ allocated and did not free."""
        self._model, self._inputs, self._outputs = None, [], []
        gc.collect()
        return {"leaks": list(self._device.leaks()) if self._device else []}, ()

    def findings_so_far(self) -> list[dict[str, Any]]:
        """What was found before a step failed."""
        found, self._unreported = self._unreported, []
        with contextlib.suppress(BaseException):
            found = found + self._raise_device_failure()
        return list(map(asdict, found))

    def _timed(self) -> SharedTensors:
        assert self._calls is not None, "attach comes first"  # noqa: S101
        return self._calls

    def _shared_inputs(self, message: Message) -> Sequence[torch.Tensor]:
        return self._timed().inputs_at(message)

    def _forward(self) -> Forward:
        assert self._model is not None, "construct comes first"  # noqa: S101
        return self._model

    def _state(self) -> dict[str, torch.Tensor]:
        assert self._model is not None, "construct comes first"  # noqa: S101
        return {
            **dict(self._model.named_parameters()),
            **{name: value for name, value in self._model.named_buffers() if value is not None},
        }

    def _filled_inputs(self, message: Message) -> list[torch.Tensor]:
        values = message.tensors
        fits = len(self._inputs) == len(values) and all(
            kept.shape == value.shape and kept.dtype == value.dtype
            for kept, value in zip(self._inputs, values, strict=True)
        )
        if fits and not message.header.get("in_new_memory"):
            for kept, value in zip(self._inputs_kept, values, strict=True):
                # Values come into shared memory in the same way: no counter of versions moves.
                kept.copy_(value)
        else:
            self._inputs = [value.cuda() for value in values]
            self._inputs_kept = [value.data for value in self._inputs]
        return self._inputs

    def _shares_storage_with(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor]
    ) -> str | None:
        def storage(tensor: torch.Tensor) -> int:
            return tensor.untyped_storage().data_ptr()

        if not output.numel():
            return None
        if any(storage(output) == storage(tensor) for tensor in inputs):
            return "its input"
        if any(storage(output) == storage(tensor) for tensor in self._outputs):
            return "an earlier output"
        return None

    def _writers(self, output: torch.Tensor) -> Sequence[torch.Tensor]:
        """Who wrote the elements of the output, where the device knows."""
        if self._device is None or output.device.type != "cuda":
            return ()
        return (self._device.writers(output),)

    def _work(self) -> list[dict[str, Any]]:
        """What was done on the device since the last call."""
        return [asdict(work) for work in self._device.work()] if self._device else []

    def _raise_device_failure(self) -> list[Finding]:
        """Findings since the last call, after whatever stopped the device was raised."""
        if self._device is None:
            return []
        return list(self._device.observe().findings)


def _module_name(path: Path) -> str:
    """The file's own, unless by it others mean another module: torch.py is not torch."""
    is_taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    return f"{path.stem}_of_submission" if is_taken else path.stem
