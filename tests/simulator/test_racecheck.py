"""Race detection in shared and global memory, on kernels with and without their barriers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.finding import Finding
from harness.simulator.execution.machine import LaunchResult, LoadedModule, Machine
from harness.simulator.sanitizer import race
from tests.simulator.support import Array, Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("race.cu")


@pytest.fixture(scope="session")
def race_ptx(compile_ptx: Callable[..., str]) -> Callable[..., str]:
    """Return a function that compiles race.cu, leaving out the barriers named by its arguments."""
    known: dict[tuple[str, ...], str] = {}

    def compile_without(*barriers: str) -> str:
        if barriers not in known:
            known[barriers] = compile_ptx(SOURCE, *(f"-D{name}=(void)0" for name in barriers))
        return known[barriers]

    return compile_without


@pytest.fixture
def module(device: Device, race_ptx: Callable[..., str]) -> LoadedModule:
    return device.machine.load(race_ptx())


def line_of(text: str) -> int:
    """Return the number of the only line of race.cu that contains the text."""
    lines = SOURCE.read_text().split("\n")
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return number


def races(result: LaunchResult) -> list[Finding]:
    """Return the findings of a launch, after checking that all of them are races."""
    assert all(f.check == "racecheck" for f in result.findings)
    return list(result.findings)


def tiled(device: Device, module: LoadedModule, n: int = 32) -> LaunchResult:
    """Multiply n x n matrices by the tiled kernel; check the product if there are no findings."""
    a, b = (np.random.default_rng(i).integers(-4, 4, (n, n)).astype(np.float32) for i in (0, 1))
    c = device.put(np.zeros((n, n), np.float32))
    arguments = [pointer(device.put(a)), pointer(device.put(b)), pointer(c), int32(n)]
    result = device.launch(module, "tiled", arguments, (n // 16, n // 16, 1), (16, 16, 1))
    if not result.findings:
        assert np.array_equal(device.get(c, a), a @ b)
    return result


def test_tiled_kernel_is_clean(device: Device, module: LoadedModule) -> None:
    """A tiled matrix product with both its barriers has no finding."""
    assert tiled(device, module).findings == ()


@pytest.mark.parametrize("barrier", ["BARRIER_1", "BARRIER_2"])
@pytest.mark.parametrize("chunk_lanes", [256, 16384])
@pytest.mark.parametrize("schedule", [0, 5])
def test_missing_barrier_of_a_tiled_kernel(
    device: Device, race_ptx: Callable[..., str], barrier: str, chunk_lanes: int, schedule: int
) -> None:
    """A tiled matrix product without one of its two barriers has races.

    The findings name the lines of the stores to a tile and of the loads from it.
    """
    machine = Machine(device.machine.memory, chunk_lanes=chunk_lanes, schedule=schedule)
    found = races(tiled(Device(machine), machine.load(race_ptx(barrier))))
    errors = [f for f in found if f.severity == "error"]
    stores = {
        line_of("// store a"): line_of("// load a"),
        line_of("// store b"): line_of("// load b"),
    }
    told = {
        (f.line, load)
        for f in errors
        for load in stores.values()
        if f"4-byte store at race.cu:{f.line} races with the load at race.cu:{load} by thread"
        in f.message
    }
    assert told >= set(stores.items()) - {(line_of("// store a"), line_of("// load a"))}
    assert all(f.line in stores and f.message.endswith("no barrier between them") for f in errors)
    assert all(f.severity in ("error", "warning") for f in found)


@pytest.mark.parametrize("schedule", range(6))
def test_what_a_warp_reads_again_after_a_barrier(
    device: Device, race_ptx: Callable[..., str], schedule: int
) -> None:
    """A read that is repeated after a barrier still races with another warp's store.

    The race detector does not record a read that two recorded reads make redundant. Here the
    recorded reads are from before the barrier, so the repeated read is recorded.
    """
    machine = Machine(device.machine.memory, schedule=schedule)
    y = device.put(np.zeros(64, np.float32))
    module = machine.load(race_ptx())
    found = races(Device(machine).launch(module, "read_again", [pointer(y)], block=(64, 1, 1)))
    lines = {line_of("// read again"), line_of("// beside it")}
    assert {f.severity for f in found} == {"error"}
    assert all(f.line in lines and any(f":{n} " in f.message for n in lines) for f in found)


def test_double_buffering(device: Device, race_ptx: Callable[..., str]) -> None:
    """A double-buffered kernel needs one barrier per step, and has races without it."""
    x = device.put(np.arange(256, dtype=np.float32))
    arguments = [pointer(x), pointer(device.put(np.zeros(64, np.float32))), int32(4)]
    for barriers, is_clean in (((), True), (("BARRIER_1",), False)):
        module = device.machine.load(race_ptx(*barriers))
        result = device.launch(module, "double_buffered", arguments, block=(64, 1, 1))
        assert (not races(result)) is is_clean


def test_warp_synchronous_code(device: Device, race_ptx: Callable[..., str]) -> None:
    """A race within a warp, where __syncwarp() is missing, is only a warning."""
    y = device.put(np.zeros(2, np.int32))
    clean = device.machine.load(race_ptx())
    assert device.launch(clean, "warp_sum_shared", [pointer(y)], block=(64, 1, 1)).findings == ()
    assert device.get(y, np.zeros(2, np.int32)).tolist() == [496, 1520]
    without = device.machine.load(race_ptx("WARP_BARRIER"))
    found = races(device.launch(without, "warp_sum_shared", [pointer(y)], block=(64, 1, 1)))
    assert {f.severity for f in found} == {"warning"}
    assert all("no __syncwarp() between them" in f.message for f in found)


@pytest.mark.parametrize("missing", [(), ("BARRIER_1",), ("BARRIER_2",)])
def test_atomics_race_with_plain_accesses_only(
    device: Device, race_ptx: Callable[..., str], missing: tuple[str, ...]
) -> None:
    """Atomics do not race with each other, but they race with plain accesses to the same word."""
    x: Array = np.arange(128, dtype=np.int32)
    counts = device.put(np.zeros(8, np.int32))
    module = device.machine.load(race_ptx(*missing))
    arguments = [pointer(device.put(x)), pointer(counts)]
    result = device.launch(module, "histogram", arguments, (3, 1, 1), (128, 1, 1))
    errors = [f for f in races(result) if f.severity == "error"]
    assert bool(errors) is bool(missing)
    for error in errors:
        assert f"atomic at race.cu:{line_of('// count')}" in error.message


@pytest.mark.parametrize(("different", "severity"), [(1, "error"), (0, "info")])
@pytest.mark.parametrize("chunk_lanes", [32, 16384])
def test_blocks_that_write_one_word(
    device: Device, race_ptx: Callable[..., str], different: int, severity: str, chunk_lanes: int
) -> None:
    """Two blocks that write different values to one word race.

    If the values are equal, the finding has only the severity `info`. The result does not depend on
    whether the simulator runs the blocks together.
    """
    machine = Machine(device.machine.memory, chunk_lanes=chunk_lanes)
    y = device.put(np.zeros(1, np.int32))
    arguments = [pointer(y), int32(different)]
    module = machine.load(race_ptx())
    (found,) = races(Device(machine).launch(module, "one_word", arguments, (2, 1, 1)))
    assert found.severity == severity
    assert "by block (" in found.message
    assert (found.kernel, found.address, found.count) == ("one_word", y, 1)


def test_kernels_are_ordered(device: Device, module: LoadedModule) -> None:
    """Accesses of one launch do not race with accesses of an earlier launch."""
    y = device.put(np.zeros(1, np.int32))
    for _ in range(2):
        assert device.launch(module, "one_word", [pointer(y), int32(1)]).findings == ()


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_global_memory_in_place(
    device: Device, race_ptx: Callable[..., str], schedule: int
) -> None:
    """A read of an element that another thread overwrites is a race, whichever block runs first.

    Threads that overwrite only their own elements do not race.
    """
    machine = Machine(device.machine.memory, schedule=schedule)
    module = machine.load(race_ptx())
    y = device.put(np.zeros(257, np.float32))
    result = Device(machine).launch(module, "neighbours", [pointer(y)], (2, 1, 1), (128, 1, 1))
    assert {f.severity for f in races(result)} == {"error"}
    result = Device(machine).launch(module, "own_element", [pointer(y)], (2, 1, 1), (128, 1, 1))
    assert result.findings == ()


def test_load_that_stands_for_all_threads(device: Device, module: LoadedModule) -> None:
    """A load of one address by all threads counts as a read by every thread.

    The simulator performs such a load only once.
    """
    y, out = (device.put(np.zeros(64, np.float32)) for _ in range(2))
    result = device.launch(module, "read_by_all", [pointer(y), pointer(out)], block=(64, 1, 1))
    assert [f.severity for f in races(result)] == ["error"]


def test_volatile_reads_go_with_atomics(device: Device, module: LoadedModule) -> None:
    """A plain read races with another block's atomic; a volatile read does not."""
    y, out = (device.put(np.zeros(4, np.int32)) for _ in range(2))
    result = device.launch(module, "plain_and_atomic", [pointer(y), pointer(out)], (2, 1, 1))
    (found,) = [f for f in races(result) if f.severity == "error"]
    assert found.line == line_of("atomicAdd(y, 1)")
    assert f"the load at race.cu:{line_of('out[2 + blockIdx.x]')}" in found.message


