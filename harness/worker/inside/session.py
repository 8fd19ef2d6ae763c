"""The submission's side of a check: import, construct and run the submission.

This code runs beside untrusted code, so the harness does not trust its reports. The supervisor
judges the outputs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

import torch

from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Extension
from harness.finding import Finding
from harness.messages.channel import DTYPES, Answer, Message
from harness.messages.kinds import Move
from harness.problems.configuration import Number, forward_arguments
from harness.system.texts import MOST_OF_A_NAME
from harness.worker.inside.asking import Asking
from harness.worker.inside.client_device import ClientDevice, places_of
from harness.worker.inside.faults import name_tensors_by_shape
from harness.worker.inside.serving import Steps
from harness.worker.inside.state import StateWatch
from harness.worker.inside.submission_module import SubmissionModule
from harness.worker.inside.values import DeviceValues
from harness.worker.settings import WorkerArguments
from harness.worker.steps import (
    Construct,
    Constructed,
    Done,
    Forget,
    Forgotten,
    Forward,
    Import,
    Remark,
    SetWeights,
)


class Session:
    """The steps of a check that run in the submission's own process."""

    def __init__(self, told: WorkerArguments, asking: Asking) -> None:
        self._submission = SubmissionModule(told.submission)
        name_tensors_by_shape()
        self._device = ClientDevice(told.libraries, told.device, told.properties)
        self._asking = asking
        ExtensionLoader(told.submission, self._build).install()
        self._values = DeviceValues(self._device)
        self._model: torch.nn.Module | None = None
        self._numbers: Mapping[int, Number] = {}
        self._watch = StateWatch()
        self._imported: list[Finding] = []

    def _build(self, extension: Extension) -> bytes:
        """Return the bytes of an extension's shared object, which the supervisor builds.

        Raises:
            ImportError: The extension needs a function that the simulator lacks.
        """
        library = self._asking.build(extension)
        self._device.check(library)
        return library

    def steps(self) -> Steps:
        """Return the functions that do the steps, by the classes of the supervisor's requests."""
        return {
            Import: self.import_submission,
            Construct: self.construct,
            SetWeights: self.set_weights,
            Forward: self.run,
            Forget: self.forget,
        }

    def import_submission(self, message: Message[Import]) -> Answer:
        """Run the submission's file as a module."""
        self._submission.execute(message.body.constants)
        self._imported = self._watch.changes("during import")
        return Done(), ()

    def construct(self, message: Message[Construct]) -> Answer:
        """Construct `ModelNew` on the device.

        The answer has the address and layout of each parameter and buffer.
        """
        asked = message.body
        self._model = None
        self._numbers = asked.numbers
        self._values.forget()
        # Each case gets a working device, even if the case before has broken it.
        self._device.recover(asked.multiprocessors)
        if self._submission.configure(asked.constants):
            self._imported += self._watch.changes("during import")
        torch.manual_seed(asked.seed)
        call = asked.call
        model = self._submission.construct(*call.positional, **call.named)
        self._model = _moved(model, asked.move)
        # Findings of the import belong to every case.
        findings = [*self._imported, *self._watch.changes("during construction")]
        state = self._state()
        places = places_of([*state.values()])
        return Constructed(tuple(state), places, tuple(map(Remark.of, findings))), ()

    def set_weights(self, message: Message[SetWeights]) -> Answer:
        """Overwrite the model's parameters and buffers in place."""
        state = self._state()
        given = self._values.at(message.body.places)
        with torch.no_grad():
            for name, value in zip(message.body.names, given, strict=True):
                state[name].copy_(value)
        return Done(), ()

    def run(self, message: Message[Forward]) -> Answer:
        """Call the model on the inputs that the request describes by address and layout.

        The request does not show whether the call is checked, counted or timed.
        """
        model, inputs = self._forward(), self._values.inputs(message.body.places)
        arguments = forward_arguments(inputs, self._numbers)
        with torch.no_grad():
            output = model(*arguments)
        # A user's code that reads the output waits for the current stream alone. Work on streams
        # that this one does not wait for may be left, and is a finding.
        torch.cuda.current_stream().synchronize()
        self._device.raise_unread_error()
        thorough = message.body.is_last
        findings = self._watch.changes("during forward", random=True, thorough=thorough)
        return self._values.returned(output, inputs, findings), ()

    def forget(self, _: Message[Forget]) -> Answer:
        """Drop the model and its tensors; memory that then stays allocated was leaked by C++ code.

        The answer names the constants of the reference that the submission has read.
        """
        self._model = None
        self._values.forget()
        gc.collect()
        return Forgotten(tuple(self._submission.names_read())), ()

    def _forward(self) -> torch.nn.Module:
        assert self._model is not None, "construct comes first"  # noqa: S101
        return self._model

    def _state(self) -> dict[str, torch.Tensor]:
        """Return the model's parameters and buffers that messages can carry, by name.

        Raises:
            ValueError: A name is longer than messages allow.
        """
        assert self._model is not None, "construct comes first"  # noqa: S101
        state = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
        longest = max(map(len, state), default=0)
        if longest > MOST_OF_A_NAME:
            raise ValueError(
                f"a parameter's name has {longest} characters; use at most {MOST_OF_A_NAME}"
            )
        # Messages cannot carry some dtypes, such as complex ones. No weight has such a counterpart.
        return {name: value for name, value in state.items() if value.dtype in DTYPES.values()}


def _moved(model: torch.nn.Module, move: Move) -> torch.nn.Module:
    """Return the model after the call that moves it to the device.

    Raises:
        TypeError: The call returned another object than the model.
    """
    device = torch.device("cuda")
    ways: dict[Move, Callable[[], torch.nn.Module]] = {
        "cuda()": lambda: model.cuda(),
        "cuda(device)": lambda: model.cuda(device),
        "to('cuda')": lambda: model.to("cuda"),
        "to('cuda:0')": lambda: model.to("cuda:0"),
        "to(device)": lambda: model.to(device),
        "to(device=device)": lambda: model.to(device=device),
    }
    moved = ways[move]()
    if moved is not model:
        raise TypeError(f"ModelNew.{move} returned another object than the model")
    return moved
