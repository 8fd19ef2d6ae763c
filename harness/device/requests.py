"""Requests of the supervisor to a worker's device, and the device's answer to each.

A new request is a class of requests and a class of answers here, and a method of
`session.DeviceSession` that answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.json import Decoder

from harness.device.place import Place
from harness.device.record import Work
from harness.finding import Finding
from harness.gpu.window import Placed
from harness.messages.faults import Fault
from harness.messages.protocol import Asked, Protocol, Told
from harness.problems.runs import Arrangement
from harness.problems.vast import Vast
from harness.simulator.counters.counters import KernelCounters
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.resources import Resources
from harness.simulator.ptx.fatbinary import DeviceCode


class RunPtxas(Told, frozen=True):
    """A device's request to run ptxas, which it sends before it answers.

    Attributes:
        code: The PTX.
        wanted: `resources`, the text that ptxas prints about the kernels, or `cubin`.
    """

    code: DeviceCode
    wanted: Literal["resources", "cubin"]


class PtxasRan(Struct, frozen=True):
    """The answer to `RunPtxas`; machine code is a tensor.

    Attributes:
        usage: The text; empty if ptxas took too long, or if machine code was wanted.
    """

    usage: str = ""


class Accepted(Told, frozen=True):
    """The answer to a request that asks for nothing."""


class Trust(Asked[Accepted], frozen=True):
    """A request to allow the worker to load fat binaries with these SHA-256 digests."""

    digests: tuple[str, ...]


class AtPlaces(Told, frozen=True):
    """The answer to a request that stores tensors.

    Attributes:
        places: Their addresses and layouts.
        no_room: Why vast inputs do not fit into the memory; empty if they do.
    """

    places: tuple[Place, ...] = ()
    no_room: str = ""


class PutInputs(Asked[AtPlaces], frozen=True):
    """A request to store the inputs of a forward call.

    Attributes:
        in_new_memory: Whether they must be at other addresses than the last inputs.
        arrangement: Their layout in memory.
        skipped: Number of unused bytes in front of each input; empty for none.
        vast: Description of vast inputs, of which only some parts are stored; None if there are
            none.
        placed: The inputs in shared GPU memory; empty if they are tensors of the message.
        handle: Handle of that memory.
    """

    in_new_memory: bool = False
    arrangement: Arrangement = "contiguous"
    skipped: tuple[int, ...] = ()
    vast: Vast | None = None
    placed: Placed = ()
    handle: str = ""


class PutWeights(Asked[AtPlaces], frozen=True):
    """A request to store new values of the model's weights; the fields are as in `PutInputs`."""

    placed: Placed = ()
    handle: str = ""


class Begin(Asked[Accepted], frozen=True):
    """A request to begin a step: to answer the worker's calls, and to record what they do.

    Attributes:
        counting: Whether to count what kernels do.
        timing: Whether to time the work.
        schedule: Number of the order in which blocks run; None for the usual one.
        budget: Limit of the work, in thread-instructions; None for no limit.
        sample: Seed of the random selection of blocks, if only some blocks run.
        vast: Description of vast inputs, as in `PutInputs`.
    """

    counting: bool = False
    timing: bool = False
    schedule: int | None = None
    budget: int | None = None
    sample: int | None = None
    vast: Vast | None = None


class KernelCounts(Struct, frozen=True):
    """The counters of one kernel.

    Attributes:
        counters: The counters, summed over all launches.
        resources: The resources that ptxas reported; None if there is no report.
    """

    counters: KernelCounters
    resources: Resources | None = None


class Evidence(Told, frozen=True):
    """A record of what the device did in a step.

    Attributes:
        before: Work between the step before and this one.
        during: Work in the step.
        findings: What the checks of the device have found.
        failure: The error that stopped the device; None if none did.
        broken_by: Text of the CUDA error after which every call fails; empty if there was none.
        malformed: What was wrong with an invalid message of the worker; empty if none was.
        exceeds_grid: Whether a launch had more blocks along y or z than a grid has.
        spent: Work of the simulator, in thread-instructions.
        milliseconds: Device time of the work, in ms; 0 if it was not timed.
        share_of_blocks: Fraction of the last launch's blocks that ran.
        inputs: Digest of each input after the step.
        weights: Digest of each parameter after the step, by name.
        kernels: What was counted of each kernel.
    """

    before: tuple[Work, ...]
    during: tuple[Work, ...]
    findings: tuple[Finding, ...]
    failure: Fault | None = None
    broken_by: str = ""
    malformed: str = ""
    exceeds_grid: bool = False
    spent: int = 0
    milliseconds: float = 0.0
    share_of_blocks: float = 1.0
    inputs: tuple[str, ...] = ()
    weights: Mapping[str, str] = {}
    kernels: tuple[KernelCounts, ...] = ()


class End(Asked[Evidence], frozen=True):
    """A request to end a step.

    Attributes:
        parameters: The model's parameters, by name, whose digests are wanted.
        vast: Description of vast inputs, as in `PutInputs`.
    """

    parameters: Mapping[str, Place] = {}
    vast: Vast | None = None


class Values(Told, frozen=True):
    """The values of tensors, and a code for the writer of each element, as tensors in turn.

    Attributes:
        serials: Serial number of each tensor's allocation; None for an empty tensor.
        wrong: Why a place is not that of a tensor; empty if each is.
        placed: The tensors in shared GPU memory; empty if they are tensors of the message.
    """

    serials: tuple[int | None, ...] = ()
    wrong: str = ""
    placed: Placed = ()


class Read(Asked[Values], frozen=True):
    """A request for the values of tensors that the worker has named.

    Attributes:
        places: Their addresses and layouts.
        vast: Description of vast inputs, as in `PutInputs`. Only parts of the tensors are stored
            then.
        room: Handle of shared GPU memory that is large enough for the answer; empty for none.
    """

    places: tuple[Place, ...]
    vast: Vast | None = None
    room: str = ""


class Leaked(Told, frozen=True):
    """The sizes in bytes of the allocations that host code made and did not free."""

    sizes: tuple[int, ...]


class FindLeaks(Asked[Leaked], frozen=True):
    """A request for the allocations that were not freed."""


class LinesRan(Told, frozen=True):
    """The lines of a source file's device code that have run, and those that have not."""

    lines: Lines


class FindLines(Asked[LinesRan], frozen=True):
    """A request for the coverage of a source file, by its name without a folder."""

    file: str


PROTOCOL = Protocol.of(
    (Trust, PutInputs, PutWeights, Begin, End, Read, FindLeaks, FindLines), [RunPtxas]
)
RAN: Decoder[PtxasRan] = Decoder(PtxasRan)
ASKED: Decoder[RunPtxas] = Decoder(RunPtxas)