@pytest.mark.simulator_only
def test_fence_of_a_block_orders_no_other_block(device: Device, module: LoadedModule) -> None:
    """`__threadfence_block()` does not order accesses for another block, so they race."""
    x: Array = np.arange(8, dtype=np.float32)
    parts, y = (device.put(np.zeros(8, np.float32)) for _ in range(2))
    done = device.put(np.zeros(1, np.uint32))
    arguments = [*map(pointer, (device.put(x), parts, done, y)), int32(2)]
    result = device.launch(module, "last_block", arguments, (8, 1, 1))
    assert {f.severity for f in races(result)} == {"error"}


@pytest.mark.parametrize("fence", [1, 0])
def test_hand_made_synchronisation(device: Device, module: LoadedModule, fence: int) -> None:
    """A fence and an atomic counter order the accesses of blocks; without the fence they race."""
    x: Array = np.arange(8, dtype=np.float32)
    parts, y = (device.put(np.zeros(8, np.float32)) for _ in range(2))
    done = device.put(np.zeros(1, np.uint32))
    arguments = [*map(pointer, (device.put(x), parts, done, y)), int32(fence)]
    result = device.launch(module, "last_block", arguments, (8, 1, 1))
    assert bool(races(result)) is not bool(fence)
    assert device.get(y, x)[0] == x.sum()


