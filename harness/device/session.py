"""One worker's device, which serves the worker's calls and reports them to the supervisor.

The supervisor is the harness's trusted code that started the worker.
"""

from __future__ import annotations

import ctypes
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs
from torch import Tensor

from harness.device.calls import Calls, Refused
from harness.device.executor import Assembler, Executor
from harness.device.failure import fault_of
from harness.device.place import Place
from harness.device.record import Record, Work
from harness.device.requests import (
    PROTOCOL,
    RAN,
    Accepted,
    AtPlaces,
    Begin,
    End,
    Evidence,
    FindLeaks,
    FindLines,
    KernelCounts,
    Leaked,
    LinesRan,
    PutInputs,
    PutWeights,
    Read,
    RunPtxas,
    Trust,
    Values,
)
from harness.device.tensors import NoTensor, put, tensor_at
from harness.device.values import Malformed
from harness.device.vast import (
    input_parts,
    output_parts,
    put_vast,
    values_of_parts,
    writers_of_parts,
)
from harness.finding import Finding
from harness.messages.channel import DTYPES as MESSAGE_DTYPES
from harness.messages.channel import Answer, Channel, Disconnected, Message
from harness.messages.digests import digest
from harness.messages.faults import Fault
from harness.messages.protocol import Asked
from harness.problems.runs import Arrangement
from harness.problems.vast import Vast
from harness.simulator.execution.chosen import AtRandom, Near
from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.memory import OutOfDeviceMemory
from harness.simulator.hardware.resources import Resources, parse_usage
from harness.simulator.layout.calls import MOST_BYTES, AnswerEntry, RequestEntry, RuntimeCall
from harness.simulator.layout.scalar_types import DTYPES
from harness.simulator.ptx.fatbinary import DeviceCode

_NOT_AWAITED = (
    "{}: runs on a stream that the caller's stream does not wait for, so its results may "
    "be read too early"
)

MakeExecutor = Callable[[Record, Assembler], Executor]
"""A function that makes a device, which adds its work to the record."""


