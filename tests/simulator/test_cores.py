"""Launches on several cores: whatever kernels do, the result is that of one core."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LaunchResult, LoadedModule, Machine
from harness.simulator.hardware.errors import KernelTrap
from harness.simulator.hardware.memory import Memory
from tests.simulator.conftest import Compile
from tests.simulator.support import Array, Device, pointer

BLOCKS, THREADS = 256, 256
LENGTH = BLOCKS * THREADS
START = np.linspace(0, 1, LENGTH, dtype=np.float32)


@pytest.fixture(scope="module")
def ptx(compile_ptx: Compile) -> str:
    return compile_ptx(Path(__file__).with_name("cores.cu"))


@dataclass(frozen=True)
class Setting:
    """A machine with a module; `x` is an array of random numbers, `printed` what kernels print."""

    device: Device
    module: LoadedModule
    x: int
    printed: list[bytes]

    def launch(self, kernel: str, y: int) -> LaunchResult:
        """Launches a kernel of many blocks."""
        arguments = [pointer(self.x), pointer(y)]
        name = f"{len(kernel)}{kernel}"
        return self.device.launch(
            self.module, name, arguments, grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1)
        )

    def seen(self, result: LaunchResult, y: int, like: Array) -> tuple[object, ...]:
        """All that can be told of a launch that had `y` for its second argument."""
        findings = [replace(f, address=(f.address or 0) - y) for f in result.findings]
        unwritten = self.device.machine.memory.unwritten(y, like.nbytes).tobytes()
        data = self.device.get(y, like).tobytes()
        counts = result.thread_instructions, result.counters
        return findings, counts, unwritten, data, self.printed


@pytest.fixture
def settings(memory: Memory, ptx: str) -> Iterator[tuple[Setting, Setting]]:
    """The same on one core and on two."""
    made = []
    for cores in (1, 2):
        printed: list[bytes] = []
        device = Device(Machine(memory, cores=cores, counters=True, print_out=printed.append))
        x = device.put(np.random.default_rng(5).standard_normal(LENGTH, np.float32))
        made.append(Setting(device, device.machine.load(ptx), x, printed))
    yield made[0], made[1]
    made[1].device.machine.close()


Settings = tuple[Setting, Setting]


@pytest.mark.parametrize("kernel", ["scaled", "in_place", "block_sums", "uneven", "bulk"])
def test_blocks_of_their_own_run_on_all_cores(kernel: str, settings: Settings) -> None:
    """Memory, findings and exact counts are those of one core, and the blocks were dealt out."""
    outcomes = []
    for setting, processes in zip(settings, (1, 2), strict=True):
        y = setting.device.put(START)
        result = setting.launch(kernel, y)
        assert result.processes == processes
        assert result.findings == ()
        outcomes.append(setting.seen(result, y, START))
    assert outcomes[0] == outcomes[1]


ORDERED = (
    "shifted",
    "mirrored",
    "bulk_mirrored",
    "one_winner",
    "added",
    "counted",
    "relayed",
    "past_the_end",
    "unwritten",
)


@pytest.mark.parametrize("kernel", [*ORDERED, "printed", "timed"])
def test_kernels_that_mind_the_order_run_on_one_core(kernel: str, settings: Settings) -> None:
    """Races, atomics, flags, findings, output and clocks: all as on one core, each time."""
    start = np.zeros(LENGTH, np.float32)
    outcomes = []
    for setting in settings:
        told = []
        for _ in range(2):
            y = setting.device.put(start)
            if kernel == "unwritten":
                y = setting.device.machine.memory.allocate(start.nbytes)
            result = setting.launch(kernel, y)
            assert result.processes == 1
            told.append(setting.seen(result, y, start))
        outcomes.append(told)
    assert outcomes[0] == outcomes[1]


def test_blocks_that_talk_without_a_race(settings: Settings) -> None:
    """Volatile accesses give what they give on one core, where the order of blocks is fixed."""
    outcomes = []
    for setting in settings:
        y = setting.device.put(START)
        outcomes.append(setting.seen(setting.launch("mirrored_volatile", y), y, START))
    assert outcomes[0] == outcomes[1]


def test_stores_that_nobody_foresaw(settings: Settings) -> None:
    """A pointer put together from two numbers leads where races are not looked for."""
    outcomes = []
    for setting in settings:
        y = setting.device.put(START)
        halves = setting.device.put(np.array([y], np.uint64))
        result = setting.launch("smuggled", halves)
        assert result.processes == 1
        outcomes.append(setting.seen(result, y, START))
    assert outcomes[0] == outcomes[1]


def test_trap(settings: Settings) -> None:
    """The error is one core's, and so is what was stored before it."""
    left = []
    for setting in settings:
        y = setting.device.put(START)
        with pytest.raises(KernelTrap) as trapped:
            setting.launch("trapped", y)
        left.append((trapped.value.block, setting.device.get(y, START).tobytes()))
    assert left[0] == left[1]


def test_what_comes_after_the_first_launch(settings: Settings, ptx: str) -> None:
    """Processes that run blocks follow allocations and modules that are made later."""
    one, two = settings
    assert two.launch("scaled", two.device.put(START)).processes == 2
    later = [replace(s, module=s.device.machine.load(ptx)) for s in (one, two)]
    outcomes = []
    for setting, kernel in ((s, k) for k in ("in_place", "uneven") for s in later):
        y = setting.device.put(START)
        result = setting.launch(kernel, y)
        assert result.processes == (1 if setting is later[0] else 2)
        outcomes.append(setting.seen(result, y, START))
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


def test_a_process_that_was_killed(settings: Settings) -> None:
    """The launch runs on one core then, as do those after it."""
    one, two = settings
    before = _children()
    assert two.launch("scaled", two.device.put(START)).processes == 2
    (helper,) = _children() - before
    os.kill(helper, signal.SIGKILL)
    outcomes = []
    for setting in (one, two):
        y = setting.device.put(START)
        result = setting.launch("uneven", y)
        assert result.processes == 1
        outcomes.append(setting.seen(result, y, START))
    assert outcomes[0] == outcomes[1]
    assert _children() == before


def test_processes_end_with_the_machine(settings: Settings) -> None:
    """None is left when a machine is closed, and a closed one starts others when it needs them."""
    two = settings[1]
    before = _children()
    for kernel in ("scaled", "uneven"):
        assert two.launch(kernel, two.device.put(START)).processes == 2
        assert len(_children() - before) == 1
        two.device.machine.close()
        assert _children() == before


def _children() -> set[int]:
    """Processes of which this one is the parent."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            children.add(int(stat.parent.name))
    return children
