"""A submission's worker together with its device process, which checks the worker's claims.

The worker, which is untrusted, reports exceptions and where its output is. The device process,
which is trusted, reports what the device did, and reads the output. An answer here combines both
reports. If they differ, the device process's report is used.
"""

from __future__ import annotations

import math
import secrets
import select
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import Tensor

from harness.compiler.compiler import CompileTimeout
from harness.device.process import DeviceClient, shared_process
from harness.messages.channel import (
    MAX_TENSOR_BYTES,
    Answer,
    DeadlineExceeded,
    Disconnected,
    Message,
    ProtocolError,
)
from harness.problems.vast import Vast
from harness.sandbox.confined import ProcessTree
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.ptx.fatbinary import DeviceCode, images_in
from harness.worker import answers
from harness.worker.build_service import BuildEvent, BuildService, as_tensor
from harness.worker.settings import Settings
from harness.worker.start import programs_of, start_worker
from harness.worker.supervisor import (
    BuildTimeout,
    Deadlines,
    Step,
    TimeLeft,
    Worker,
    last_line,
)

_Range = tuple[int, int]
# Steps that are the same request to a worker, so that it does not know which calls are timed.
_CALLS: tuple[Step, ...] = ("forward", "profile", "time")

# Keys of a request that are for the device.
_OF_DEVICE = ("schedule", "budget", "sample")
# Keys of the evidence that go into the answer to such a step.
_EVIDENCE = ("inputs", "weights", "work", "spent", "milliseconds", "share_of_blocks")

# Largest distance in bytes of an input from the start of its memory, and the step of such
# distances. Addresses stay multiples of 512, as those of torch's allocator are.
_FARTHEST = 1 << 20
_DISTANCE = 512


