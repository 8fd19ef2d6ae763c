"""The format of a worker's answer to each step; any other answer is refused.

Describe a new key here before another module reads it, because no other code checks a worker's
answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, islice
from typing import Any, get_args

from harness.device.place import MOST_DIMENSIONS, Place
from harness.finding import SEVERITIES, DeviceCheck, Finding, Severity
from harness.messages.channel import MAX_TENSORS, Message, ProtocolError
from harness.messages.kinds import ClaimedKind
from harness.system.texts import MOST_OF_A_DETAIL, MOST_OF_A_MESSAGE, MOST_OF_A_NAME

Test = Callable[[object], bool]
"""A function that returns whether a value of an answer has the required format."""

_MOST_ITEMS = 100_000
# No tensor on the device has nearly as many elements.
_MOST_ELEMENTS = 1 << 48
# Limits of the findings that are kept from one answer: their number, and their characters. A report
# has the findings of hundreds of answers.
_MOST_FINDINGS = 100
_MOST_OF_ALL_FINDINGS = 64 << 10


def text_of(most: int) -> Test:
    """Return a test that accepts only a str of at most `most` characters."""
    return lambda value: isinstance(value, str) and len(value) <= most


is_name = text_of(MOST_OF_A_NAME)
is_line = text_of(MOST_OF_A_MESSAGE)
is_detail = text_of(MOST_OF_A_DETAIL)


def is_whole(value: object) -> bool:
    """Return whether the value is an integer; a bool is not one."""
    return type(value) is int


def is_count(value: object) -> bool:
    """Return whether the value is an integer of at least 0; a bool is not one."""
    return type(value) is int and value >= 0


def optional(test: Test) -> Test:
    """Return a test that accepts None and each value that `test` accepts."""
    return lambda value: value is None or test(value)


def one_of(*choices: str) -> Test:
    """Return a test that accepts only the texts in `choices`."""
    return lambda value: isinstance(value, str) and value in choices


def list_of(test: Test, length: int | None = None, most: int = _MOST_ITEMS) -> Test:
    """Return a test that accepts a list if `test` accepts each value in the list.

    The list must have `length` values, or at most `most` if `length` is None.
    """
    return lambda value: (
        isinstance(value, list)
        and (len(value) <= most if length is None else len(value) == length)
        and all(map(test, value))
    )


def object_with(**tests: Test) -> Test:
    """Return a test that accepts a dict with certain keys, whose values each pass a test.

    Each keyword argument is a required key and the test of its value. The dict may have further
    keys.
    """
    return lambda value: (
        isinstance(value, dict)
        and all(key in value and test(value[key]) for key, test in tests.items())
    )


_TRIPLE = list_of(is_whole, 3)
_OF_A_KERNEL = object_with(
    check=one_of(*get_args(DeviceCheck)),
    severity=one_of(*get_args(Severity)),
    message=is_line,
    kernel=is_line,
    file=optional(is_line),
    line=optional(is_whole),
    block=_TRIPLE,
    thread=_TRIPLE,
    address=is_whole,
    count=is_whole,
    allocation=optional(is_count),
    offset=optional(is_whole),
    access=is_line,
    reach=optional(list_of(is_whole, 2)),
)
_OF_THE_PROCESS = object_with(
    check=one_of("state"),
    severity=one_of(*get_args(Severity)),
    message=is_line,
    kernel=one_of(""),
    count=is_whole,
)
_FINDINGS = list_of(lambda value: _OF_A_KERNEL(value) or _OF_THE_PROCESS(value))
_FAULT = {
    "fault": object_with(kind=one_of(*get_args(ClaimedKind)), message=is_line, detail=is_detail),
    "findings": _FINDINGS,
}
_FIELDS_OF_A_PLACE = object_with(
    address=is_count,
    shape=list_of(is_count, most=MOST_DIMENSIONS),
    strides=list_of(is_count, most=MOST_DIMENSIONS),
    dtype=is_count,
)


def _is_place(value: Any) -> bool:
    """Return whether the value describes a tensor of at most `_MOST_ELEMENTS` elements.

    Without this limit, arithmetic with its sizes could take minutes, or raise an error.
    """
    if not _FIELDS_OF_A_PLACE(value):
        return False
    shape, strides = tuple(value["shape"]), tuple(value["strides"])
    is_possible = Place(value["address"], shape, strides, value["dtype"]).is_possible
    return is_possible and math.prod(shape) <= _MOST_ELEMENTS


_OUTPUT = object_with(
    type=is_name, device=is_name, shares=optional(is_name), place=optional(_is_place)
)
_STEPS: Mapping[str, Mapping[str, Test]] = {
    "start": {},
    "import": {},
    "construct": {
        "names": list_of(is_name, most=MAX_TENSORS),
        "places": list_of(_is_place, most=MAX_TENSORS),
        "findings": _FINDINGS,
    },
    "weights": {},
    "forward": {
        "type": is_name,
        "outputs": list_of(_OUTPUT, most=MAX_TENSORS),
        "findings": _FINDINGS,
    },
    "leaks": {"constants": list_of(is_name)},
}


def check(step: str, nonce: str, answer: Message) -> None:
    """Check that a worker's message is a valid answer to a request.

    Args:
        step: The step that was requested, such as `construct`.
        nonce: The request's nonce.
        answer: The worker's message.

    Raises:
        ProtocolError: The message is not a valid answer; the text says why.
    """
    check_nonce(nonce, answer)
    header = answer.header
    if "fault" in header:
        _require(header, _FAULT)
        return
    _require(header, _STEPS[step])
    if step == "construct":
        _require_names(header["names"], len(header["places"]))
    if answer.tensors:
        raise ProtocolError(f"{len(answer.tensors)} tensors")


def check_nonce(nonce: str, answer: Message) -> None:
    """Check that a worker's message has the request's nonce; raises as `check` does."""
    if answer.header.get("nonce") != nonce:
        raise ProtocolError("a message that answers no request")


def _require_names(names: Sequence[str], count: int) -> None:
    if count != len(names) or len(set(names)) != count:
        raise ProtocolError(f"{count} tensors under {len(names)} names")


def findings_of(answer: Message) -> list[Finding]:
    """Return the findings in a worker's answer that has passed `check`.

    If their number or size exceeds the limits, only the most severe ones are returned. A further
    finding, of severity `info`, then gives the number of findings left out.
    """
    found = [_finding(plain) for plain in answer.header.get("findings", ())]
    if _how_many_fit(found) == len(found):
        return found
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity), reverse=True)
    # A single finding is never too long to be kept.
    kept = found[: max(_how_many_fit(found), 1)]
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


def _finding(plain: Mapping[str, Any]) -> Finding:
    if not plain["kernel"]:
        # A finding about the process has only these keys checked, so no others are read.
        known = ("check", "message", "count", "severity")
        return Finding(**{name: plain[name] for name in known})
    told = {field.name: plain[field.name] for field in fields(Finding)}
    reach = told["reach"] and tuple(told["reach"])
    places = {name: tuple(told[name]) for name in ("block", "thread")}
    return Finding(**{**told, **places, "reach": reach})


def _require(header: Mapping[str, Any], tests: Mapping[str, Test]) -> None:
    for key, test in tests.items():
        if key not in header:
            raise ProtocolError(f"an answer without {key!r}")
        if not test(header[key]):
            raise ProtocolError(f"an answer whose {key!r} does not fit: {str(header[key])[:80]}")
