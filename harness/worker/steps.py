"""Requests for a worker's steps, and the only form in which a worker may answer each.

A new step is a class of requests and a class of answers here, and a method that does the step in
worker/inside/. Answers come from untrusted code. So each text and list in them has a limit, which
is checked where the answer is decoded.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, islice
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from msgspec.json import Decoder

from harness.compiler.flags import Extension
from harness.device.place import Place
from harness.finding import SEVERITIES, Finding, Severity
from harness.gpu.window import Placed
from harness.messages.channel import MAX_TENSORS
from harness.messages.faults import Fault
from harness.messages.kinds import ClaimedKind, Move
from harness.messages.protocol import Asked, Protocol, Told
from harness.problems.configuration import ConstructorCall, Number, literal
from harness.system.texts import (
    MOST_OF_A_DETAIL,
    MOST_OF_A_MESSAGE,
    MOST_OF_A_NAME,
    shortened,
)

# No tensor on the device has nearly as many elements.
_MOST_ELEMENTS = 1 << 48
# Limits of the findings that are kept from one answer: their number, and their characters. A report
# has the findings of hundreds of answers.
_MOST_FINDINGS = 100
_MOST_OF_ALL_FINDINGS = 64 << 10
_MOST_ITEMS = 100_000

Name = Annotated[str, Meta(max_length=MOST_OF_A_NAME)]
Line = Annotated[str, Meta(max_length=MOST_OF_A_MESSAGE)]
Detail = Annotated[str, Meta(max_length=MOST_OF_A_DETAIL)]

_FileName = Annotated[str, Meta(pattern=r"^[\w+][\w .+-]{0,199}\Z")]
_Source = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]
_Flag = Annotated[str, Meta(max_length=4096, pattern=r"^[^\0\n]*\Z")]
_Flags = Annotated[tuple[_Flag, ...], Meta(max_length=256)]


@dataclass(frozen=True)
class Doing:
    """How messages name what a worker is doing.

    Attributes:
        words: Words after "while".
        has_option: Whether users can set its time limit by --step-seconds.
    """

    words: str
    has_option: bool = True


STARTING = Doing("starting", has_option=False)
TIMING = Doing("running a timed call", has_option=False)


class Remark(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding of a worker about its own process; `Finding` explains the fields."""

    message: Line
    severity: Severity
    count: Annotated[int, Meta(ge=0, lt=1 << 48)] = 1

    @staticmethod
    def of(finding: Finding) -> Remark:
        """Return the remark for a finding of the check `state`; a long message is cut."""
        message = shortened(finding.message, MOST_OF_A_MESSAGE)
        return Remark(message, finding.severity, finding.count)

    @property
    def finding(self) -> Finding:
        """The remark as a finding of the check `state`."""
        return Finding("state", self.message, count=self.count, severity=self.severity)


Remarks = Annotated[tuple[Remark, ...], Meta(max_length=_MOST_ITEMS)]


class Ready(Told, frozen=True):
    """The first message of a worker: it accepts requests."""


class Failed(Told, frozen=True):
    """The answer to any request whose step raised an exception; `Fault` explains the fields."""

    kind: ClaimedKind
    message: Line
    detail: Detail = ""

    @property
    def fault(self) -> Fault:
        """The reason that the worker claims."""
        return Fault(self.kind, self.message, self.detail)