@pytest.mark.parametrize(
    ("missing", "line"),
    [((), ""), (("BARRIER_1",), "room[t] = t + 64 * b"), (("FENCE",), "// hand over")],
)
@pytest.mark.parametrize("chunk_lanes", [64, 16384])
def test_blocks_that_wait_for_other_chunks(
    device: Device,
    race_ptx: Callable[..., str],
    missing: tuple[str, ...],
    line: str,
    chunk_lanes: int,
) -> None:
    """Races are found in a kernel whose blocks wait for flags of other blocks.

    This holds whether or not the simulator runs these blocks together.
    """
    machine = Machine(device.machine.memory, chunk_lanes=chunk_lanes)
    parts, y = (device.put(np.zeros(192, np.float32)) for _ in range(2))
    arguments = [*map(pointer, (parts, device.put(np.zeros(3, np.uint32)), y))]
    module = machine.load(race_ptx(*missing))
    result = Device(machine).launch(module, "next_block", arguments, (3, 1, 1), (64, 1, 1))
    errors = [f for f in races(result) if f.severity == "error"]
    assert {f.line for f in errors} == ({line_of(line)} if line else set())
    expected = np.arange(64, 192, dtype=np.float32).reshape(2, 64)[:, ::-1].reshape(-1)
    assert np.array_equal(device.get(y, np.zeros(128, np.float32)), expected)


def test_neighbouring_halves_are_apart(device: Device, module: LoadedModule) -> None:
    """Threads that access different 2-byte halves of one word do not race."""
    y = device.put(np.zeros(64, np.float16))
    assert device.launch(module, "halves", [pointer(y)], block=(64, 1, 1)).findings == ()


