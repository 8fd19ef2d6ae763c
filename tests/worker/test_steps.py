"""Checks of the form of a worker's messages, before the trusted side uses them.

A worker is the process that runs a submission.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.finding import Finding
from harness.messages.channel import ProtocolError, decoded
from harness.messages.protocol import Asked
from harness.worker.steps import (
    PROTOCOL,
    Build,
    Construct,
    Forget,
    Forward,
    Import,
    Remark,
    SetWeights,
    fewer,
)

REMARK = {"severity": "info", "message": "m", "count": 1}
FAILED = {"type": "Failed", "kind": "exception", "message": "", "detail": ""}
PLACE: dict[str, Any] = {"address": 1 << 45, "shape": [2, 3], "strides": [3, 1], "dtype": 6}
OUTPUT: dict[str, Any] = {
    "kind": "torch.Tensor", "device": "cuda", "shares": None, "place": PLACE,
}  # fmt: skip
BUILD = {
    "type": "Build", "name": "mine", "sources": [["main.cpp", "int x;\n"]], "cpp_flags": ["-O3"],
    "cuda_flags": [], "link_flags": [], "include_paths": [], "with_cuda": True,
}  # fmt: skip


def returned(*outputs: object, **changes: object) -> dict[str, object]:
    """Return a worker's answer to a forward call with the given outputs."""
    told = {"type": "Returned", "kind": "builtins.tuple", "outputs": outputs, "findings": [REMARK]}
    return {**told, **changes}


def constructed(names: object, places: object) -> dict[str, object]:
    """Return a worker's answer to a construction with these parameters."""
    return {"type": "Constructed", "names": names, "places": places, "findings": [REMARK]}


def read(step: type[Asked[Any]], message: object) -> object:
    """Return what the trusted side reads from a worker's message while a step is under way."""
    return decoded(PROTOCOL.answers[step], json.dumps(message).encode())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Import, {"type": "Done"}),
        (SetWeights, {"type": "Done"}),
        (Construct, constructed(["weight"], [PLACE])),
        (Forward, returned(OUTPUT)),
        (Forward, returned({**OUTPUT, "device": "cpu", "place": None})),
        (Forward, returned(OUTPUT, OUTPUT)),
        (Forward, returned()),
        (Forget, {"type": "Forgotten", "constants": ["batch_size"]}),
        (Forward, FAILED),
        (Import, BUILD),
    ],
)
def test_what_a_worker_says_is_accepted(step: type[Asked[Any]], message: object) -> None:
    """Every form of message that an honest worker sends is accepted."""
    read(step, message)


@pytest.mark.parametrize(
    ("step", "message", "words"),
    [
        (Import, {}, "required field `type`"),
        (Import, {"type": "Forgotten", "constants": []}, "Invalid value 'Forgotten'"),
        (Forward, constructed([], []), "Invalid value 'Constructed'"),
        (Import, {"type": "Done", "more": 1}, "unknown field `more`"),
        (Construct, {"type": "Constructed", "places": []}, "`names`"),
        (Construct, constructed(["weight"], []), "0 tensors under 1 names"),
        (Construct, constructed(["a", "a"], [PLACE] * 2), "2 tensors under 2 names"),
        (Construct, constructed(["weight"], [{}]), "`address` - at `\\$.places"),
        (Construct, constructed(["a"] * 5000, []), "\\$.names"),
        (Construct, constructed(["x" * 201], [PLACE]), "\\$.names"),
        (Forward, returned({**OUTPUT, "device": 7}), "device"),
        (Forward, returned({"type": "torch.Tensor"}), "\\$.outputs"),
        (Forward, {"type": "Returned", "kind": "torch.Tensor", "findings": []}, "`outputs`"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "shape": [-1]}}), "place.shape"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "shape": [1] * 65}}), "place.shape"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "shape": [1]}}), "no tensor can have"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "dtype": 77}}), "no tensor can have"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "shape": [1 << 40] * 2}}), "no tensor"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "address": 0.5}}), "place.address"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "address": 1 << 63}}), "place.address"),
        (Forward, returned({**OUTPUT, "place": {**PLACE, "address": True}}), "place.address"),
        (Forward, returned({**OUTPUT, "kind": "x" * 20_000}), "outputs"),
        (Forward, returned(findings=[{**REMARK, "severity": "fatal"}]), "findings"),
        (Forward, returned(findings=[{**REMARK, "message": "m" * 4001}]), "findings"),
        # Only the device tells what kernels did.
        (Forward, returned(findings=[{**REMARK, "check": "memcheck"}]), "findings"),
        (Forward, returned(findings=[REMARK] * 100_001), "findings"),
        (Import, {**FAILED, "kind": "passed"}, "kind"),
        # Only the device tells that a budget was exceeded, or that a library was called.
        (Import, {**FAILED, "kind": "budget"}, "kind"),
        (Import, {**FAILED, "message": "m" * 4001}, "message"),
        (Import, {**FAILED, "detail": "m" * 64_001}, "detail"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(
    step: type[Asked[Any]], message: object, words: str
) -> None:
    """A worker's message with a malformed part is refused, with a text that names the part."""
    with pytest.raises(ProtocolError, match=words):
        read(step, message)


def test_findings_are_bounded_where_they_arrive() -> None:
    """The number and the length of the findings of an answer are limited.

    The gravest findings are kept, and one more finding has the number of those left out.
    """
    grave = Finding("memcheck", "m", "k")
    remark = Remark("m", "info").finding
    assert fewer([remark, grave]) == [remark, grave]
    kept = fewer([*(Remark(str(number), "info").finding for number in range(80_000)), grave])
    assert kept[0] == grave
    assert len(kept) == 101
    assert (kept[-1].count, kept[-1].severity) == (80_001 - 100, "info")
    assert "one call has 80001 findings, more than are kept: 100 are" in kept[-1].message
    long = [Finding("state", "m" * 16_000 + str(number)) for number in range(100)]
    assert len(fewer(long)) == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "../escape"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": None}, "name"),
        ({"sources": []}, "sources"),
        ({"sources": [["../main.cpp", ""]]}, "sources"),
        ({"sources": [["-o", ""]]}, "sources"),
        ({"sources": [["main.cpp", None]]}, "sources"),
        ({"sources": [["main.cpp", "\ud800"]]}, "."),
        ({"sources": [["main.cpp", "int x;\0"]]}, "sources"),
        ({"sources": [["main.cpp", ""]] * 257}, "sources"),
        ({"cpp_flags": "-O3"}, "cpp_flags"),
        ({"cpp_flags": [3]}, "cpp_flags"),
        ({"cuda_flags": ["-DX\nrule evil"]}, "cuda_flags"),
        ({"cuda_flags": ["-DX\n"]}, "cuda_flags"),
        ({"link_flags": ["x" * 5000]}, "link_flags"),
        ({"include_paths": ["a"] * 1000}, "include_paths"),
        ({"with_cuda": "yes"}, "with_cuda"),
    ],
)
def test_request_to_build_is_looked_at(changes: dict[str, Any], words: str) -> None:
    """A worker's request for a build is refused if its form is wrong.

    A submission may have sent the request itself.
    """
    wanted = read(Import, BUILD)
    assert isinstance(wanted, Build)
    assert wanted.extension.sources == (("main.cpp", "int x;\n"),)
    with pytest.raises(ProtocolError, match=words):
        read(Import, {**BUILD, **changes})
