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
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from msgspec import structs
from torch import Tensor

from harness.compiler.compiler import CompileTimeout
from harness.device.place import Place
from harness.device.process import DeviceClient, shared_process
from harness.device.record import Work
from harness.device.requests import (
    AtPlaces,
    Begin,
    End,
    Evidence,
    FindLeaks,
    FindLines,
    PtxasRan,
    PutInputs,
    PutWeights,
    Read,
    RunPtxas,
    Trust,
    Values,
)
from harness.finding import Finding
from harness.messages.channel import (
    MAX_TENSOR_BYTES,
    Answer,
    DeadlineExceeded,
    Disconnected,
    ProtocolError,
)
from harness.messages.faults import Fault
from harness.messages.protocol import Asked
from harness.problems.runs import Arrangement
from harness.problems.vast import Vast
from harness.sandbox.confined import ProcessTree
from harness.simulator.counters.totals import KernelProfile, kernel_profile
from harness.simulator.execution.coverage import Lines
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.ptx.fatbinary import images_in
from harness.worker.build_service import BuildEvent, BuildService, as_tensor
from harness.worker.settings import Settings
from harness.worker.start import programs_of, start_worker
from harness.worker.steps import (
    DOING,
    TIMING,
    Build,
    ClaimedOutput,
    Construct,
    Doing,
    Failed,
    Forget,
    Forward,
    Import,
    Remark,
    SetWeights,
    fewer,
)
from harness.worker.supervisor import (
    BuildTimeout,
    Deadlines,
    StepFailed,
    TimeLeft,
    Worker,
    last_line,
)

A = TypeVar("A")
_Range = tuple[int, int]

# Largest distance in bytes of an input from the start of its memory, and the step of such
# distances. Addresses stay multiples of 512, as those of torch's allocator are.
_FARTHEST = 1 << 20
_DISTANCE = 512


@dataclass(frozen=True)
class ForwardCall:
    """How a forward call is made; the submission does not learn of it.

    Attributes:
        counting: Whether to count what the kernels do.
        timing: Whether to time the device's work.
        in_new_memory: Whether to put the inputs at other addresses than in the last call.
        arrangement: Memory layout of the inputs.
        vast: Description of the inputs, if only a few parts of them are stored.
        schedule: Number of the order in which blocks run on the device; None for the usual one.
        budget: Limit of the device's work, in thread-instructions; None for no limit.
        sample: Seed of the random selection of blocks, if only some blocks run.
        is_last: True for the last call of a case.
    """

    counting: bool = False
    timing: bool = False
    in_new_memory: bool = False
    arrangement: Arrangement = "contiguous"
    vast: Vast | None = None
    schedule: int | None = None
    budget: int | None = None
    sample: int | None = None
    is_last: bool = False


@dataclass(frozen=True)
class ConstructedModel:
    """A model that a worker has constructed.

    Attributes:
        weights: Its parameters and buffers by name, on the CPU.
        findings: Findings of the construction.
    """

    weights: Mapping[str, Tensor]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class ForwardOutcome:
    """The outcome of a forward call.

    Attributes:
        kind: Name of the class of what forward returned, as the worker claims.
        outputs: The outputs, as the worker claims.
        values: Values of each output; empty if an output is not on the device.
        writers: For each output, a code for the writer of each element: uint8, of its shape.
        wrong: Why an output is not in the device's memory; empty if each is.
        findings: Findings of the call.
        before: Work of the device between the last call and this one.
        evidence: What the device did in the call.
    """

    kind: str
    outputs: Sequence[ClaimedOutput]
    values: Sequence[Tensor]
    writers: Sequence[Tensor]
    wrong: str
    findings: Sequence[Finding]
    before: Sequence[Work]
    evidence: Evidence

    @property
    def kernels(self) -> tuple[KernelProfile, ...]:
        """The profile of each kernel; empty if the call was not counted."""
        counted = self.evidence.kernels
        return tuple(kernel_profile(each.counters, each.resources) for each in counted)

    @property
    def is_whole(self) -> bool:
        """True if all blocks of the launches ran."""
        return self.evidence.share_of_blocks == 1.0