def test_named_barrier(device: Device, module: LoadedModule) -> None:
    """A named barrier that only some warps use orders the accesses of these warps."""
    y = device.put(np.zeros(128, np.int32))
    result = device.launch(module, "named_barrier", [pointer(y)], block=(160, 1, 1))
    assert [f for f in result.findings if f.check == "racecheck"] == []


def test_pointers_out_of_memory(device: Device, module: LoadedModule) -> None:
    """Stores through a pointer that was loaded from memory are checked for races."""
    y = device.put(np.zeros(32, np.float32))
    where = device.put(np.array([y], np.uint64))
    result = device.launch(module, "through_memory", [pointer(where)], block=(64, 1, 1))
    assert [f.severity for f in races(result)] == ["warning"]


def test_pointer_of_two_halves(device: Device) -> None:
    """A store through a pointer that was put together from two registers is checked for races."""
    ptx = """.version 9.0
    .target sm_90
    .address_size 64
    .visible .entry halves(.param .u64 y)
    {
        .reg .b32 %l, %h, %b; .reg .b64 %y, %z;
        ld.param.u64 %y, [y];
        mov.b64 {%l, %h}, %y;
        add.u32 %l, %l, 4;
        mov.b64 %z, {%l, %h};
        mov.u32 %b, %ctaid.x;
        st.global.u32 [%z], %b;
        ret;
    }
    """
    y = device.put(np.zeros(2, np.int32))
    (found,) = races(device.run(ptx, [pointer(y)], grid=(2, 1, 1), block=(1, 1, 1)))
    assert (found.severity, found.address) == ("error", y + 4)


def test_racecheck_can_be_off(device: Device, race_ptx: Callable[..., str]) -> None:
    """A machine with `racecheck=False` reports no races."""
    machine = Machine(device.machine.memory, racecheck=False)
    assert tiled(Device(machine), machine.load(race_ptx("BARRIER_1"))).findings == ()


@pytest.mark.parametrize("first", [0, 1])
def test_read_only_data_that_the_launch_has_written(
    device: Device, module: LoadedModule, first: int
) -> None:
    """A load through the read-only cache is an error if the launch has written its bytes before.

    A load of bytes that are overwritten later, as in an update in place, is no finding.
    """
    y, out = (pointer(device.put(np.zeros(128, np.float32))) for _ in range(2))
    arguments = [y, out, int32(first)]
    found = races(device.launch(module, "read_only", arguments, (2, 1, 1), (64, 1, 1)))
    if first:
        assert found == []
        return
    (error,) = found
    assert (error.severity, error.line, error.count) == ("error", line_of("// read only"), 128)
    assert error.message == (
        f"4-byte load at race.cu:{error.line} goes through the read-only cache, which need not see "
        f"the store at race.cu:{line_of('// written')} in the same launch"
    )


def test_loop_without_a_barrier_races_on_one_line(device: Device, module: LoadedModule) -> None:
    """A loop that lacks a barrier at its end races on one line, and the message names the loop."""
    x, y = device.put(np.ones(128, np.float32)), device.put(np.zeros(1, np.float32))
    found = races(
        device.launch(module, "halving", [pointer(x), pointer(y)], (1, 1, 1), (128, 1, 1))
    )
    (error,) = [each for each in found if each.severity == "error"]
    assert error.line == line_of("// halved")
    assert " races with the load on the same line by thread (" in error.message
    assert error.message.endswith("no barrier between them, or between two iterations of a loop")


def test_full_log_hides_no_race(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A race is reported even if the log of races is full of stores of equal values."""
    monkeypatch.setattr(race, "_EVENTS", 1)
    ptx = """.version 9.0
.target sm_90
.address_size 64
.visible .entry test() {
  .reg .b32 %t; .shared .b32 values[2];
  mov.u32 %t, 7; st.shared.u32 [values], %t;
  mov.u32 %t, %tid.x; st.shared.u32 [values + 4], %t; ret;
}"""
    (found,) = races(device.run(ptx, [], block=(33, 1, 1)))
    assert found.severity != "info"
