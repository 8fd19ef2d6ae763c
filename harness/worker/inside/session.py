"""The submission's side of a check: import, construct and run the submission.

All of this runs beside untrusted code. Its reports are claims, and the trusted side judges the
outputs.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Extension
from harness.finding import Finding
from harness.messages.channel import DTYPES, Answer, Message
from harness.problems.configuration import Number, forward_arguments
from harness.worker.inside.asking import Asking
from harness.worker.inside.client_device import ClientDevice
from harness.worker.inside.faults import name_tensors_by_shape
from harness.worker.inside.state import StateWatch
from harness.worker.inside.values import Values
from harness.worker.settings import Instructions


class Session:
    """One submission's steps in this process."""

    def __init__(self, told: Instructions, asking: Asking) -> None:
        self._submission = told.submission
        name_tensors_by_shape()
        self._device = ClientDevice(told.libraries, told.device, told.properties)
        self._asking = asking
        ExtensionLoader(told.submission, self._build).install()
        self._values = Values(self._device)
        self._model: torch.nn.Module | None = None
        self._module: Any = None
        self._numbers: dict[int, Number] = {}
        self._watch = StateWatch()
        self._imported: list[Finding] = []

    def _build(self, extension: Extension) -> bytes:
        """Return an extension's shared object, built by the trusted side and checked here."""
        library = self._asking.build(extension)
        self._device.check(library)
        return library

    def steps(self) -> dict[str, Callable[[Message], Answer]]:
        """Return the steps, by the names in the trusted side's requests."""
        return {
            "import": self.import_submission,
            "construct": self.construct,
            "weights": self.set_weights,
            "forward": self.run,
            "leaks": self.forget,
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
        spec.loader.exec_module(module)
        self._module = module
        self._imported = self._watch.changes("during import")
        return {}, ()

    def construct(self, message: Message) -> Answer:
        """Construct `ModelNew` on the device, and answer with its parameters and buffers."""
        torch.manual_seed(message.header["seed"])
        self._model = None
        self._numbers = dict(message.header["numbers"])
        self._values.forget()
        # Each case gets a working device, even if the case before has broken it.
        self._device.recover(message.header["multiprocessors"])
        header = message.header
        model = self._module.ModelNew(*header["positional"], **header["named"])
        self._model = model.cuda()
        # Findings of the import belong to every case.
        findings = [*self._imported, *self._watch.changes("during construction")]
        state = self._state()
        told, tensors = self._values.told(tuple(state.values()))
        return {**told, "names": list(state), "findings": list(map(asdict, findings))}, tensors

    def set_weights(self, message: Message) -> Answer:
        """Overwrite parameters and buffers in place."""
        state = self._state()
        names: Sequence[str] = message.header["names"]
        with torch.no_grad():
            for name, value in zip(names, self._values.given(message), strict=True):
                state[name].copy_(value)
        return {}, ()

    def run(self, message: Message) -> Answer:
        """Call the model on inputs at the places that the trusted side names.

        The request is the same for a call that is checked, counted or timed.
        """
        model, inputs = self._forward(), self._values.inputs(message)
        arguments = forward_arguments(inputs, self._numbers)
        with torch.no_grad():
            output = model(*arguments)
        # A user's code that reads the output waits for the current stream alone. Work on streams
        # that this one does not wait for may be left, and is a finding.
        torch.cuda.current_stream().synchronize()
        self._device.raise_unread_error()
        thorough = bool(message.header.get("is_last"))
        findings = self._watch.changes("during forward", random=True, thorough=thorough)
        header, tensors = self._values.checked(output, inputs)
        return {**header, "findings": list(map(asdict, findings))}, tensors

    def forget(self, _: Message) -> Answer:
        """Drop the model, so that only memory that its C++ has not freed is left."""
        self._model = None
        self._values.forget()
        gc.collect()
        return {}, ()

    def _forward(self) -> torch.nn.Module:
        assert self._model is not None, "construct comes first"  # noqa: S101
        return self._model

    def _state(self) -> dict[str, torch.Tensor]:
        """Return the model's parameters and buffers, by name."""
        assert self._model is not None, "construct comes first"  # noqa: S101
        state = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
        # Messages cannot carry some dtypes, such as complex ones. No weight has such a counterpart.
        return {name: value for name, value in state.items() if value.dtype in DTYPES.values()}


def _module_name(path: Path) -> str:
    """Return the file's name, with a suffix if another module has it: torch.py is not torch."""
    is_taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    return f"{path.stem}_of_submission" if is_taken else path.stem
