"""Checks of the form of a worker's answers, before the trusted side uses them.

A worker is the process that runs a submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from harness.messages.channel import Message, ProtocolError
from harness.worker.answers import check, findings_of
from harness.worker.build_service import extension_of

NONCE = "ab" * 16
FINDING = {
    "check": "memcheck", "severity": "error", "message": "m", "kernel": "k", "file": None,
    "line": None, "block": [0, 0, 0], "thread": [1, 0, 0], "address": 0, "count": 1,
    "allocation": None, "offset": -4, "access": "load", "reach": [-4, 0],
}  # fmt: skip
REMARK = {"check": "state", "severity": "info", "message": "m", "kernel": "", "count": 1}
FAULT = {"kind": "exception", "message": "", "detail": ""}
PLACE: dict[str, Any] = {"address": 1 << 45, "shape": [2, 3], "strides": [3, 1], "dtype": 6}
OUTPUT: dict[str, Any] = {
    "type": "torch.Tensor", "device": "cuda", "shares": None, "place": PLACE,
}  # fmt: skip
TENSOR = torch.zeros(2)
BUILD = {
    "name": "mine", "sources": [["main.cpp", "int x;"]], "cpp_flags": ["-O3"], "cuda_flags": [],
    "link_flags": [], "include_paths": [], "with_cuda": True,
}  # fmt: skip


def answer(*tensors: torch.Tensor, **header: object) -> Message:
    return Message({"nonce": NONCE, **header}, tensors)


def returned(
    *outputs: object,
    findings: Sequence[object] = (FINDING, REMARK),
    tensors: Sequence[torch.Tensor] = (),
) -> Message:
    """Return a worker's answer to a forward call with the given outputs."""
    told = {"type": "builtins.tuple", "outputs": list(outputs), "findings": list(findings)}
    return answer(*tensors, **told)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("import", answer()),
        ("construct", answer(names=["weight"], places=[PLACE], findings=[REMARK])),
        ("forward", returned(OUTPUT)),
        ("forward", returned({**OUTPUT, "device": "cpu", "place": None})),
        ("forward", returned(OUTPUT, OUTPUT)),
        ("forward", returned()),
        ("leaks", answer(constants=["batch_size"])),
        ("forward", answer(fault=FAULT, findings=[])),
    ],
)
def test_what_a_worker_says_is_accepted(step: str, message: Message) -> None:
    """Every form of answer that an honest worker sends is accepted."""
    check(step, NONCE, message)


@pytest.mark.parametrize(
    ("step", "message", "words"),
    [
        ("import", Message({"nonce": "cd" * 16}), "answers no request"),
        ("import", Message({}), "answers no request"),
        ("import", answer(TENSOR), "1 tensors"),
        ("construct", answer(places=[]), "without 'names'"),
        ("construct", answer(names=["weight"], places=[], findings=[]), "0 tensors under 1 names"),
        ("construct", answer(names=["a", "a"], places=[PLACE] * 2, findings=[]),
         "2 tensors under 2 names"),
        ("construct", answer(names=["weight"], places=[{}], findings=[]), "'places'"),
        ("forward", returned({**OUTPUT, "device": 7}), "'outputs' does not fit"),
        ("forward", returned({"type": "torch.Tensor"}), "'outputs' does not fit"),
        ("forward", answer(findings=[], type="torch.Tensor"), "without 'outputs'"),
        ("forward", returned(OUTPUT, tensors=(TENSOR,)), "1 tensors"),
        ("forward", returned(OUTPUT, {**OUTPUT, "place": {**PLACE, "shape": [-1]}}), "'outputs'"),
        ("forward", returned({**OUTPUT, "place": {**PLACE, "address": 0.5}}), "'outputs'"),
        ("forward", returned(findings=[{**FINDING, "block": [0]}]), "'findings'"),
        ("forward", returned(findings=[{**FINDING, "reach": [0]}]), "'findings'"),
        ("forward", returned(findings=[{"check": "memcheck"}]), "'findings'"),
        ("import", answer(fault="no", findings=[]), "'fault'"),
        ("import", answer(fault={"kind": "passed", "message": "", "detail": ""}, findings=[]),
         "'fault'"),
        ("import", answer(fault=FAULT, findings=[{**FINDING, "line": "7"}]), "'findings'"),
        ("forward", returned(findings=[REMARK] * 100_001), "'findings'"),
        ("forward", returned({**OUTPUT, "type": "x" * 20_000}), "'outputs'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(step: str, message: Message, words: str) -> None:
    """A worker's answer with a malformed part is refused, with a message that names the part."""
    with pytest.raises(ProtocolError, match=words):
        check(step, NONCE, message)


def test_findings_are_bounded_where_they_arrive() -> None:
    """The number and the length of the findings in a worker's answer are limited.

    The gravest findings are kept, and one more finding has the number of those left out.
    """
    few = answer(findings=[REMARK, FINDING])
    assert [finding.severity for finding in findings_of(few)] == ["info", "error"]
    many = [{**REMARK, "message": str(number)} for number in range(80_000)]
    kept = findings_of(answer(findings=[*many, FINDING]))
    assert kept[0].check == "memcheck"
    assert len(kept) == 101
    assert (kept[-1].count, kept[-1].severity) == (80_001 - 100, "info")
    assert "one call has 80001 findings, more than are kept: 100 are" in kept[-1].message
    long = [{**REMARK, "message": "m" * 16_000 + str(number)} for number in range(100)]
    assert len(findings_of(answer(findings=long))) == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "../escape"}, "the name"),
        ({"name": "a b"}, "the name"),
        ({"name": None}, "the name"),
        ({"sources": []}, "without a list of sources"),
        ({"sources": [["../main.cpp", ""]]}, "a source that is not a file"),
        ({"sources": [["-o", ""]]}, "a source that is not a file"),
        ({"sources": [["main.cpp", None]]}, "a source that is not a file"),
        ({"sources": [["main.cpp", "\ud800"]]}, "a source that is not a file"),
        ({"cpp_flags": "-O3"}, "without a list of cpp_flags"),
        ({"cpp_flags": [3]}, "cpp_flags are not texts"),
        ({"cuda_flags": ["-DX\nrule evil"]}, "a line break in its cuda_flags"),
        ({"link_flags": ["x" * 5000]}, "link_flags are not texts"),
        ({"include_paths": ["a"] * 1000}, "without a list of include_paths"),
        ({"with_cuda": "yes"}, "whether it uses CUDA"),
    ],
)
def test_request_to_build_is_looked_at(changes: dict[str, Any], words: str) -> None:
    """A worker's request for a build is refused if its form is wrong.

    A submission may have sent the request itself.
    """
    assert extension_of(BUILD).name == "mine"
    with pytest.raises(ProtocolError, match=words):
        extension_of({**BUILD, **changes})
