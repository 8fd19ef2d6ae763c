"""The output of `printf` and `assert` in device code.

CUDA packs the variable arguments of a `printf` into a buffer in local memory. Each argument is
aligned to its size: 4 bytes for `int`, 8 bytes for longer integers, pointers and `double`.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys

import numpy as np

from harness.simulator.hardware.team import Array, Lanes, Team

_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\d+|\*)?(?P<precision>\.(?:\d+|\*)?)?"
    rb"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXcsSpeEfFgGaA%])"
)
_LONG = (b"l", b"ll", b"j", b"z", b"t")
_ROOM = 4096
"""Most characters of one conversion."""


def print_to_stdout(text: bytes) -> None:
    """Write text to the process's standard output, after what Python has buffered for it."""
    sys.stdout.flush()
    _write(1, text)


def print_to_stderr(text: bytes) -> None:
    """Write text to the process's standard error, after what Python has buffered for it."""
    sys.stderr.flush()
    _write(2, text)


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


class _Arguments:
    """Reader that returns the variable arguments of one thread's `printf` one after the other."""

    def __init__(self, team: Team, lane: int, address: int) -> None:
        self._team, self._lane, self._address = team, lane, address
        self._offset = 0
        self.taken = 0

    def next(self, code: str) -> int | float:
        """Return the next argument; `code` is its type as a format code of Python's `struct`."""
        size = struct.calcsize(code)
        self._offset = -(-self._offset // size) * size
        data = self._team.read(self._lane, self._address + self._offset, size)
        self._offset += size
        self.taken += 1
        value: int | float = struct.unpack("<" + code, data.ljust(size, b"\0"))[0]
        return value


def formatted(team: Team, lane: int, template: int, arguments: int) -> tuple[bytes, int]:
    """Return the text that `printf` prints for one thread, and the number of arguments used.

    Args:
        team: The threads of the chunk.
        lane: The thread's number in the chunk.
        template: Generic address of the format string.
        arguments: Generic address of the buffer with the variable arguments.
    """
    reader = _Arguments(team, lane, arguments)

    def convert(match: re.Match[bytes]) -> bytes:
        return _convert(match, reader, team, lane)

    text = _CONVERSION.sub(convert, team.read_string(lane, template))
    return text, reader.taken


def _convert(match: re.Match[bytes], reader: _Arguments, team: Team, lane: int) -> bytes:
    kind = match["kind"]
    if kind == b"%":
        return b"%"
    width, precision = match["width"] or b"", match["precision"] or b""
    if width == b"*":
        width = b"%d" % int(reader.next("i"))
    if precision == b".*":
        precision = b".%d" % int(reader.next("i"))
    # A negative width given by `*` means the flag `-` and a positive width.
    head = b"%" + match["flags"] + width + precision
    if kind in b"eEfFgGaA":
        return _by_c(head + kind, ctypes.c_double(reader.next("d")))
    if kind in b"sS":
        address = int(reader.next("Q"))
        text = team.read_string(lane, address) if address else b"(null)"
        return _by_c(head + b"s", ctypes.c_char_p(text))
    if kind == b"p":
        return _by_c(head + kind, ctypes.c_void_p(int(reader.next("Q"))))
    if kind == b"c":
        return _by_c(head + kind, ctypes.c_int(int(reader.next("i"))))
    is_long = match["length"] in _LONG
    value = int(reader.next("q" if is_long else "i"))
    short = match["length"] if match["length"] in (b"h", b"hh") else b""
    length = b"ll" if is_long else short or b""
    return _by_c(head + length + kind, (ctypes.c_longlong if is_long else ctypes.c_int)(value))


def _by_c(conversion: bytes, value: object) -> bytes:
    """Format one value with the C library's `snprintf`, whose formats CUDA's `printf` shares."""
    room = ctypes.create_string_buffer(_ROOM)
    ctypes.CDLL(None).snprintf(room, ctypes.c_size_t(_ROOM), conversion, value)
    return room.value if conversion[-1:] != b"c" else room.raw[: max(len(room.value), 1)]


def vprintf(
    team: Team, active: Lanes | None, template: Array, arguments: Array, out: Array
) -> None:
    """Print the text of a `printf` for each active thread, in the order of the lanes.

    Args:
        team: The threads of the chunk.
        active: The threads that print; None for all.
        template: Generic address of each thread's format string.
        arguments: Generic address of each thread's buffer of arguments.
        out: Receives the number of arguments that each thread printed.
    """
    for lane in _numbers(team, active):
        text, taken = formatted(team, lane, _of(template, lane), _of(arguments, lane))
        team.print_out(text)
        out[lane] = taken


def assertfail(
    team: Team,
    active: Lanes | None,
    message: Array,
    file: Array,
    line: Array,
    function: Array,
    _character_size: Array,
) -> None:
    """Print CUDA's message of a failed `assert` for each active thread."""
    for lane in _numbers(team, active):
        block, thread = team.place(lane)
        names = [team.read_string(lane, _of(a, lane)) for a in (file, function, message)]
        places = [str(list(place)).replace(" ", "").encode() for place in (block, thread)]
        team.print_error(
            b"%s:%d: %s: block: %s, thread: %s Assertion `%s` failed.\n"
            % (names[0], _of(line, lane), names[1], places[0], places[1], names[2])
        )


def _numbers(team: Team, active: Lanes | None) -> list[int]:
    if active is None:
        return list(range(team.lanes))
    numbers: list[int] = np.flatnonzero(active).tolist()
    return numbers


def _of(values: Array, lane: int) -> int:
    return int(values[lane if len(values) > 1 else 0])