class Build(Told, frozen=True):
    """A worker's request for the build of an extension, which it sends within a step.

    `Extension` explains the fields. The texts go into files and command lines.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}\Z")]
    sources: Annotated[tuple[tuple[_FileName, _Source], ...], Meta(min_length=1, max_length=256)]
    cpp_flags: _Flags
    cuda_flags: _Flags
    link_flags: _Flags
    include_paths: _Flags
    with_cuda: bool

    @staticmethod
    def of(extension: Extension) -> Build:
        """Return the request for an extension."""
        return Build(**asdict(extension))

    @property
    def extension(self) -> Extension:
        """The extension that is wanted."""
        return Extension(**structs.asdict(self))


class Built(Struct, frozen=True):
    """The answer to `Build`; a tensor is the shared object if there is no error.

    Attributes:
        error: What the compiler printed; None if the extension compiles.
    """

    error: str | None = None


class Done(Told, frozen=True):
    """The answer of a step that has nothing to tell."""


class Import(Asked[Done], frozen=True):
    """A request to import the submission.

    Attributes:
        constants: The reference's constants that the submission may read: literals by name.
    """

    constants: Mapping[str, str]


class Constructed(Told, frozen=True):
    """The parameters and buffers of the constructed model.

    Attributes:
        names: Their names.
        places: Their addresses and layouts, in the same order.
        findings: What the worker found at import and construction.
    """

    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_TENSORS)]
    places: Annotated[tuple[Place, ...], Meta(max_length=MAX_TENSORS)]
    findings: Remarks

    def __post_init__(self) -> None:
        """Raise a ValueError unless each place is possible and has a name of its own."""
        count = len(self.places)
        if count != len(self.names) or len(set(self.names)) != count:
            raise ValueError(f"{count} tensors under {len(self.names)} names")
        for place in self.places:
            _require_possible(place)


class Construct(Asked[Constructed], frozen=True):
    """A request to construct the model.

    Attributes:
        positional, named: The constructor's arguments, as Python literals.
        numbers: Inputs of forward that are not tensors, by their position among all inputs.
        multiprocessors: Number of multiprocessors that the device is to report; None for its usual
            number.
        move: The call that moves the model to the device.
        constants: As in `Import`.
        seed: Seed of torch's random numbers.
    """

    positional: tuple[str, ...]
    named: Mapping[str, str]
    numbers: Mapping[int, Number] = {}
    multiprocessors: int | None = None
    move: Move = "cuda()"
    constants: Mapping[str, str] = {}
    seed: int = 0

    @staticmethod
    def of(call: ConstructorCall) -> Construct:
        """Return the request for a constructor call, with defaults for all other fields."""
        named = {name: literal(value) for name, value in call.named.items()}
        return Construct(tuple(map(literal, call.positional)), named)

    @property
    def call(self) -> ConstructorCall:
        """The constructor call whose arguments the request has as literals."""
        named = {name: ast.literal_eval(text) for name, text in self.named.items()}
        return ConstructorCall(tuple(map(ast.literal_eval, self.positional)), named)


class SetWeights(Asked[Done], frozen=True):
    """A request to overwrite parameters and buffers.

    Attributes:
        names: Their names.
        places: Where the new values are on the device. A baseline gets them as tensors instead.
    """

    names: tuple[str, ...]
    places: tuple[Place, ...] = ()


class ClaimedOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """One output of forward.

    Attributes:
        kind: Name of its class.
        device: Type of its device; empty if it is not a tensor.
        shares: The tensor whose memory it uses; None if the worker knows of none.
        place: Its address and layout; None if it is not on the device.
    """

    kind: Name
    device: Name = ""
    shares: Name | None = None
    place: Place | None = None

    def __post_init__(self) -> None:
        """Raise a ValueError unless the place is possible."""
        if self.place:
            _require_possible(self.place)


class Returned(Told, frozen=True):
    """The claim about what forward has returned.

    Attributes:
        kind: Name of the class of what it returned.
        outputs: The outputs.
        findings: What the worker found in the call.
    """

    kind: Name
    outputs: Annotated[tuple[ClaimedOutput, ...], Meta(max_length=MAX_TENSORS)]
    findings: Remarks


class Forward(Asked[Returned], frozen=True):
    """A request to call the model. It does not show whether the call is checked or timed.

    Attributes:
        places: Addresses and layouts of the inputs.
        is_last: True for a case's last call, after which Python's state is looked at thoroughly.
    """

    places: tuple[Place, ...]
    is_last: bool = False


class Forgotten(Told, frozen=True):
    """The names of the reference's constants that the submission has read."""

    constants: Annotated[tuple[Name, ...], Meta(max_length=_MOST_ITEMS)]


class Forget(Asked[Forgotten], frozen=True):
    """A request to drop the model and its tensors."""


class Timed(Told, frozen=True):
    """The answer of a baseline to `Time`.

    Attributes:
        milliseconds: Device time of the call, in ms.
        placed: The output in the shared memory; None if the reference returned no tensor.
    """

    milliseconds: float
    placed: Placed | None = None


class Time(Asked[Timed], frozen=True):
    """A request to a baseline to time one call.

    Attributes:
        precision: `fp32` or `tf32`.
        handle: Handle of the GPU memory that the baseline shares with the supervisor.
        placed: The inputs in that memory.
        behind: Offset in bytes at which the output is to be stored.
    """

    precision: str
    handle: str
    placed: Placed
    behind: int


def _require_possible(place: Place) -> None:
    """Raise a ValueError unless a tensor can have this place, with at most `_MOST_ELEMENTS`.

    Without this limit, arithmetic with its sizes could take minutes, or raise an error.
    """
    if not place.is_possible or math.prod(place.shape) > _MOST_ELEMENTS:
        raise ValueError("no tensor can have this address and layout")


DOING: Mapping[type[Asked[Any]], Doing] = {
    Import: Doing("importing the submission"),
    Construct: Doing("constructing ModelNew"),
    SetWeights: Doing("setting the weights"),
    Forward: Doing("running forward"),
    Forget: Doing("looking for memory that was not freed", has_option=False),
    Time: TIMING,
}
"""Words for each kind of request; the keys are all kinds."""

PROTOCOL = Protocol.of(tuple(DOING), [Failed, Build])
BUILT: Decoder[Built] = Decoder(Built)
READY: Decoder[Ready] = Decoder(Ready)


def fewer(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one answer, or the most severe ones if they exceed the limits.

    The limits are of their number and size. A further finding, of severity `info`, then gives the
    number of findings left out.
    """
    if _how_many_fit(found) == len(found):
        return list(found)
    ordered = sorted(found, key=lambda each: SEVERITIES.index(each.severity), reverse=True)
    # A single finding is never too long to be kept.
    kept = ordered[: max(_how_many_fit(ordered), 1)]
    message = f"one call has {len(found)} findings, more than are kept: {len(kept)} are kept"
    rest = Finding("state", message, count=len(found) - len(kept), severity="info")
    return [*kept, rest] if rest.count else kept


def _how_many_fit(findings: Sequence[Finding]) -> int:
    """Return how many findings, counted from the first, fit the limits of number and size."""
    lengths = accumulate(
        len(finding.message) + len(finding.kernel) + len(finding.file or "") + len(finding.access)
        for finding in findings
    )
    return sum(length <= _MOST_OF_ALL_FINDINGS for length in islice(lengths, _MOST_FINDINGS))
