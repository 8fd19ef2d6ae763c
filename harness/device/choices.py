"""Measure of the information that a worker's launches and operators carry from the host, in bits.

An address in an allocation, or a value that an earlier launch had, only selects something that the
device already holds. A selection among n values counts as log2(n) bits. Any other value counts with
its full width in bits, since it may be a result that the host computed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.device.executor import DeviceMemory

_WORD_BYTES, _LONG_BYTES = 4, 8
# The last differences between two launches that count as known, and the bits of choosing one.
# With loops within loops, an argument changes by several differences in turn.
_MOST_STEPS = 8
_BITS_OF_STEP = 4
# Bits of an address: the start of an allocation, or a place within one.
_BITS_OF_START = 16
_BITS_OF_PLACE = 32
# The most values that are remembered.
_MOST_KNOWN = 1 << 16


@dataclass(frozen=True)
class Bits:
    """An amount of information in bits, split by kind.

    Attributes:
        values: Bits of values that the device did not hold before.
        choices: Bits needed to select among values that the device already holds.
    """

    values: int = 0
    choices: int = 0

    @staticmethod
    def total(parts: Iterable[Bits]) -> Bits:
        """Return the sum of several amounts, separately for values and choices."""
        of_each = [*parts]
        return Bits(sum(each.values for each in of_each), sum(each.choices for each in of_each))


class Launches:
    """A meter of how many bits of information each kernel launch of one worker carries."""

    def __init__(self, memory: DeviceMemory) -> None:
        """Start before the first launch; `memory` says which addresses are allocated."""
        self._memory = memory
        self._last: dict[Hashable, Sequence[bytes]] = {}
        self._steps: dict[Hashable, list[int]] = {}
        self._known: set[bytes] = set()

    def told(
        self, kernel: Hashable, extents: bytes, arguments: bytes, sizes: Sequence[int]
    ) -> Bits:
        """Return the bits of information in a launch, and remember the launch.

        The launch is compared with the last launch of the same kernel, or with zeros if the kernel
        was not launched before. Only parts that differ, and the choice of the kernel, carry
        information.

        Args:
            kernel: Identity of the kernel.
            extents: Bytes of the launch's values other than arguments, such as grid and block.
            arguments: Bytes of all arguments.
            sizes: Size in bytes of each argument.
        """
        parts = [*_words(extents), *_parts(arguments, sizes)]
        before = self._last.get(kernel) or [bytes(len(part)) for part in parts]
        self._last[kernel] = parts
        changed = (
            self._part((kernel, number), now, was)
            for number, (was, now) in enumerate(zip(before, parts, strict=True))
            if now != was
        )
        return Bits.total((Bits(choices=(len(self._last) - 1).bit_length()), *changed))

    def _part(self, place: Hashable, now: bytes, was: bytes) -> Bits:
        """Return the information in a changed part of a launch, and remember the new value.

        Args:
            place: Identity of the part: the kernel and the part's index.
            now: The part's bytes in this launch.
            was: The part's bytes in the kernel's last launch.
        """
        step = int.from_bytes(now, "little") - int.from_bytes(was, "little")
        steps = self._steps.setdefault(place, [])
        bits = Bits(choices=_BITS_OF_STEP) if step in steps else self._without_step(place, now, was)
        self._steps[place] = [step, *(each for each in steps if each != step)][:_MOST_STEPS]
        if len(self._known) < _MOST_KNOWN:
            self._known.add(now)
        return bits

    def _without_step(self, place: Hashable, now: bytes, was: bytes) -> Bits:
        if now in self._known:
            return Bits(choices=len(self._known).bit_length())
        if len(now) < _LONG_BYTES:
            return Bits(values=8 * len(now))
        if bits := self._bits_of_address(int.from_bytes(now, "little")):
            return Bits(choices=bits)
        words = zip(_words(now), _words(was), strict=True)
        return Bits.total(
            self._part((place, number), word, before)
            for number, (word, before) in enumerate(words)
            if word != before
        )

    def _bits_of_address(self, address: int) -> int:
        """Return the bits needed to choose an address; 0 if it is not in a live allocation."""
        found = self._memory.find(address)
        if not found or not found.is_live:
            return 0
        return _BITS_OF_START if address == found.start else _BITS_OF_PLACE


class Descriptors:
    """A meter of how many bits of information the descriptors of operators' tensors carry.

    A descriptor has an address, a shape and strides. A stride can be any number of 47 bits, and a
    later kernel can read its elements one by one. So it could carry a result of the host.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        """Start before the first call; `memory` says which addresses are allocated."""
        self._addresses = Launches(memory)
        self._last: dict[Hashable, Sequence[int | str]] = {}
        self._known: set[int | str] = {0, 1}

    def told(
        self, operator: Hashable, addresses: Sequence[int], words: Sequence[int | str]
    ) -> Bits:
        """Return the bits of information in a call, and remember the call.

        The call is compared with the last call of the same operator. Only words that differ carry
        information. A word that any earlier call had is a choice among such words.

        Args:
            operator: Identity of the operator.
            addresses: Addresses of the call's tensors.
            words: Sizes and strides of these tensors, and the texts among the call's arguments.
        """
        place = (operator, len(addresses))
        data = b"".join(each.to_bytes(_LONG_BYTES, "little") for each in addresses)
        bits = [self._addresses.told(place, b"", data, [_LONG_BYTES] * len(addresses))]
        before = self._last.get(operator, ())
        self._last[operator] = words
        # Only words at the same place of an equally long call are the same word.
        was = before if len(before) == len(words) else [None] * len(words)
        bits += [self._of_word(now) for now, old in zip(words, was, strict=True) if now != old]
        return Bits.total(bits)

    def _of_word(self, word: int | str) -> Bits:
        if word in self._known:
            return Bits(choices=len(self._known).bit_length())
        if len(self._known) < _MOST_KNOWN:
            self._known.add(word)
        return Bits(values=8 * len(word) if isinstance(word, str) else word.bit_length())


def _words(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _WORD_BYTES] for at in range(0, len(data), _WORD_BYTES))


def _parts(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Split a kernel's argument bytes into parts of at most eight bytes, and yield the parts.

    Each part lies within one argument; `sizes` are the arguments' sizes in bytes.
    """
    start = 0
    for size in sizes:
        end = start + size
        for at in range(start, end, _LONG_BYTES):
            yield data[at : min(at + _LONG_BYTES, end)]
        start = end
