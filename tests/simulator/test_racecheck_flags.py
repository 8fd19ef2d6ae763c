"""Race detection where a kernel orders its blocks by flags and fences of its own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.finding import Finding
from harness.simulator.execution.machine import LoadedModule, Machine
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("race_flags.cu")
LANES = pytest.mark.parametrize("chunk_lanes", [64, 16384])


@pytest.fixture(scope="session")
def ptx(compile_ptx: Callable[..., str]) -> str:
    """Return the PTX of race_flags.cu."""
    return compile_ptx(SOURCE)


@pytest.fixture
def on(device: Device, ptx: str, chunk_lanes: int) -> tuple[Device, LoadedModule]:
    """Return a device that simulates `chunk_lanes` threads together, with race_flags.cu loaded."""
    machine = Machine(device.machine.memory, chunk_lanes=chunk_lanes)
    return Device(machine), machine.load(ptx)


def zeros(device: Device) -> bytes:
    """Return a kernel argument that points to 512 zeros of 4 bytes."""
    return pointer(device.put(np.zeros(512, np.int32)))


def handed_over(on: tuple[Device, LoadedModule], kernel: str) -> tuple[Finding, ...]:
    """Run a kernel of HAND_OVER with three blocks, and return its findings."""
    device, module = on
    arguments = [zeros(device) for _ in range(3)]
    return tuple(device.launch(module, kernel, arguments, (3, 1, 1), (64, 1, 1)).findings)


@LANES
@pytest.mark.parametrize(
    "kernel",
    [
        "volatile_flag",
        "every_thread_fences",
        "every_thread_spins",
        "atomic_flag",
        "release_store",
        "release_reduction",
        "atomic_ref",
        "passed_on_in_the_block",
        "passed_on_by_a_block",
        "passed_on_by_an_mbarrier",
        "cached_in_l2",
    ],
)
def test_data_that_a_fence_precedes_its_flag(on: tuple[Device, LoadedModule], kernel: str) -> None:
    """A kernel with a fence between its data and the flag has no race, however it spins."""
    assert handed_over(on, kernel) == ()


def lines_of(kernel: str) -> range:
    """Return the lines of the macro call that defines a kernel."""
    before, after = SOURCE.read_text().split(f"HAND_OVER({kernel},")
    start = before.count("\n") + 1
    return range(start, start + after.split("HAND_OVER(")[0].count("\n") + 1)


@LANES
@pytest.mark.parametrize(
    "kernel",
    [
        "flag_before_data",
        "only_the_reader_fences",
        "fence_before_data",
        "fence_of_the_block",
        "other_flag",
        "no_flag_is_read",
    ],
)
def test_a_flag_that_promises_too_much(on: tuple[Device, LoadedModule], kernel: str) -> None:
    """A flag orders only what a fence of sufficient scope has published before its store."""
    (found,) = handed_over(on, kernel)
    assert found.severity == "error"
    assert found.line in lines_of(kernel)
    assert found.message.endswith("nothing orders blocks within a kernel")


@LANES
def test_a_flag_of_block_scope(on: tuple[Device, LoadedModule]) -> None:
    """An atomic of block scope races with another block's atomic on the same word."""
    (found,) = handed_over(on, "flag_of_the_block")
    assert found.message.endswith("an access of block scope is not atomic between blocks")


@LANES
@pytest.mark.parametrize("early", [0, 1])
def test_each_round_has_a_flag(on: tuple[Device, LoadedModule], early: int) -> None:
    """A flag that precedes the data of its round races, though a later flag comes after it."""
    device, module = on
    arguments = [zeros(device), zeros(device), zeros(device), int32(early)]
    found = device.launch(module, "rounds", arguments, (2, 1, 1), (64, 1, 1)).findings
    assert [each.severity for each in found] == ["error"] * early


@LANES
@pytest.mark.parametrize(
    ("kernel", "arguments", "cooperative"),
    [("last_block_sums", 3, False), ("look_back", 5, False), ("grid_barrier", 2, True)],
)
def test_published_idioms(
    on: tuple[Device, LoadedModule], kernel: str, arguments: int, *, cooperative: bool
) -> None:
    """Idioms of NVIDIA's samples and libraries have no race, even if a counter is reset."""
    device, module = on
    pointers = [zeros(device) for _ in range(arguments)]
    grid, block = (4, 1, 1), (64, 1, 1)
    result = device.launch(module, kernel, pointers, grid, block, cooperative=cooperative)
    assert result.findings == ()


@LANES
@pytest.mark.parametrize("shared", [0, 1])
def test_counter_of_block_scope(on: tuple[Device, LoadedModule], shared: int) -> None:
    """`atomicAdd_block` on one counter by several blocks is a race; on one for each, it is not."""
    device, module = on
    arguments = [zeros(device), int32(shared)]
    found = device.launch(module, "count_in_block", arguments, (4, 1, 1), (64, 1, 1)).findings
    assert [each.severity for each in found] == ["error"] * shared
    reason = "an access of block scope is not atomic between blocks"
    assert all(each.message.endswith(reason) for each in found)