class DeviceSession:
    """The device of one worker, which serves the worker's calls and the supervisor's requests.

    A worker's step is its import, construction or forward call, for example. The supervisor sends
    the request `Begin` before each step, and `End` after it. The answer to `End` reports what the
    device did in the step.

    Args:
        make: Function that makes the device and its memory.
        calls: Socket from which the calls of the worker's CUDA runtime come.
        control: Channel from which the supervisor's requests come.
        trusted: SHA-256 digests of the fat binaries that may be loaded. The supervisor adds to this
            set. None allows every binary.
        assembler: Functions that run ptxas; None to ask the supervisor to run ptxas.
    """

    def __init__(
        self,
        make: MakeExecutor,
        calls: socket.socket,
        control: Channel,
        trusted: set[str] | None = None,
        assembler: Assembler | None = None,
    ) -> None:
        self._worker = calls
        self._control = control
        self._record = Record()
        self._trusted = trusted
        self._fresh: set[str] = set()
        asked = Assembler(self._asked_usage, self._asked_cubin)
        executor = make(self._record, assembler or asked)
        self._memory, self._device = executor.memory, executor.device
        self._exchange = executor.exchange
        self._calls = Calls(executor, self._record, trusted, self._fresh)
        self._inputs: list[Place] = []
        self._arrangement: Arrangement = "contiguous"
        self._weights: list[Place] = []
        self._before: tuple[Work, ...] = ()
        self._malformed = ""
        # Before the first step, the worker asks for the device's properties while it starts.
        self._is_open = True
        self._answers: Mapping[type[Asked[Any]], Callable[[Message[Any]], Answer]] = {
            Trust: self._trust,
            PutInputs: self._put_inputs,
            PutWeights: self._put_weights,
            Begin: self._begin,
            End: self._end,
            Read: self._read,
            FindLeaks: self._leaks,
            FindLines: self._lines,
        }

    def serve(self) -> None:
        """Answer the worker and the supervisor until the supervisor closes the connection.

        The worker's calls are answered only within steps. A call between two steps waits for the
        next step, and is part of that step's record. So the device does no unrecorded work for a
        worker, neither before a step begins nor after the step has returned its output.
        """
        with selectors.DefaultSelector() as both, selectors.DefaultSelector() as trusted:
            both.register(self._control, selectors.EVENT_READ)
            trusted.register(self._control, selectors.EVENT_READ)
            both.register(self._worker, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in (both if self._is_open else trusted).select()]
                # The trusted side comes first: after the end of a step, no call is answered.
                if self._control in ready:
                    if not self._serve_trusted():
                        self._device.close()
                        return
                elif not self._serve_worker():
                    both.unregister(self._worker)
                    self._worker.close()

    # The worker

    def _serve_worker(self) -> bool:
        """Answer one call of the worker.

        Return False if the call is invalid or the connection is closed.
        """
        try:
            request = RequestEntry.from_buffer_copy(self._received(ctypes.sizeof(RequestEntry)))
            if request.size > MOST_BYTES:
                raise Malformed(f"a call of {request.size} bytes")
            data = self._received(request.size)
            error, answer = self._answered(request, data)
            if request.call != RuntimeCall.RELEASE:
                self._worker.sendall(bytes(AnswerEntry(error, 0, len(answer))) + answer)
        except OSError:
            return False
        except Malformed as wrong:
            self._malformed = str(wrong)
            return False
        return True

    def _answered(self, request: RequestEntry, data: bytes) -> tuple[int, bytes]:
        """Execute a call; return a cudaError_t or `Raised`, and the bytes of the answer."""
        try:
            return CudaError.SUCCESS, self._calls.answer(request.call, request.stream, data)
        except Refused as refused:
            return refused.error, refused.why.encode(errors="replace")

    def _received(self, count: int) -> bytes:
        """Return the next bytes from the worker.

        Raises:
            ConnectionError: The worker has closed the connection.
        """
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self._worker.recv_into(view)
            if not got:
                raise ConnectionError
            view = view[got:]
        return bytes(data)

    # The trusted side

    def _serve_trusted(self) -> bool:
        """Answer one request of the supervisor; return False if the connection is closed."""
        try:
            message = self._control.receive(PROTOCOL.requests)
            self._control.send(*self._answers[type(message.body)](message))
        except Disconnected:
            return False
        return True

    def _tensors(self, message: Message[PutInputs] | Message[PutWeights]) -> Sequence[Tensor]:
        """Return the tensors of a request; large ones are in shared GPU memory."""
        if message.body.placed and self._exchange:
            return self._exchange.at(message.body.handle, message.body.placed)
        return message.tensors

    def _asked_usage(self, code: DeviceCode) -> Mapping[str, Resources]:
        self._control.send(RunPtxas(code, "resources"))
        return parse_usage(self._control.receive(RAN).body.usage)

    def _asked_cubin(self, code: DeviceCode) -> bytes:
        self._control.send(RunPtxas(code, "cubin"))
        return b"".join(bytes(each.numpy()) for each in self._control.receive(RAN).tensors)

    def _trust(self, message: Message[Trust]) -> Answer:
        """Allow the worker to load the fat binaries whose SHA-256 digests the message lists."""
        if self._trusted is not None:
            self._trusted.update(message.body.digests)
        self._fresh.update(message.body.digests)
        return Accepted(), ()

    def _put_inputs(self, message: Message[PutInputs]) -> Answer:
        """Copy inputs of a forward call to the device, and return their addresses and layouts.

        The memory of the last inputs is used again if the new inputs have the same shapes and
        dtypes and all are contiguous. The request can ask for new memory instead.
        """
        asked, tensors = message.body, self._tensors(message)
        fits = asked.arrangement == self._arrangement == "contiguous"
        fits = fits and [(place.shape, DTYPES[place.dtype]) for place in self._inputs] == [
            (tuple(value.shape), value.dtype) for value in tensors
        ]
        self._arrangement = asked.arrangement
        if asked.vast:
            self._drop(self._inputs)
            self._inputs = []
            try:
                self._inputs = [self._put_vast(value, asked.vast) for value in tensors]
            except OutOfDeviceMemory as error:
                return AtPlaces(no_room=str(error)), ()
        # New values at the same addresses make a cached result wrong that is found by address.
        # Inputs in new memory make an address wrong that was kept from an earlier call.
        elif fits and not asked.in_new_memory:
            for place, value in zip(self._inputs, tensors, strict=True):
                tensor_at(self._memory, place).copy_(value)
        else:
            self._drop(self._inputs)
            skipped = asked.skipped or [0] * len(tensors)
            self._inputs = [
                self._put(value, asked.arrangement, before)
                for value, before in zip(tensors, skipped, strict=True)
            ]
        return AtPlaces(tuple(self._inputs)), ()

    def _put_weights(self, message: Message[PutWeights]) -> Answer:
        """Copy the model's new weights to the device, and return their addresses and layouts.

        The worker then copies them to its parameters.
        """
        self._drop(self._weights)
        self._weights = [self._put(value) for value in self._tensors(message)]
        return AtPlaces(tuple(self._weights)), ()

    def _put(
        self, value: Tensor, arrangement: Arrangement = "contiguous", skipped: int = 0
    ) -> Place:
        """Copy a tensor to new memory, which the worker and the supervisor must both free."""
        place = put(self._memory, value, arrangement, skipped)
        if not place.is_empty:
            self._calls.keep(self._start(place))
            self._memory.give(place)
        return place

    def _put_vast(self, value: Tensor, vast: Vast) -> Place:
        self._memory.be_sparse(True)
        try:
            place = put_vast(self._memory, value, vast)
        finally:
            self._memory.be_sparse(False)
        self._calls.keep(place.address)
        return place

    def _drop(self, places: Sequence[Place]) -> None:
        """Record that the supervisor freed tensors; free each that the worker has freed, too."""
        for place in places:
            if not place.is_empty:
                self._calls.let_go(self._start(place))

    def _start(self, place: Place) -> int:
        """Return the start address of the allocation that contains a tensor."""
        allocation = self._memory.find(place.address)
        return allocation.start if allocation else place.address

    def _begin(self, message: Message[Begin]) -> Answer:
        """Begin a step: from now on, answer the worker's calls and record them for this step."""
        asked = message.body
        self._before = self._record.take()
        self._fresh.clear()
        self._calls.exceeds_grid = False
        self._is_open = True
        self._device.reorder(asked.schedule)
        self._calls.streams.begin(is_reversed=asked.schedule is not None, is_timed=asked.timing)
        self._device.allow(asked.budget)
        self._work_on(asked.vast, asked.sample)
        if asked.counting:
            self._device.start_counting()
        if asked.timing:
            self._device.start_timing()
        return Accepted(), ()

    def _work_on(self, vast: Vast | None, sample: int | None = None) -> None:
        """Select where later allocations occupy memory, and which blocks of launches run.

        Args:
            vast: Description of vast inputs, of which only some parts are stored. Allocations then
                occupy memory only where they are accessed, and only blocks near those parts run.
                With None, allocations occupy memory as usual, and all blocks run.
            sample: Seed of the random selection of the blocks that run; None for no random
                selection.
        """
        self._memory.be_sparse(vast is not None)
        self._calls.operators.vast = vast
        if sample is not None:
            self._device.work_near(AtRandom(sample))
            return
        numbers = vast.output_starts if vast and vast.along == 0 else ()
        self._device.work_near(Near(vast.places, numbers) if vast else None)

    def _end(self, message: Message[End]) -> Answer:
        """End a step, and return what the device did in it.

        The answer has digests of the inputs and parameters as they are after the step.
        """
        self._is_open = False
        left = self._end_streams()
        share_of_blocks = self._device.share_of_blocks
        self._work_on(None)
        milliseconds = self._timed()
        during, spent, broken_by = self._record.take(), self._device.spent, self._device.broken_by
        findings, failure = self._observed()
        evidence = Evidence(
            self._before,
            during,
            (*findings, *left),
            failure,
            broken_by,
            self._malformed,
            self._calls.exceeds_grid,
            spent,
            milliseconds,
            share_of_blocks,
        )
        if broken_by:
            # Nothing can read the device's memory any more.
            return evidence, ()
        asked = message.body
        inputs = tuple(digest(self._input_at(place, asked.vast)) for place in self._inputs)
        if asked.vast:
            # Later steps take digests of whole inputs, which sparse memory cannot give.
            self._drop(self._inputs)
            self._inputs = []
        weights = {name: self._digest(place) for name, place in asked.parameters.items()}
        counted = self._device.counted()
        usage = self._device.resources() if counted else {}
        kernels = tuple(KernelCounts(each, usage.get(name)) for name, each in counted.items())
        return structs.replace(evidence, inputs=inputs, weights=weights, kernels=kernels), ()

    def _end_streams(self) -> Iterator[Finding]:
        """End the step on all streams.

        Return a finding for each kernel or copy that is dropped because nothing waits for it.
        """
        try:
            left = self._calls.streams.end()
        except BaseException as error:
            # The device stores the error, and `_observed` reports it.
            self._device.refused(error)
            return iter(())
        return (Finding("racecheck", _NOT_AWAITED.format(name)) for name in dict.fromkeys(left))

    def _timed(self) -> float:
        try:
            return self._device.timed()
        except RuntimeError:  # a kernel has broken the device, which `broken_by` reports
            return 0.0

    def _observed(self) -> tuple[Sequence[Finding], Fault | None]:
        """Return the device's findings since the last call, and any error that stopped it."""
        failure = None
        try:
            seen = self._device.observe()
        except BaseException as error:
            failure = fault_of(error)
            seen = self._device.observe()
        return (*seen, *self._calls.observe()), failure

    def _input_at(self, place: Place, vast: Vast | None) -> Tensor:
        """Return an input's values; for a vast input, only the values that are stored in memory."""
        if vast is None:
            return tensor_at(self._memory, place)
        return values_of_parts(self._memory, input_parts(place, vast))

    def _output_at(self, place: Place, vast: Vast | None) -> tuple[Tensor, Tensor]:
        """Return an output's values, and a code for the writer of each element.

        For a vast (very large) output, only the parts that are stored are returned.
        """
        if vast is None:
            return tensor_at(self._memory, place).contiguous(), self._memory.writers(place)
        parts = output_parts(place, vast)
        return values_of_parts(self._memory, parts), writers_of_parts(self._memory, parts)

    def _digest(self, place: Place) -> str:
        """Return the digest of a tensor, or the reason why its address or layout is not valid."""
        try:
            return digest(tensor_at(self._memory, place))
        except NoTensor as error:
            return str(error)

    def _read(self, message: Message[Read]) -> Answer:
        """Return the values of tensors that the worker named, and a code for each element's writer.

        For a vast (very large) output, only the parts that are stored are returned.
        """
        asked = message.body
        tensors: list[Tensor] = []
        serials: list[int | None] = []
        for place in asked.places:
            try:
                value, writers = self._output_at(place, asked.vast)
                if value.dtype not in MESSAGE_DTYPES.values():
                    raise NoTensor(f"a tensor of {value.dtype} cannot be sent")
                tensors += [value, writers]
            except NoTensor as error:
                return Values(wrong=str(error)), ()
            found = None if place.is_empty else self._memory.find(place.address)
            serials.append(found.serial if found else None)
        if asked.room and self._exchange and tensors:
            return Values(tuple(serials), placed=self._exchange.put(asked.room, tensors)), ()
        return Values(tuple(serials)), tensors

    def _leaks(self, _: Message[FindLeaks]) -> Answer:
        """Return the sizes in bytes of the allocations that host code made and did not free."""
        return Leaked(tuple(allocation.size for allocation in self._memory.leaks())), ()

    def _lines(self, message: Message[FindLines]) -> Answer:
        """Return which lines of a source file's device code have run, and which have not."""
        return LinesRan(self._device.lines(message.body.file)), ()
