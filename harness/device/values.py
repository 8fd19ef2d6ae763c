"""Arguments and results of an operator as bytes, in the format of `simulator/layout/calls.py`.

The arguments come from untrusted code. Every value is checked, and a message that does not parse is
refused.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from harness.device.place import MOST_DIMENSIONS, Place
from harness.simulator.layout.calls import CONJUGATED, NEGATED, TensorEntry, Value
from harness.simulator.layout.scalar_types import DTYPES

# Limits of the length of a list or text, and of the depth of lists; checked before they are read.
_MOST_ITEMS = 1 << 16
_MOST_LEVELS = 4
_REAL_BYTES = 8

T = TypeVar("T")


class Malformed(ValueError):
    """A worker's message that does not have the format of its call; the text says what is wrong."""


@dataclass(frozen=True)
class OnDevice:
    """An operator's argument that is a tensor on the device.

    Attributes:
        place: Address and layout of the tensor.
        is_conjugated: True if the argument is the conjugate of the stored values.
        is_negated: True if the argument is the negative of the stored values.
    """

    place: Place
    is_conjugated: bool = False
    is_negated: bool = False


@dataclass(frozen=True)
class Argument:
    """An operator's result that is one of its tensor arguments, as after an in-place operator.

    Attributes:
        number: Index of the argument among the operator's tensor arguments.
        place: New address and layout of the tensor; None if it has not moved.
    """

    number: int
    place: Place | None = None


class DeviceArgument:
    """An operator's argument that is the device itself, as in `device="cuda"`."""


