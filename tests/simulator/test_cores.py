"""Launches on several processor cores, whose results always equal those of one core."""

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
    """A simulated machine with loaded kernels.

    Attributes:
        device: The machine, with helpers for arrays and launches.
        module: The kernels of cores.cu.
        x: Address of an array of random floats.
        printed: Everything that the kernels print.
    """

    device: Device
    module: LoadedModule
    x: int
    printed: list[bytes]

    def launch(self, kernel: str, y: int) -> LaunchResult:
        """Launch a kernel of cores.cu on many blocks, with arguments `x` and `y`."""
        arguments = [pointer(self.x), pointer(y)]
        name = f"{len(kernel)}{kernel}"
        return self.device.launch(
            self.module, name, arguments, grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1)
        )

    def seen(self, result: LaunchResult, y: int, like: Array) -> tuple[object, ...]:
        """Return everything that a launch whose second argument was `y` left to be observed.

        The result has the findings, the counts, the printed output, and the unwritten bytes and
        values of the array at `y`. `like` has the shape and dtype of that array.
        """
        findings = [replace(f, address=(f.address or 0) - y) for f in result.findings]
        unwritten = self.device.machine.memory.unwritten(y, like.nbytes).tobytes()
        data = self.device.get(y, like).tobytes()
        counts = result.thread_instructions, result.counters
        return findings, counts, unwritten, data, self.printed


@pytest.fixture
def settings(memory: Memory, ptx: str) -> Iterator[tuple[Setting, Setting]]:
    """Yield two equal settings: the first runs kernels on one core, the second on two."""
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
    """A kernel of independent blocks runs on two cores, with the same results as on one core."""
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
    """A kernel whose results depend on the order of blocks runs on one core, in every launch.

    Examples are kernels with races, atomics, flags, findings, output or clocks.
    """
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
    """Blocks that communicate by volatile loads give the same results on two cores as on one.

    The results depend on the order of the blocks, which is fixed on one core.
    """
    outcomes = []
    for setting in settings:
        y = setting.device.put(START)
        outcomes.append(setting.seen(setting.launch("mirrored_volatile", y), y, START))
    assert outcomes[0] == outcomes[1]


def test_stores_that_nobody_foresaw(settings: Settings) -> None:
    """A kernel that stores through a pointer assembled from two integers runs on one core.

    The arguments of such a kernel do not show which memory it writes.
    """
    outcomes = []
    for setting in settings:
        y = setting.device.put(START)
        halves = setting.device.put(np.array([y], np.uint64))
        result = setting.launch("smuggled", halves)
        assert result.processes == 1
        outcomes.append(setting.seen(result, y, START))
    assert outcomes[0] == outcomes[1]


def test_trap(settings: Settings) -> None:
    """A kernel that traps leaves the same error and the same memory on two cores as on one."""
    left = []
    for setting in settings:
        y = setting.device.put(START)
        with pytest.raises(KernelTrap) as trapped:
            setting.launch("trapped", y)
        left.append((trapped.value.block, setting.device.get(y, START).tobytes()))
    assert left[0] == left[1]


def test_what_comes_after_the_first_launch(settings: Settings, ptx: str) -> None:
    """Helper processes see allocations and modules that were made after the helpers started."""
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
    """After a helper process was killed, this launch and all later ones run on one core."""
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
    """Closing a machine ends its helper processes; a launch after that starts new ones."""
    two = settings[1]
    before = _children()
    for kernel in ("scaled", "uneven"):
        assert two.launch(kernel, two.device.put(START)).processes == 2
        assert len(_children() - before) == 1
        two.device.machine.close()
        assert _children() == before


def _children() -> set[int]:
    """Return the process ids of this process's children."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            children.add(int(stat.parent.name))
    return children