@dataclass(frozen=True)
class AfterCalls:
    """Facts that are known after the calls of a worker.

    Attributes:
        constants: Names of the reference's constants that the submission has read, as it claims.
        leaks: Sizes in bytes of the allocations that its host code did not free.
        lines: Which lines of its device code have run.
    """

    constants: Sequence[str]
    leaks: Sequence[int]
    lines: Lines


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

        self._parameters: dict[str, Place] = {}
        self._served_seconds = 0.0
        self._set: tuple[str, ...] = ()
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

    # Steps. Each raises StepFailed if an exception or an error of the device stops it, and
    # WorkerFailure if the worker or the device does not answer in time, dies, or gives an invalid
    # answer.

    def import_submission(self, constants: Mapping[str, str], seconds: float | None = None) -> None:
        """Have the worker import the submission.

        Args:
            constants: The reference's constants that the submission may read: literals by name.
            seconds: Time limit; None for `Deadlines.step`.
        """
        self._step(Import(constants), seconds=seconds)

    def construct(self, asked: Construct, most_bytes: int = MAX_TENSOR_BYTES) -> ConstructedModel:
        """Have the worker construct the model.

        Args:
            asked: The arguments and the surroundings.
            most_bytes: Largest size in bytes of the parameters and buffers together.
        """
        self._parameters, self._set, self._inputs, self._outputs = {}, (), [], []
        constructed, evidence = self._step(asked)
        self._parameters = dict(zip(constructed.names, constructed.places, strict=True))
        told, tensors = self._read(DOING[Construct], self._limit, constructed.places, most_bytes)
        if told.wrong:
            words = f"the worker named an invalid parameter ({told.wrong})"
            self._fail(DOING[Construct], "protocol", words)
        # The next message may overwrite tensors on a GPU.
        values = (tensor.cpu() for tensor in tensors[::2])
        found = _found(constructed.findings, evidence)
        return ConstructedModel(dict(zip(constructed.names, values, strict=True)), found)

    def set_weights(self, weights: Mapping[str, Tensor]) -> Sequence[Work]:
        """Have the worker overwrite parameters and buffers, by name; return the device's work."""
        doing, names = DOING[SetWeights], tuple(weights)
        stored = self._put(doing, self._limit, PutWeights(), tuple(weights.values()))
        self._set = names
        return self._step(SetWeights(names, stored.places))[1].during

    def call(
        self,
        how: ForwardCall,
        inputs: Sequence[Tensor],
        most_bytes: int = MAX_TENSOR_BYTES,
        seconds: float | None = None,
    ) -> ForwardOutcome:
        """Have the worker call the model.

        Args:
            how: How the call is made.
            inputs: The inputs. If they are vast, only their parts.
            most_bytes: Largest size in bytes of the outputs together.
            seconds: Time limit; None for `Deadlines.step`.
        """
        # The worker does not learn that a call is counted or timed.
        doing = TIMING if how.timing else DOING[Forward]
        limit = seconds or self._limit
        # On a GPU, new memory is often the memory that was just freed. A random distance from
        # its start gives the inputs other addresses all the same.
        is_new = how.in_new_memory
        skipped = tuple(_any_distance() for _ in inputs) if is_new and self._is_on_gpu else ()
        wanted = PutInputs(is_new, how.arrangement, skipped, how.vast)
        stored = self._put(doing, limit, wanted, inputs)
        if stored.no_room:
            raise StepFailed(Fault("unsupported", stored.no_room))
        self._inputs = [_range_of(place) for place in stored.places]
        begin = Begin(how.counting, how.timing, how.schedule, how.budget, how.sample, how.vast)
        asked = Forward(stored.places, how.is_last)
        returned, evidence = self._step(asked, begin, doing, limit)
        findings = _found(returned.findings, evidence)
        called = ForwardOutcome(
            returned.kind, returned.outputs, (), (), "", findings, evidence.before, evidence
        )
        places = [each.place for each in returned.outputs if each.place]
        if not places or len(places) < len(returned.outputs):
            return called
        told, tensors = self._read(doing, limit, places, most_bytes, how.vast)
        if told.wrong:
            return replace(called, wrong=told.wrong)
        outputs = self._with_shares(returned.outputs, places, told.serials)
        return replace(called, outputs=outputs, values=tensors[::2], writers=tensors[1::2])

    def look_back(self) -> AfterCalls:
        """Have the worker drop the model; return what is known after its calls."""
        forgotten, _ = self._step(Forget())
        doing, limit = DOING[Forget], self._limit
        leaked = self._ask_device(doing, limit, FindLeaks())
        ran = self._ask_device(doing, limit, FindLines(self._file.name))
        return AfterCalls(forgotten.constants, leaked.sizes, ran.lines)

    @property
    def _limit(self) -> float:
        return self._deadlines.step

    # The worker's claims, and the device's evidence

    def _step(
        self,
        asked: Asked[A],
        begin: Begin | None = None,
        doing: Doing | None = None,
        seconds: float | None = None,
    ) -> tuple[A, Evidence]:
        """Have the worker do a step; return its answer, and what the device did meanwhile.

        Args:
            asked: The request to the worker.
            begin: The request to the device with which the step begins; None for a plain one.
            doing: Words for the step; None for those in `DOING`.
            seconds: Time limit; None for `Deadlines.step`.
        """
        doing, limit = doing or DOING[type(asked)], seconds or self._limit
        begin = begin or Begin()
        self._ask_device(doing, limit, begin)
        answer = self._request(asked, (), limit, doing)
        parameters = {name: self._parameters[name] for name in self._set}
        evidence = self._ask_device(doing, limit, End(parameters, begin.vast))
        self._is_broken = bool(evidence.broken_by)
        if evidence.malformed:
            words = f"the worker sent an invalid message ({evidence.malformed})"
            self._fail(doing, "protocol", words)
        if evidence.failure:
            # The error that stopped the device is the reason, and the worker's exception follows.
            fault = evidence.failure
        elif isinstance(answer, Failed):
            fault = answer.fault
        elif self._is_broken:
            # The host code has not asked CUDA for the error.
            fault = Fault("exception", f"CUDA error: {evidence.broken_by}")
        else:
            return answer, evidence
        fault = replace(fault, exceeds_grid=evidence.exceeds_grid)
        raise StepFailed(fault, fewer(evidence.findings))

    def _with_shares(
        self,
        outputs: Sequence[ClaimedOutput],
        places: Sequence[Place],
        serials: Sequence[int | None],
    ) -> Sequence[ClaimedOutput]:
        """Return outputs that say whose memory they share: an input's or an earlier output's.

        Args:
            outputs: The outputs of a call.
            places: Where they are.
            serials: Serial numbers of their allocations.
        """
        now = list(zip(serials, map(_range_of, places), strict=True))
        found = []
        for output, (serial, here) in zip(outputs, now, strict=True):
            # Each allocation has its own serial number. The same number means that the earlier
            # output's allocation was never freed. An address alone could be that of new memory.
            before = [where for known, where in self._outputs if known == serial]
            shares = output.shares
            if _overlap(here, self._inputs):
                shares = "its input"
            elif _overlap(here, before):
                shares = "an earlier output"
            found.append(structs.replace(output, shares=shares))
        self._outputs += now
        return found

    def _read(
        self,
        doing: Doing,
        limit: float,
        places: Sequence[Place],
        most: int,
        vast: Vast | None = None,
    ) -> tuple[Values, Sequence[Tensor]]:
        """Return the values of tensors on the device, and a code for the writer of each element.

        For a vast (very large) tensor, only the parts that are stored are returned. The total size
        is checked first, because the untrusted worker has stated the shapes.
        """
        counts = [vast.numbers_of_output if vast else math.prod(each.shape) for each in places]
        size = sum(count * _width(each) for count, each in zip(counts, places, strict=True))
        if size > most:
            words = f"tensors of {size} bytes, at most {most} are expected"
            self._fail(doing, "protocol", f"the worker sent an invalid message ({words})")
        # Each element has one byte more, for its writer.
        with_writers, request = size + sum(counts), Read(tuple(places), vast)
        return self._within(
            doing,
            limit,
            lambda end: self._device.read(request, with_writers, end, self._serve_device),
        )

    # The device

    def _ask_device(self, doing: Doing, limit: float, request: Asked[A]) -> A:
        return self._within(
            doing, limit, lambda end: self._device.ask(request, end, self._serve_device)
        )

    def _put(
        self,
        doing: Doing,
        limit: float,
        request: PutInputs | PutWeights,
        tensors: Sequence[Tensor],
    ) -> AtPlaces:
        return self._within(
            doing, limit, lambda end: self._device.put(request, tensors, end, self._serve_device)
        )

    def _within(self, doing: Doing, limit: float, ask: Callable[[float], A]) -> A:
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
            self._fail(doing, "timeout", words)
        except (Disconnected, ProtocolError):
            last = last_line(self._printed)
            self._fail(doing, "crash", f"the device has ended{f' ({last})' if last else ''}")
        finally:
            self._left.steps.spend(time.monotonic() - start - self._served_seconds)

    @property
    def is_spent(self) -> bool:
        """True if a kernel has broken the device, so that the worker can serve no request."""
        return self._is_broken

    def _serve_device(self, asked: RunPtxas) -> Answer:
        """Answer the device's request to run ptxas; the answer is empty if ptxas takes too long."""
        start = time.monotonic()
        try:
            if asked.wanted == "cubin":
                return PtxasRan(), (as_tensor(self._build_service.cubin(asked.code)),)
            return PtxasRan(self._build_service.resources(asked.code)), ()
        except CompileTimeout:
            return PtxasRan(), ()
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

    def _served(self, wanted: Build) -> Answer:
        """Build the extension that a worker requests; allow the device to load its modules."""
        before = set(self._build_service.built)
        try:
            served = self._build_service.serve(wanted.extension)
        except CompileTimeout:
            raise BuildTimeout(wanted.name) from None
        fresh = [library for library in self._build_service.built if library not in before]
        digests = tuple(sha256(image).hexdigest() for each in fresh for image in images_in(each))
        if digests:
            self._ask_device(DOING[Import], self._limit, Trust(digests))
        return served


def _found(remarks: Sequence[Remark], evidence: Evidence) -> Sequence[Finding]:
    """Return a step's findings: the worker's remarks, then what the device has found."""
    return fewer([*(each.finding for each in remarks), *evidence.findings])


def _any_distance() -> int:
    return _DISTANCE * secrets.randbelow(_FARTHEST // _DISTANCE + 1)


def _width(place: Place) -> int:
    return DTYPES[place.dtype].itemsize


def _range_of(place: Place) -> _Range:
    """Return a tensor's first address and the address after its last byte; (0, 0) if empty."""
    return (0, 0) if place.is_empty else (place.address, place.address + place.nbytes)


def _overlap(one: _Range, others: Sequence[_Range]) -> bool:
    return any(one[0] < end and start < one[1] for start, end in others)
