"""What the simulator finds in defective kernels, beside what compute-sanitizer finds on a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.simulator.errors import BarrierDeadlock
from harness.simulator.machine import Machine
from harness.simulator.memory import Memory
from harness.simulator.sanitizer import Finding
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("defective.cu")
RECORDED = Path(__file__).with_name("compute_sanitizer.json")
NAMES = re.findall(r"^KERNEL\((\w+)\) \{", SOURCE.read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def defective(compile_ptx: Callable[..., str]) -> str:
    """PTX of defective.cu."""
    return compile_ptx(SOURCE)


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    """What benchmarks/sanitizer_corpus.py wrote on a GPU."""
    kernels: dict[str, Any] = json.loads(RECORDED.read_text())["kernels"]
    return kernels


def errors(memory: Memory, ptx: str, name: str) -> list[Finding]:
    """The findings that fail a kernel."""
    device = Device(Machine(memory))
    source = device.put(np.arange(128, dtype=np.float32))
    target = memory.allocate(512)
    blocks = 2 if name == "store_past_end" else 1
    arguments = [pointer(source), pointer(target), int32(128)]
    try:
        findings = device.launch(
            device.machine.load(ptx), name, arguments, (blocks, 1, 1), (128, 1, 1), 1024
        ).findings
    except BarrierDeadlock as stuck:
        findings = stuck.findings
    return [finding for finding in findings if finding.severity == "error"]


# The threads that skip the barrier end, and of ended threads a barrier asks nothing: the simulator
# says so as information, compute-sanitizer as an error.
DIFFERENT = pytest.mark.xfail(reason="threads that skip a barrier and end are no error here")


def marked(names: list[str]) -> list[Any]:
    """The names, with the one known difference."""
    return [
        pytest.param(name, marks=DIFFERENT if name == "barrier_in_a_branch" else ())
        for name in names
    ]


@pytest.mark.parametrize("name", marked(NAMES))
def test_same_kernels_are_flagged_for_the_same_reason(
    memory: Memory, defective: str, recorded: dict[str, Any], name: str
) -> None:
    """The checks that find something are compute-sanitizer's tools that do, and no others."""
    flagged = {tool for tool, result in recorded[name].items() if result["flagged"]}
    assert {finding.check for finding in errors(memory, defective, name)} == flagged


@pytest.mark.parametrize("name", marked([n for n in NAMES if not n.startswith("clean")]))
def test_finding_is_at_the_line_that_is_wrong(memory: Memory, defective: str, name: str) -> None:
    """A finding's line is the one whose comment names the check."""
    lines = SOURCE.read_text().splitlines()
    places = {finding.line for finding in errors(memory, defective, name)}
    start = lines.index(f"KERNEL({name}) {{")
    wrong = next(i + 1 for i in range(start, len(lines)) if re.search(r"// \w+check$", lines[i]))
    assert wrong in places
