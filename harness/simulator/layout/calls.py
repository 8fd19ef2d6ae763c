"""The messages between a worker and the device process.

A worker runs a submission's Python and host code, and has a CUDA runtime of its own. The device
process has the simulated device. A call of the worker is a `sim_request` followed by a payload,
whose size the `sim_request` states. The answer is a `sim_answer` followed by a payload in the same
way. Both processes run on one machine, so a structure is sent as its bytes in memory. The device
process does not trust the worker: it ends the connection if the payload does not fit the call.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from harness.simulator.layout.runtime import DeviceEntry
from harness.simulator.layout.structure import U32, U64, Field, Int, Structure, structure


class RuntimeCall(IntEnum):
    """The calls that a worker can send to the device process.

    The text below each member says what the call does. After the colon it gives the payload of the
    call, "->", and the payload of the answer.
    """

    HELLO = 1
    """Begin the connection: nothing -> a `sim_welcome`."""
    ALLOCATE = 2
    """Allocate memory: a `sim_wanted` -> the address, u64."""
    FREE = 3
    """Free memory: the address, u64 -> nothing."""
    RELEASE = 4
    """Free memory without an answer: the address, u64."""
    READ = 5
    """Copy to the host: a `sim_range` -> its bytes."""
    WRITE = 6
    """Copy from the host: the address, u64, and the bytes -> nothing."""
    COPY = 7
    """Copy within the memory: a `sim_copy` -> nothing."""
    FILL = 8
    """Fill memory: a `sim_fill` -> nothing."""
    FIND = 9
    """Find a live allocation: an address, u64 -> its `sim_range`, of size 0 if there is none."""
    MEMORY = 10
    """Return the use of memory: whether to reset the peak, u64 -> a `sim_memory`."""
    MODULE = 11
    """Load a module: a fat binary -> the module's number, u64."""
    PARAMETERS = 12
    """Return the sizes of a kernel's parameters: module's number, kernel's name -> u32 each."""
    LAUNCH = 13
    """Launch: module's number, `sim_launch`, kernel's name, NUL, arguments -> nothing."""
    SYMBOL = 14
    """Find a variable: module's number, variable's name -> its address, u64, or 0."""
    DESCRIBE = 15
    """Return a kernel's attributes: module's number, kernel's name -> a `sim_kernel`."""
    ALLOW_SHARED = 16
    """Set a limit: module's number, dynamic shared bytes, u64, kernel's name -> nothing."""
    OCCUPANCY = 17
    """Return resident blocks: module's number, `sim_launch`, kernel's name -> blocks, u64."""
    UNSUPPORTED = 18
    """Report that host code uses a feature that does not exist here: its description -> nothing."""
    LIBRARY = 19
    """Report a call of a library that would do the work: the function's name -> nothing."""
    OPERATOR = 20
    """Run an operator of torch: its name and arguments (operators.h) -> its results."""
    SEED = 21
    """Seed torch's random numbers on the device: u64 -> nothing."""
    STREAM = 22
    """Make a stream: whether it and the default stream wait for each other, u64 -> number, u64."""
    END_STREAM = 23
    """Destroy a stream, which gets no more work: its number, u64 -> nothing."""
    RECORD = 24
    """Make a ticket for all work of the call's stream so far: nothing -> the ticket, u64."""
    WAIT = 25
    """Let the call's stream wait for a ticket: u64 -> nothing."""
    SYNCHRONIZE = 26
    """Let the host wait for a ticket, or with 0 for all work: u64 -> nothing."""
    REWRITTEN = 27
    """Report that host code changed the source of a copy too early: the size of the source in
    bytes, u64, and the offset of the first changed byte, u64 -> nothing."""


class Value(IntEnum):
    """The kinds of values that a torch operator on the device can receive or return.

    A value is sent as one byte with its kind, followed by the payload that the text below each
    member describes.
    """

    NONE = 0
    """No value, without a payload."""
    TRUTH = 1
    """A boolean: one byte."""
    INTEGER = 2
    """An integer: i64."""
    REAL = 3
    """A floating-point number: a double."""
    COMPLEX = 4
    """A complex number: two doubles."""
    TEXT = 5
    """A string: its length, u64, and its bytes."""
    LIST = 6
    """A list: its length, u64, and its values."""
    TENSOR = 7
    """A tensor on the device: a `sim_tensor`, and its sizes and strides, i64 each."""
    HOST_TENSOR = 8
    """A tensor on the host: the payload of TENSOR, and the bytes of its elements, in order."""
    ARGUMENT = 9
    """A result that is an argument: the index among the tensors of the arguments, u64, and a byte.

    If the byte is 1, the argument has new memory, and the payload of TENSOR follows."""
    DEVICE = 10
    """The device, of which there is only one, without a payload."""


