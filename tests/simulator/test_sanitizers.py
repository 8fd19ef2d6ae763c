"""Findings in the kernels of defective.cu, compared with compute-sanitizer's on a GPU."""

from __future__ import annotations

import ctypes
import fnmatch
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.finding import Finding
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.errors import BarrierDeadlock
from harness.simulator.hardware.memory import Memory
from tests.simulator.conftest import Compile
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("defective.cu")
LINES = SOURCE.read_text().splitlines()
RECORDED: dict[str, Any] = json.loads(
    Path(__file__).with_name("compute_sanitizer.json").read_text()
)["kernels"]
"""The results of benchmarks/sanitizer_corpus.py on a GPU."""
NAMES = re.findall(r"^KERNEL\((\w+)\) \{", SOURCE.read_text(), re.MULTILINE)


@dataclass(frozen=True)
class Corpus:
    """The kernels of defective.cu, loaded on a simulated device."""

    device: Device
    module: LoadedModule

    def errors(self, name: str) -> list[Finding]:
        """Run the kernel `name`, and return its findings of severity `error`."""
        device = self.device
        source = device.put(np.arange(128, dtype=np.float32))
        target = device.machine.memory.allocate(512)
        grid = (2 if name == "store_past_end" else 1, 1, 1)
        arguments = [pointer(source), pointer(target), int32(128)]
        try:
            launched = device.machine.launch(self.module, name, grid, (128, 1, 1), 1024, arguments)
            findings = launched.findings
        except BarrierDeadlock as stuck:
            findings = stuck.findings
        return [finding for finding in findings if finding.severity == "error"]


@pytest.fixture(scope="module")
def corpus(library: ctypes.CDLL, compile_ptx: Compile) -> Corpus:
    """Return the kernels of defective.cu on a simulated device with all checks on."""
    device = Device(Machine(Memory(library)))
    ptx = compile_ptx(SOURCE, architecture="90a")
    return Corpus(device, device.machine.load(ptx))


def body_of(name: str) -> tuple[int, int]:
    """Return the index in `LINES` of a kernel's first line, and of the line after its body."""
    start = next(i for i, line in enumerate(LINES) if line.startswith(f"KERNEL({name}) {{"))
    if "}" in LINES[start]:
        return start, start + 1
    return start, LINES.index("}", start)


def mistakes(name: str) -> list[tuple[str, int]]:
    """Return (check, line) for each mistake in a kernel, as comments in defective.cu mark them."""
    start, end = body_of(name)
    found = []
    for index, line in enumerate(LINES):
        comment = re.search(r"// (?:([\w*, ]+): )?(\w+check)$", line)
        if not comment:
            continue
        names, check = comment.groups()
        if names is None and not start <= index < end:
            continue
        if names is None or any(fnmatch.fnmatch(name, n) for n in names.split(", ")):
            found.append((check, index + 1))
    return found


def end_of_statement(line: int) -> int:
    """Return the last line of the asm statement that begins at `line`.

    The result is `line` itself if no asm statement begins there. The last line matters because nvcc
    13.5 reports the first line of such a statement, and nvcc 13.0 the last.
    """
    if LINES[line - 1].lstrip().startswith("asm volatile("):
        while ");" not in LINES[line - 1]:
            line += 1
    return line


def is_simulator_only(name: str) -> bool:
    """Return whether the kernel's mistake is of a kind that compute-sanitizer does not check."""
    return "simulator only" in LINES[body_of(name)[0]]


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_and_nothing_else_are_found(corpus: Corpus, name: str) -> None:
    """The checks that report errors in a kernel are exactly those that the kernel's comments name.

    Each line that a comment marks has an error. A kernel whose name begins with `clean` has no
    errors.
    """
    expected = [] if name.startswith("clean") else mistakes(name)
    found = corpus.errors(name)
    assert {finding.check for finding in found} == {check for check, _ in expected}
    at = {end_of_statement(finding.line or 1) for finding in found}
    assert {line for _, line in expected} <= at
    assert bool(expected) is not name.startswith("clean")


@pytest.mark.parametrize("name", [n for n in RECORDED if not is_simulator_only(n)])
def test_compute_sanitizer_flags_the_same_kernels(name: str) -> None:
    """On a GPU, compute-sanitizer flagged each defective kernel as its comments say.

    The comments name the tools that find a mistake, such as `memcheck`.
    """
    flagged = {tool for tool, result in RECORDED[name].items() if result["flagged"]}
    expected = [] if name.startswith("clean") else mistakes(name)
    # One missing barrier may cause two mistakes; which one shows depends on the order of threads.
    also = re.findall(r"// on a GPU also (\w+)$", LINES[body_of(name)[0]])
    assert flagged == {check for check, _ in expected} | set(also)


def test_finding_tells_how_far_its_accesses_reach(corpus: Corpus) -> None:
    """A finding has the lowest and the highest offset that any thread accessed at its line."""
    device = corpus.device
    source = device.put(np.arange(128, dtype=np.float32))
    target = device.machine.memory.allocate(512)
    arguments = [pointer(source), pointer(target), int32(140)]
    module = corpus.module
    launched = device.machine.launch(
        module, "store_past_end", (2, 1, 1), (128, 1, 1), 1024, arguments
    )
    (finding,) = launched.findings
    assert (finding.access, finding.count, finding.allocation) == ("store", 13, 512)
    assert (finding.offset, finding.reach) == (512, (512, 560))
