"""What a worker's CUDA runtime says to the device process, and is answered.

A call is a `sim_request` and as many bytes as it says; the answer is a `sim_answer` and as many
bytes. Both processes run on one machine, so that structures cross as they lie in memory. The device
process takes nothing of it for granted: what does not fit its call ends the conversation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from harness.simulator.layout.runtime import DeviceEntry
from harness.simulator.layout.structure import U32, U64, Field, Int, Structure, structure


class Call(IntEnum):
    """What can be asked for; in parentheses what goes there, and what comes back."""

    HELLO = 1
    """(nothing) a `sim_welcome`."""
    ALLOCATE = 2
    """(a `sim_wanted`) the address, u64."""
    FREE = 3
    """(the address, u64) nothing."""
    RELEASE = 4
    """As FREE, but nobody waits for an answer."""
    READ = 5
    """(a `sim_range`) its bytes, which go to the host."""
    WRITE = 6
    """(the address, u64, and bytes that come from the host) nothing."""
    COPY = 7
    """(a `sim_copy`) nothing."""
    FILL = 8
    """(a `sim_fill`) nothing."""
    FIND = 9
    """(an address, u64) the `sim_range` of the live allocation that holds it, or of size 0."""
    MEMORY = 10
    """(whether to forget the peak, u64) a `sim_memory`."""
    MODULE = 11
    """(a fat binary) its number, u64."""
    PARAMETERS = 12
    """(a module's number and a kernel's name) the sizes of the kernel's parameters, u32 each."""
    LAUNCH = 13
    """(a module's number, a `sim_launch`, a kernel's name, NUL, and the arguments) nothing."""
    SYMBOL = 14
    """(a module's number and a variable's name) its address, u64, or 0."""
    DESCRIBE = 15
    """(a module's number and a kernel's name) a `sim_kernel`."""
    ALLOW_SHARED = 16
    """(a module's number, dynamic shared bytes, u64, and a kernel's name) nothing."""
    OCCUPANCY = 17
    """(a module's number, a `sim_launch` and a kernel's name) blocks, u64."""
    UNSUPPORTED = 18
    """(words) nothing: the host code has asked for something that is not here."""
    LIBRARY = 19
    """(a function's name) nothing: a library was called, which would do the work."""
    OPERATOR = 20
    """(an operator of torch and its arguments: operators.h) its results."""
    SEED = 21
    """(u64) nothing: of torch's random numbers on the device."""
    STREAM = 22
    """(whether it and the default stream wait for each other, u64) another stream's number, u64."""
    END_STREAM = 23
    """(a stream's number, u64) nothing: nobody asks it for anything again."""
    RECORD = 24
    """(nothing) a ticket, u64, for what the call's stream has been asked for so far."""
    WAIT = 25
    """(a ticket, u64) nothing: the call's stream goes on after that."""
    SYNCHRONIZE = 26
    """(a ticket, u64, or 0 for everything) nothing: the host goes on after that."""


class Value(IntEnum):
    """The kinds of an operator's arguments and results, each a byte before what it is."""

    NONE = 0
    TRUTH = 1
    """A byte."""
    INTEGER = 2
    """i64."""
    REAL = 3
    """A double."""
    COMPLEX = 4
    """Two doubles."""
    TEXT = 5
    """Its length, u64, and its bytes."""
    LIST = 6
    """Its length, u64, and so many values."""
    TENSOR = 7
    """On the device: a `sim_tensor` and its sizes and strides, i64 each."""
    HOST_TENSOR = 8
    """The same, and the bytes of its elements, in order."""
    ARGUMENT = 9
    """Of results: u64, the how manieth tensor of the arguments it is; then a TENSOR's rest."""
    DEVICE = 10
    """Where something shall be made: on the device, which there is but one of."""


@structure("sim_request")
class RequestEntry(Structure):
    """What each call begins with."""

    call: U32
    stream: U32
    """For which it is: 0 is the default one, and `HOST` none."""
    size: U64
    """Bytes that follow."""


@structure("sim_answer")
class AnswerEntry(Structure):
    """What each answer begins with."""

    error: Int
    """A cudaError_t; for an operator's exception a `Raised`. What follows is then why, in words."""
    unused: U32
    size: U64
    """Bytes that follow."""


@structure("sim_welcome")
class WelcomeEntry(Structure):
    """What the device is, and which addresses are its memory's."""

    device: Annotated[DeviceEntry, Field(DeviceEntry, "sim_device {}")]
    base: U64
    size: U64


@structure("sim_wanted")
class AllocateEntry(Structure):
    """What memory is asked for."""

    size: U64
    owned: U64
    """1 where host code that asked for it has to free it."""


@structure("sim_range")
class RangeEntry(Structure):
    """Some bytes of the device's memory."""

    start: U64
    size: U64


@structure("sim_copy")
class CopyEntry(Structure):
    """A copy within the device's memory."""

    target: U64
    source: U64
    size: U64


@structure("sim_fill")
class FillEntry(Structure):
    """Bytes that become `value`."""

    start: U64
    size: U64
    value: U64


@structure("sim_memory")
class MemoryEntry(Structure):
    """How much memory there is, in bytes."""

    limit: U64
    live: U64
    peak: U64


@structure("sim_tensor")
class TensorEntry(Structure):
    """A strided tensor; its sizes and strides follow."""

    address: U64
    """Of the first element; 0 for one on the host, or one without elements."""
    dtype: Int
    """A c10::ScalarType."""
    dimensions: U32
    flags: U64
    """1: to be conjugated, 2: to be negated."""


class Raised(IntEnum):
    """What an operator raised, by the name of its class in Python."""

    RuntimeError = -1
    IndexError = -2
    ValueError = -3
    TypeError = -4
    NotImplementedError = -5
    OutOfMemoryError = -6


CONJUGATED, NEGATED = 1, 2
DEFAULT_STREAM = 0
"""CUDA's legacy default stream, which is always there."""
HOST = 0xFFFFFFFF
"""Instead of a stream, for what the host does by itself, at once."""
MOST_BYTES = 64 << 20
"""Of one call; longer copies take several."""
CHUNK_BYTES = 16 << 20
"""Of a longer copy's parts."""

STRUCTURES = (
    RequestEntry,
    AnswerEntry,
    WelcomeEntry,
    AllocateEntry,
    RangeEntry,
    CopyEntry,
    FillEntry,
    MemoryEntry,
    TensorEntry,
)