class Reader:
    """A reader of the values in a message that calls an operator.

    Attributes:
        told: Bytes of information in the values read so far: the sum of `_bytes_of` for each number
            and `bytes_to_tell` for each tensor of the host.
        addresses: Addresses of the tensors on the device that were read so far.
        words: Sizes and strides of all tensors, and the texts, that were read so far.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.told = 0
        self.addresses: list[int] = []
        self.words: list[int | str] = []

    def value(self, levels: int = _MOST_LEVELS) -> Any:
        """Read and return the next value of the message.

        Args:
            levels: Largest number of levels of nested lists that the value may have.

        Raises:
            Malformed: The next bytes are not a value.
        """
        kind = self._unpack("B")
        match kind:
            case Value.NONE:
                return None
            case Value.TRUTH:
                return bool(self._unpack("B"))
            case Value.INTEGER:
                return self._number(self._unpack("q"))
            case Value.REAL:
                return self._number(self._unpack("d"))
            case Value.COMPLEX:
                return self._number(complex(self._unpack("d"), self._unpack("d")))
            case Value.TEXT:
                return self._text()
            case Value.LIST if levels:
                return [self.value(levels - 1) for _ in range(self._length())]
            case Value.TENSOR:
                return self._tensor()
            case Value.HOST_TENSOR:
                return self._host_tensor()
            case Value.DEVICE:
                return DeviceArgument()
        raise Malformed(f"a value of unknown kind {kind}")

    @property
    def is_at_end(self) -> bool:
        """True if the whole message has been read."""
        return self._at == len(self._data)

    def _number(self, number: T) -> T:
        self.told += _bytes_of(number)
        return number

    def _take(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) != count:
            raise Malformed("a call that ends too early")
        self._at += count
        return data

    def _unpack(self, kind: str) -> Any:
        (value,) = struct.unpack(f"<{kind}", self._take(struct.calcsize(f"<{kind}")))
        return value

    def _length(self) -> int:
        length: int = self._unpack("Q")
        if length > _MOST_ITEMS:
            raise Malformed(f"a list of {length} values")
        return length

    def _text(self) -> str:
        try:
            text = self._take(self._length()).decode()
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None
        self.words.append(text)
        return text

    def _described(self) -> tuple[Place, int]:
        entry = TensorEntry.from_buffer_copy(self._take(ctypes.sizeof(TensorEntry)))
        if entry.dimensions > MOST_DIMENSIONS:
            raise Malformed(f"a tensor of {entry.dimensions} dimensions")
        numbers = [self._unpack("q") for _ in range(2 * entry.dimensions)]
        shape, strides = numbers[: entry.dimensions], numbers[entry.dimensions :]
        place = Place(entry.address, tuple(shape), tuple(strides), entry.dtype)
        if not place.is_possible:
            raise Malformed("a tensor with an impossible shape or address")
        self.words += numbers
        return place, entry.flags

    def _tensor(self) -> OnDevice:
        place, flags = self._described()
        self.addresses.append(place.address)
        return OnDevice(place, bool(flags & CONJUGATED), bool(flags & NEGATED))

    def _host_tensor(self) -> Tensor:
        place, _ = self._described()
        dtype = DTYPES[place.dtype]
        count = 1
        for size in place.shape:
            count *= size
        data = bytearray(self._take(count * dtype.itemsize))
        self.told += bytes_to_tell(data)
        if not data:
            return torch.empty(place.shape, dtype=dtype)
        return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(place.shape)


def bytes_to_tell(data: bytes | bytearray) -> int:
    """Return how many bytes of information a buffer from the host counts as.

    A buffer that repeats one number of 8 bytes counts as 16: the number itself, and how often it is
    repeated. So a constant that the host makes does not count as values that the host computed.

    >>> bytes_to_tell(bytes(4096)), bytes_to_tell(bytes(4095) + b"1")
    (16, 4096)
    """
    is_one_number = data[_REAL_BYTES:] == data[:-_REAL_BYTES]
    return min(len(data), 2 * _REAL_BYTES) if is_one_number else len(data)


def bytes_told(values: Sequence[object]) -> int:
    """Return how many bytes of information an operator's results bring to the host.

    Only numbers among the results count, since tensors stay on the device.
    """
    return sum(
        bytes_told(each) if isinstance(each, list | tuple) else _bytes_of(each) for each in values
    )


def _bytes_of(value: object) -> int:
    """Return how many bytes of information a number counts as; 0 for any other value.

    >>> [_bytes_of(value) for value in (True, 0, 7, -300, 1.0, 0.3, 1j, None)]
    [1, 1, 1, 2, 1, 8, 16, 0]
    """
    match value:
        case bool():
            return 1
        case int():
            return max(1, -(-value.bit_length() // 8))
        case float():
            return 1 if value in (-1.0, 0.0, 1.0) else _REAL_BYTES
        case complex():
            return 2 * _REAL_BYTES
    return 0


def encode(values: Sequence[object]) -> bytes:
    """Return an operator's results as the bytes that answer the worker's call."""
    return b"".join(map(_written, values))


def _written(value: object) -> bytes:
    match value:
        case None:
            return _packed(Value.NONE)
        case bool():
            return _packed(Value.TRUTH, "B", value)
        case int():
            return _packed(Value.INTEGER, "q", value)
        case float():
            return _packed(Value.REAL, "d", value)
        case complex():
            return _packed(Value.COMPLEX, "dd", value.real, value.imag)
        case list() | tuple():
            return _packed(Value.LIST, "Q", len(value)) + encode(value)
        case Place():
            return _packed(Value.TENSOR) + _place(value)
        case Argument(number, place):
            moved = _place(place) if place else b""
            return _packed(Value.ARGUMENT, "QB", number, bool(place)) + moved
    raise TypeError(f"a result of type {type(value).__name__}")


def _packed(kind: Value, form: str = "", *numbers: float) -> bytes:
    return struct.pack(f"<B{form}", kind, *numbers)


def _place(place: Place) -> bytes:
    entry = TensorEntry(place.address, place.dtype, len(place.shape), 0)
    lengths = (*place.shape, *place.strides)
    return bytes(entry) + struct.pack(f"<{len(lengths)}q", *lengths)
