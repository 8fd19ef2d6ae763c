"""Findings about barriers that only some threads of a block reach."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.errors import BarrierDeadlock
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("barriers.cu")


@pytest.fixture(scope="session")
def barriers(compile_ptx: Callable[..., str]) -> str:
    return compile_ptx(SOURCE)


@pytest.fixture
def module(device: Device, barriers: str) -> LoadedModule:
    return device.machine.load(barriers)


def line_of(text: str) -> int:
    """Return the number of the only line of barriers.cu that contains the text."""
    lines = SOURCE.read_text().split("\n")
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return number


def test_threads_at_two_barriers(device: Device, module: LoadedModule) -> None:
    """Threads that wait for ever at two barriers are one error, with the lines of both."""
    with pytest.raises(BarrierDeadlock) as caught:
        device.launch(module, "two_barriers", [int32(40)], (3, 1, 1), (64, 1, 1))
    (finding,) = caught.value.findings
    assert (finding.check, finding.severity) == ("synccheck", "error")
    assert finding.message == (
        "the block waits forever: "
        f"40 threads wait at barriers.cu:{line_of('// first')} "
        "(barrier 1 from thread (0, 0, 0) on), "
        f"24 threads wait at barriers.cu:{line_of('// second')} "
        "(barrier 2 from thread (40, 0, 0) on)"
    )
    assert finding.line == line_of("// first")
    assert (finding.block, finding.thread) == ((0, 0, 0), (0, 0, 0))


def test_barrier_that_waits_for_too_many(device: Device, module: LoadedModule) -> None:
    """A barrier that waits for ended threads is a finding.

    The finding has the number of threads that the barrier waits for, and how many have ended.
    """
    with pytest.raises(BarrierDeadlock) as caught:
        device.launch(module, "counted", [int32(32)], (1, 1, 1), (64, 1, 1))
    (finding,) = caught.value.findings
    assert "(barrier 3, which waits for 64, from thread (0, 0, 0) on)" in finding.message
    assert finding.message.endswith("32 have ended")


@pytest.mark.parametrize(
    ("number", "count", "words"),
    [
        (0, 64, ""),
        (1, 32, ""),
        (0, 0, ""),
        (0, 33, "barrier 0 waits for 33 threads, not for whole warps"),
        (16, 64, "barrier 16 does not exist: a block has 16"),
    ],
)
def test_operands_of_a_barrier(device: Device, number: int, count: int, words: str) -> None:
    """A barrier has a number below 16, and waits for whole warps, also if registers say so."""
    ptx = """.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u32 number, .param .u32 count) {
  .reg .b32 %n, %c;
  ld.param.u32 %n, [number]; ld.param.u32 %c, [count];
  bar.sync %n, %c; ret;
}"""
    found = device.run(ptx, [int32(number), int32(count)], block=(64, 1, 1)).findings
    assert [(each.check, each.message) for each in found] == [("synccheck", words)] * bool(words)


@pytest.mark.parametrize(("limit", "who"), [(40, "threads of one warp wait"), (32, "threads wait")])
def test_divergent_barrier(device: Device, module: LoadedModule, limit: int, who: str) -> None:
    """Threads that meet at one barrier by two different instructions are an error.

    CUDA C++ leaves this undefined, within a warp as well as between warps.
    """
    y = device.put(np.zeros(64, np.int32))
    arguments = [pointer(y), int32(limit)]
    result = device.launch(module, "in_both_branches", arguments, block=(64, 1, 1))
    (finding,) = (f for f in result.findings if f.check == "synccheck")
    assert finding.severity == "error"
    assert finding.message.startswith(f"divergent barrier: {who} at ")
    for text in ("// then", "// else"):
        assert f"barriers.cu:{line_of(text)}" in finding.message
    assert device.get(y, np.zeros(64, np.int32)).tolist() == [3] * limit + [4] * (64 - limit)


def test_threads_that_have_ended_are_information(device: Device, module: LoadedModule) -> None:
    """Threads that end before a barrier are a finding of severity `info`; PTX allows them."""
    y = device.put(np.zeros(64, np.int32))
    arguments = [pointer(y), int32(40)]
    result = device.launch(module, "early_return", arguments, block=(64, 1, 1))
    (finding,) = result.findings
    assert (finding.severity, finding.line) == ("info", line_of("// meeting"))
    assert finding.message.startswith("40 of 64 threads reach barriers.cu:")
    assert finding.thread == (40, 0, 0)


@pytest.mark.parametrize("limit", [40, 32])
@pytest.mark.parametrize("kernel", ["skipped_once", "skipped_in_a_loop", "left_a_loop"])
@pytest.mark.parametrize("chunk_lanes", [64, 16384])
def test_threads_that_go_past_a_barrier(
    device: Device, barriers: str, kernel: str, limit: int, chunk_lanes: int
) -> None:
    """Threads that skip a barrier at which other threads of their warp wait are an error.

    If whole warps skip the barrier, a finding has at most the severity `info`.
    """
    machine = Machine(device.machine.memory, chunk_lanes=chunk_lanes)
    y = device.put(np.zeros(128, np.int32))
    arguments = [pointer(y), int32(limit)]
    result = Device(machine).launch(
        machine.load(barriers), kernel, arguments, (2, 1, 1), (64, 1, 1)
    )
    found = [f for f in result.findings if f.severity != "info"]
    if limit == 32:
        assert found == []
        return
    (finding,) = found
    assert (finding.check, finding.severity) == ("synccheck", "error")
    line = line_of(f"// {kernel}")
    assert finding.line == line
    assert finding.message == (
        f"divergent barrier: threads of one warp wait at barriers.cu:{line} while others have "
        "passed it and ended, such as thread (40, 0, 0)"
    )
    assert (finding.block, finding.thread) == ((0, 0, 0), (32, 0, 0))


@pytest.mark.parametrize("kernel", ["early_return", "return_after_an_atomic", "return_from_a_loop"])
def test_threads_that_return_before_a_barrier(
    device: Device, module: LoadedModule, kernel: str
) -> None:
    """Threads may return before a barrier, which then waits only for the remaining threads."""
    y = device.put(np.zeros(64, np.int32))
    result = device.launch(module, kernel, [pointer(y), int32(40)], block=(64, 1, 1))
    assert {f.severity for f in result.findings} == {"info"}


@pytest.mark.parametrize(("limit", "taker"), [(20, 4), (32, None), (52, 36), (64, None)])
def test_shuffle_that_takes_the_value_of_an_ended_lane(
    device: Device, module: LoadedModule, limit: int, taker: int | None
) -> None:
    """A shuffle that takes a value from a lane that has ended is a warning with its source line.

    It is not an error, because a right kernel may ignore the value. If all lanes of a warp have
    ended, there is no warning.
    """
    y = device.put(np.zeros(64, np.int32))
    arguments = [pointer(y), int32(limit)]
    result = device.launch(module, "shuffle_after_return", arguments, block=(64, 1, 1))
    found = [f for f in result.findings if f.severity != "info"]
    if taker is None:
        assert found == []
        return
    (finding,) = found
    assert (finding.check, finding.severity) == ("synccheck", "warning")
    assert finding.line == line_of("// ended")
    assert finding.message == (
        "shfl.sync.down.b32: takes an undefined value from lane 20, which has ended or is not in "
        "the mask"
    )
    assert finding.thread == (taker, 0, 0)


def test_barriers_for_all_are_clean(device: Device, module: LoadedModule) -> None:
    """A barrier that all threads of the block reach causes no finding."""
    y = device.put(np.zeros(64, np.int32))
    for kernel in ("in_both_branches", "early_return"):
        arguments = [pointer(y), int32(64)]
        result = device.launch(module, kernel, arguments, (1, 1, 1), (64, 1, 1))
        assert result.findings == ()
