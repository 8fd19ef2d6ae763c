"""Wavefronts of a warp's shared memory accesses: the simulator's counts and a GPU's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.memory import Memory
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("wavefronts.cu")
PATTERNS = re.findall(r"case \d+:.*// (.+)", SOURCE.read_text())

RECORDED: dict[str, dict[str, list[int]]] = json.loads(
    Path(__file__).with_name("wavefronts.json").read_text()
)["wavefronts"]
"""Wavefronts on GPUs for 4, 8 and 16 bytes per thread, from benchmarks/shared_wavefronts.py."""


@pytest.fixture(scope="session")
def patterns_ptx(compile_ptx: Callable[..., str]) -> str:
    return compile_ptx(SOURCE)


@pytest.fixture
def device(memory: Memory) -> Device:
    return Device(Machine(memory, counters=True, racecheck=False))


def wavefronts(device: Device, module: LoadedModule, kind: str, nbytes: int, pattern: str) -> int:
    """Return how many wavefronts the simulator counts for one access of a warp.

    Args:
        device: A simulated device with counters.
        module: The kernels of wavefronts.cu.
        kind: `load` or `store`.
        nbytes: Bytes per thread.
        pattern: Name of the pattern of addresses, as in wavefronts.cu.
    """
    into, out_of = (device.put(np.zeros(4096, np.uint32)) for _ in range(2))
    arguments = [int32(PATTERNS.index(pattern)), pointer(into), pointer(out_of)]
    counters = device.launch(module, f"{kind}_{nbytes}", arguments).counters
    assert counters is not None
    found = [a for a in counters.accesses if (a.kind, a.space) == (kind, "shared")]
    # A loading kernel fills shared memory with stores, and a storing kernel reads it back with
    # loads, so only the measured access is of this kind.
    (access,) = found
    assert access.bytes_per_thread == nbytes
    assert access.requests == 1
    return access.wavefronts


@pytest.mark.parametrize(
    ("kind", "pattern"), [(kind, pattern) for kind in RECORDED for pattern in RECORDED[kind]]
)
def test_wavefronts_are_those_of_a_gpu(
    device: Device, patterns_ptx: str, kind: str, pattern: str
) -> None:
    """Each pattern of shared memory addresses takes as many wavefronts as on a GPU.

    A wavefront serves 128 bytes: 32 threads of 4 bytes, 16 of 8, or 8 of 16. For loads of 8 or 16
    bytes, a wavefront serves twice as many threads if threads n and n ^ 1 load the same element.
    The same holds for threads n and n ^ 2.
    """
    module = device.machine.load(patterns_ptx)
    counted = [wavefronts(device, module, kind, nbytes, pattern) for nbytes in (4, 8, 16)]
    assert counted == RECORDED[kind][pattern]