@structure("sim_request")
class RequestEntry(Structure):
    """The header of a call from a worker to the device process.

    Attributes:
        call: The call, as a value of `RuntimeCall`.
        stream: Number of the CUDA stream that the call belongs to. 0 is the default stream, and
            `HOST` means no stream.
        size: Bytes of the payload, which follows the header.
    """

    call: U32
    stream: U32
    size: U64


@structure("sim_answer")
class AnswerEntry(Structure):
    """The header of an answer from the device process to a worker.

    Attributes:
        error: 0 for success; else a cudaError_t, or a value of `Raised` if a torch operator raised
            an exception. If it is not 0, the payload is an error message.
        unused: Padding.
        size: Bytes of the payload, which follows the header.
    """

    error: Int
    unused: U32
    size: U64


@structure("sim_welcome")
class WelcomeEntry(Structure):
    """The payload of the answer to `RuntimeCall.HELLO`, which begins a connection.

    Attributes:
        device: Properties of the device.
        base: First address of the device's range of addresses.
        size: Length of that range in bytes.
    """

    device: Annotated[DeviceEntry, Field(DeviceEntry, "sim_device {}")]
    base: U64
    size: U64


@structure("sim_wanted")
class AllocateEntry(Structure):
    """The payload of `RuntimeCall.ALLOCATE`: a request for device memory.

    Attributes:
        size: Size in bytes.
        owned: 1 if the submission's host code requested the memory and must free it, else 0.
    """

    size: U64
    owned: U64


@structure("sim_range")
class RangeEntry(Structure):
    """A range of device memory.

    Attributes:
        start: Device address of the first byte.
        size: Size in bytes.
    """

    start: U64
    size: U64


@structure("sim_copy")
class CopyEntry(Structure):
    """The payload of `RuntimeCall.COPY`: a copy from device memory to device memory.

    Attributes:
        target: Device address to copy to.
        source: Device address to copy from.
        size: Number of bytes to copy.
    """

    target: U64
    source: U64
    size: U64


@structure("sim_fill")
class FillEntry(Structure):
    """The payload of `RuntimeCall.FILL`: sets all bytes of a range of device memory to one value.

    Attributes:
        start: Device address of the first byte.
        size: Number of bytes to set.
        value: The value of each byte.
    """

    start: U64
    size: U64
    value: U64


@structure("sim_memory")
class MemoryEntry(Structure):
    """The payload of the answer to `RuntimeCall.MEMORY`: the device memory in use, in bytes.

    Attributes:
        limit: The most bytes that may be allocated at the same time.
        live: Bytes that are allocated and not freed.
        peak: The most bytes that were allocated at the same time.
    """

    limit: U64
    live: U64
    peak: U64


@structure("sim_tensor")
class TensorEntry(Structure):
    """The header of a strided tensor; the sizes and strides follow it as i64.

    Attributes:
        address: Device address of the first element; 0 for a tensor in host memory or a tensor
            without elements.
        dtype: A number of c10::ScalarType.
        dimensions: Number of dimensions.
        flags: Sum of `CONJUGATED` if the tensor has torch's conjugate bit, and `NEGATED` if it has
            the negative bit.
    """

    address: U64
    dtype: Int
    dimensions: U32
    flags: U64


class Raised(IntEnum):
    """The exceptions that a torch operator may raise, named like the Python classes.

    The numbers are values of `AnswerEntry.error`.
    """

    RuntimeError = -1
    IndexError = -2
    ValueError = -3
    TypeError = -4
    NotImplementedError = -5
    OutOfMemoryError = -6


CONJUGATED, NEGATED = 1, 2
"""The flags of a `TensorEntry`."""
DEFAULT_STREAM = 0
"""The number of CUDA's legacy default stream, which always exists."""
HOST = 0xFFFFFFFF
"""The value in place of a stream's number for the host's own work, which skips all streams."""
MOST_BYTES = 64 << 20
"""The largest payload of a call. Longer copies take several calls."""
CHUNK_BYTES = 16 << 20
"""The payload of each call of a longer copy."""

# All structures of this module, in an order in which each one stands after its parts.
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