class DeviceWorker(Worker):
    """A `Worker` whose answers include the trusted report of its device process.

    Exceptions, the types of outputs, and changes of Python's state come from the untrusted worker
    alone.
    """

    _device: DeviceClient

    def __init__(
        self,
        settings: Settings,
        deadlines: Deadlines,
        on_build: Callable[[BuildEvent], None],
        left: TimeLeft | None = None,
    ) -> None:
        """Start the worker and its device.

        Args:
            settings: How the worker builds extensions, and where its kernels run.
            deadlines: Time limits of the worker.
            on_build: Function that is called when a build begins, ends or fails.
            left: The time that is left to all workers of the check; None for the full time.
        """
        left = left or TimeLeft(deadlines)
        self._settings = settings
        self._build_service = BuildService(settings, deadlines.build, left.builds, on_build)
        super().__init__(settings.submission, deadlines, left)

    @property
    def build_folders(self) -> tuple[Path, ...]:
        """Folders of the worker's builds in the cache, including builds that do not compile."""
        return self._build_service.folders

    def _start_process(self, descriptor: int) -> ProcessTree:
        settings = self._settings
        self._is_on_gpu = settings.device == "cuda"
        self._is_broken = False
        # All forks of one server have the same layout of addresses. An untrusted worker must not
        # know the addresses in its device process, so that process is started anew.
        starts_anew = self._is_on_gpu or settings.untrusted

        def begin() -> DeviceClient:
            process = shared_process(
                None if self._is_on_gpu else settings.libraries.machine,
                settings.cores,
                None if starts_anew else programs_of(settings.libraries),
                must_be_confined=settings.untrusted,
            )
            return process.begin(self._printed, settings.schedule, settings.cores)

        self._parameters: dict[str, Any] = {}
        self._served_seconds = 0.0
        self._set: list[str] = []
        self._inputs: list[_Range] = []
        self._outputs: list[tuple[int | None, _Range]] = []
        # Kernels print to a file of their own. In the worker's output file, the worker could read
        # values of the device that are not in the record.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._device = begin()
        except OSError:
            # The shared process had just been killed, which was not known yet.
            self._device = begin()
        worker_socket = self._device.worker_socket
        try:
            return start_worker(settings, descriptor, self._output, worker_socket.fileno())
        finally:
            worker_socket.close()

    def close(self) -> None:
        """Kill the worker and all processes that it started, and end the worker's device."""
        self._device.close()
        self._printed.close()
        super().close()

    def request(
        self,
        step: Step,
        header: dict[str, Any] | None = None,
        tensors: Sequence[Tensor] = (),
        seconds: float | None = None,
        max_tensor_bytes: int = MAX_TENSOR_BYTES,
    ) -> Message:
        """Request one step; return the worker's answer combined with the device process's report.

        The steps `forward`, `profile` and `time` are forward calls. Their header can have these
        further keys:

        - `in_new_memory`: whether to put the inputs at other addresses than in the last call;
        - `arrangement`: memory layout of the inputs;
        - `vast`: description of the inputs, if only a few parts of them are stored;
        - `schedule`: number of the order in which blocks run on the device;
        - `budget`: limit of the device's work;
        - `sample`: seed of the random selection of blocks, if only some blocks run.

        Raises:
            WorkerFailure: The worker or the device did not answer in time, died, or gave an invalid
                answer.
        """
        header = dict(header or {})
        self._vast: Vast | None = header.pop("vast", None)
        vast = self._told_of_vast
        limit = seconds or self._deadlines.step
        if step == "weights":
            header["places"] = self._ask_device(step, limit, "weights", tensors)["places"]
            self._set = list(header["names"])
        elif step in _CALLS:
            is_new = bool(header.pop("in_new_memory", False))
            how = header.pop("arrangement", "contiguous")
            # On a GPU, new memory is often the memory that was just freed. A random distance from
            # its start gives the inputs other addresses all the same.
            skipped = [_any_distance() for _ in tensors] if is_new and self._is_on_gpu else []
            told = self._ask_device(
                step,
                limit,
                "inputs",
                tensors,
                in_new_memory=is_new,
                arrangement=how,
                skipped=skipped,
                **vast,
            )
            if "no_room" in told:
                return Message({"fault": {"kind": "unsupported", "message": told["no_room"]}})
            header["places"] = told["places"]
            self._inputs = [_range_of(place) for place in told["places"]]
        elif step == "construct":
            self._parameters, self._set, self._inputs, self._outputs = {}, [], [], []
        known = {key: header.pop(key) for key in _OF_DEVICE if key in header}
        counting, timing = step == "profile", step == "time"
        self._ask_device(step, limit, "begin", counting=counting, timing=timing, **known, **vast)
        # The worker does not learn that this call is counted or timed.
        asked: Step = "forward" if step in _CALLS else step
        answer = super().request(asked, header, (), seconds, max_tensor_bytes)
        parameters = {name: self._parameters[name] for name in self._set}
        evidence = self._ask_device(step, limit, "end", parameters=parameters, **vast)
        self._is_broken = bool(evidence["broken_by"])
        if evidence["malformed"]:
            self._fail(
                step, "protocol", f"the worker sent an invalid message ({evidence['malformed']})"
            )
        return self._joined(step, limit, answer, evidence, max_tensor_bytes)

    # The worker's claims, and the device's evidence

    def _joined(
        self,
        step: Step,
        limit: float,
        answer: Message,
        evidence: Mapping[str, Any],
        max_tensor_bytes: int,
    ) -> Message:
        header = {**answer.header}
        header["findings"] = [*header.get("findings", ()), *evidence["findings"]]
        if "failure" in evidence:
            # The error that stopped the device is the reason, and the worker's exception follows.
            header["fault"] = evidence["failure"]
        elif self._is_broken and "fault" not in header:
            # The host code has not asked CUDA for the error.
            message = f"CUDA error: {evidence['broken_by']}"
            header["fault"] = {"kind": "exception", "message": message, "detail": ""}
        if "fault" in header:
            header["fault"] = {**header["fault"], "exceeds_grid": evidence["exceeds_grid"]}
            return Message(header)
        if step == "construct":
            self._parameters = dict(zip(header["names"], header["places"], strict=True))
            return Message(header, self._values(step, limit, header["places"], max_tensor_bytes))
        if step == "leaks":
            header["leaks"] = self._ask_device(step, limit, "leaks")["leaks"]
            header["lines"] = self._ask_device(step, limit, "lines", file=self._file.name)
        if step == "weights":
            header["work"] = evidence["work"]
        if step not in _CALLS:
            return Message(header)
        for key in _EVIDENCE:
            header[key] = evidence[key]
        header["kernels"] = evidence.get("kernels", [])
        header["outputs"] = [dict(each) for each in header["outputs"]]
        if not header["outputs"] or not all(each["place"] for each in header["outputs"]):
            return Message(header)
        return self._with_outputs(step, limit, header, max_tensor_bytes)

    def _with_outputs(
        self, step: Step, limit: float, header: dict[str, Any], max_tensor_bytes: int
    ) -> Message:
        """Return the answer to a forward call, with each output's values and its elements' writers.

        An output that shares memory with an input or an earlier output is marked in the header.
        """
        places = [each["place"] for each in header["outputs"]]
        found = self._read(step, limit, places, max_tensor_bytes)
        if "wrong" in found.header:
            header["wrong"] = found.header["wrong"]
            return Message(header)
        now = list(zip(found.header["serials"], map(_range_of, places), strict=True))
        for output, (serial, here) in zip(header["outputs"], now, strict=True):
            # Each allocation has its own serial number. The same number means that the earlier
            # output's allocation was never freed. An address alone could be that of new memory.
            before = [where for known, where in self._outputs if known == serial]
            if _overlap(here, self._inputs):
                output["shares"] = "its input"
            elif _overlap(here, before):
                output["shares"] = "an earlier output"
        self._outputs += now
        return Message(header, found.tensors)

    def _values(
        self, step: Step, limit: float, places: Sequence[Mapping[str, Any]], most: int
    ) -> tuple[Tensor, ...]:
        """Return the values of the model's parameters and buffers, as CPU tensors."""
        found = self._read(step, limit, places, most)
        if "wrong" in found.header:
            self._fail(
                step, "protocol", f"the worker named an invalid parameter ({found.header['wrong']})"
            )
        # The next message may overwrite tensors on a GPU.
        return tuple(tensor.cpu() for tensor in found.tensors[::2])

    @property
    def _told_of_vast(self) -> dict[str, Any]:
        """Header key `vast` of requests to the device, as a dict; empty if no input is vast."""
        return {"vast": asdict(self._vast)} if self._vast else {}

    def _read(
        self, step: Step, limit: float, places: Sequence[Mapping[str, Any]], most: int
    ) -> Message:
        """Return the values of tensors on the device, and a code for the writer of each element.

        For a vast (very large) tensor, only the parts that are stored are returned. The total size
        is checked first, because the untrusted worker has stated the shapes.
        """
        vast = self._vast
        counts = [vast.numbers_of_output if vast else math.prod(each["shape"]) for each in places]
        size = sum(count * _width(each) for count, each in zip(counts, places, strict=True))
        # Each element has one byte more, for its writer.
        with_writers = size + sum(counts)
        if size > most:
            words = f"tensors of {size} bytes, at most {most} are expected"
            self._fail(step, "protocol", f"the worker sent an invalid message ({words})")
        return self._within(
            step,
            limit,
            lambda end: self._device.read(
                end, self._serve_device, places, with_writers, **self._told_of_vast
            ),
        )

    # The device

    def _ask_device(
        self, step: Step, limit: float, do: str, tensors: Sequence[Tensor] = (), **header: object
    ) -> Mapping[str, Any]:
        return self._device_message(step, limit, do, tensors, **header).header

    def _device_message(
        self, step: Step, limit: float, do: str, tensors: Sequence[Tensor] = (), **header: object
    ) -> Message:
        return self._within(
            step,
            limit,
            lambda end: self._device.ask(do, end, self._serve_device, tensors, **header),
        )

    def _within(self, step: Step, limit: float, ask: Callable[[float], Message]) -> Message:
        """Call `ask`, which sends the device a request, with a deadline; return the answer.

        The time counts towards the worker's limit, because the worker can keep its device busy. It
        can do so with kernels, or by sending only half of a call.
        """
        within = self._left.steps.limit(limit)
        start, self._served_seconds = time.monotonic(), 0.0
        try:
            return ask(start + within)
        except DeadlineExceeded:
            words = f"the device did not answer within {limit:.0f} s"
            if within < limit:
                every = self._left.steps.seconds
                words = (
                    f"all steps together took more than {every:g} s (--check-seconds allows more)"
                )
                words += ", and the device did not answer"
            self._fail(step, "timeout", words)
        except (Disconnected, ProtocolError):
            last = last_line(self._printed)
            self._fail(step, "crash", f"the device has ended{f' ({last})' if last else ''}")
        finally:
            self._left.steps.spend(time.monotonic() - start - self._served_seconds)

    @property
    def is_spent(self) -> bool:
        """True if a kernel has broken the device, so that the worker can serve no request."""
        return self._is_broken

    def _serve_device(self, header: dict[str, Any]) -> Answer:
        """Answer the device's request to run ptxas; the answer is empty if ptxas takes too long."""
        code = DeviceCode(header["ptx"], tuple(header["options"]))
        start = time.monotonic()
        try:
            if header["ask"] == "cubin":
                return {}, (as_tensor(self._build_service.cubin(code)),)
            return {"usage": self._build_service.resources(code)}, ()
        except CompileTimeout:
            return {"usage": ""}, ()
        finally:
            self._served_seconds += time.monotonic() - start

    def _await_message(self, deadline: float) -> float:
        """Answer the device's requests until the worker sends a message.

        Return the deadline, postponed by the time that these answers took.
        """
        waiting = select.poll()
        waiting.register(self._channel, select.POLLIN)
        waiting.register(self._device, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            ready = [number for number, _ in waiting.poll(max(0.0, 1000 * left))]
            if self._channel.fileno() in ready or not ready:
                return deadline
            start = time.monotonic()
            try:
                self._device.serve(self._serve_device, deadline)
            except (Disconnected, ProtocolError):
                # The device is gone. The worker cannot go on without it, and its end is reported.
                waiting.unregister(self._device)
            deadline += self._pause_since(start)

    def _served(self, header: dict[str, Any]) -> Answer:
        """Build the extension that a worker requests; allow the device to load its modules."""
        before = set(self._build_service.built)
        try:
            served = self._build_service.serve(header)
        except CompileTimeout:
            raise BuildTimeout(self._build_service.name_of(header)) from None
        fresh = [library for library in self._build_service.built if library not in before]
        digests = [sha256(image).hexdigest() for each in fresh for image in images_in(each)]
        if digests:
            self._ask_device("import", self._deadlines.step, "trust", digests=digests)
        return served

    def _check(self, step: Step, nonce: str, answer: Message) -> None:
        answers.check(step, nonce, answer)


def _any_distance() -> int:
    return _DISTANCE * secrets.randbelow(_FARTHEST // _DISTANCE + 1)


def _width(place: Mapping[str, Any]) -> int:
    dtype = DTYPES.get(place["dtype"])
    return dtype.itemsize if dtype else 1


def _range_of(place: Mapping[str, Any]) -> _Range:
    """Return a tensor's first address and the address after its last byte; (0, 0) if empty."""
    if 0 in place["shape"]:
        return (0, 0)
    pairs = zip(place["shape"], place["strides"], strict=True)
    last = sum((n - 1) * s for n, s in pairs)
    return place["address"], place["address"] + (last + 1) * _width(place)


def _overlap(one: _Range, others: Sequence[_Range]) -> bool:
    return any(one[0] < end and start < one[1] for start, end in others)
