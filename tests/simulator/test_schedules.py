"""Schedules other than 0 show kernels that are right only in the order of the first one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import Machine
from harness.simulator.hardware.geometry import Geometry, Placement
from tests.simulator.support import Array, Device, pointer

pytestmark = pytest.mark.simulator_only

SCHEDULES = (5, 6)
FLAGS = Path(__file__).with_name("race_flags.cu")
_HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
_BEGIN = (
    ".reg .pred %p; .reg .b32 %t, %v, %w, %at, %from; .reg .f32 %f, %g, %never;"
    ".reg .b64 %out, %o, %state;"
    "mov.u32 %t, %tid.x; ld.param.u64 %out, [out];"
    "mul.wide.u32 %o, %t, 4; add.s64 %out, %out, %o;"
)
# A thread stores a number, and loads that of a thread two warps away.
_STORE = "shl.b32 %at, %t, 2; xor.b32 %from, %at, 256; add.u32 %v, %t, 1;"


def run(device: Device, schedule: int, body: str, threads: int) -> tuple[Array, bool]:
    """Run PTX in one block with a schedule.

    Return its output, one float32 or int32 for each thread, and whether there are findings.
    """
    machine = Machine(device.machine.memory, schedule=schedule)
    out = device.put(np.zeros(threads, np.int32))
    ptx = f"{_HEADER}.visible .entry test(.param .u64 out) {{ {_BEGIN} {body} ret; }}"
    result = Device(machine).run(ptx, [pointer(out)], block=(threads, 1, 1))
    return device.get(out, np.zeros(threads, np.int32)), bool(result.findings)


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_exchange_through_volatile_shared_memory(
    device: Device, barrier: str, threads: int
) -> None:
    """Warps that exchange values without a barrier read too early in one of two schedules.

    With a barrier, they are right in both, and there is no finding.
    """
    body = (
        f".shared .b32 values[{threads}]; {_STORE}"
        "mov.u32 %w, values; add.u32 %at, %at, %w; add.u32 %from, %from, %w;"
        f"st.volatile.shared.u32 [%at], %v; {barrier} ld.volatile.shared.u32 %w, [%from];"
        "st.global.u32 [%out], %w;"
    )
    right = (np.arange(threads) ^ 64) + 1
    natural, _ = run(device, 0, body, threads)
    np.testing.assert_array_equal(natural, right)
    others = [run(device, schedule, body, threads) for schedule in SCHEDULES]
    is_right = [bool((values == right).all()) and not found for values, found in others]
    assert is_right == [True, True] if barrier else not all(is_right)


@pytest.mark.parametrize("loop", ["", "@!%p bra AGAIN;"])
def test_test_of_an_mbarrier_that_is_not_repeated(device: Device, loop: str) -> None:
    """A kernel that goes on after one `try_wait` is wrong in another schedule; a loop is right."""
    body = (
        ".shared .b64 ready; .shared .b32 values[128];"
        f"{_STORE} mov.u32 %w, values; add.u32 %at, %at, %w; add.u32 %from, %from, %w;"
        "setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [ready], 128; bar.sync 0;"
        "st.shared.u32 [%at], %v; mbarrier.arrive.shared.b64 %state, [ready];"
        f"AGAIN: mbarrier.try_wait.shared.b64 %p, [ready], %state; {loop}"
        "ld.shared.u32 %w, [%from]; st.global.u32 [%out], %w;"
    )
    right = (np.arange(128) ^ 64) + 1
    for schedule in (0, *SCHEDULES):
        values, found = run(device, schedule, body, 128)
        is_right = bool((values == right).all()) and not found
        assert is_right == bool(loop or schedule == 0)


@pytest.mark.parametrize("operation", ["max", "min"])
def test_unset_register_in_a_maximum(device: Device, operation: str) -> None:
    """A register that nothing has set changes a maximum or a minimum in one of two schedules."""
    body = f"cvt.rn.f32.u32 %f, %t; {operation}.f32 %f, %f, %never; st.global.f32 [%out], %f;"
    right = np.arange(32, dtype=np.float32).view(np.int32)
    natural, _ = run(device, 0, body, 32)
    np.testing.assert_array_equal(natural, right)
    others = [run(device, schedule, body, 32)[0] for schedule in SCHEDULES]
    assert [bool((values == right).all()) for values in others].count(True) == 1


@pytest.mark.parametrize("chunk_lanes", [64, 16384])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "kernel", ["volatile_flag", "every_thread_spins", "atomic_flag", "passed_on_in_the_block"]
)
def test_flags_are_awaited(
    device: Device,
    compile_ptx: Callable[..., str],
    kernel: str,
    schedule: int,
    chunk_lanes: int,
) -> None:
    """A kernel that waits for its flags is right in every schedule, and has no finding."""
    machine = Machine(device.machine.memory, schedule=schedule, chunk_lanes=chunk_lanes)
    on = Device(machine)
    data, flags, out = (device.put(np.zeros(512, np.int32)) for _ in range(3))
    arguments = [pointer(data), pointer(flags), pointer(out)]
    result = on.launch(machine.load(compile_ptx(FLAGS)), kernel, arguments, (3, 1, 1), (64, 1, 1))
    assert result.findings == ()
    values = device.get(out, np.zeros(512, np.float32))[64:192]
    np.testing.assert_array_equal(values, np.tile(np.arange(63, -1, -1, dtype=np.float32), 2))


def test_opposite_halves_run_ahead() -> None:
    """In two consecutive schedules, opposite halves of a block's warps run ahead; in 0, none."""
    geometry = Geometry((4, 1, 1), (256, 1, 1))
    assert Placement(geometry).ahead(1024) is None
    one, other = (_threads_ahead(Placement(geometry, schedule)) for schedule in SCHEDULES)
    every = set(range(256))
    assert [len(threads) for threads in one] == [128] * 4
    assert [every - threads for threads in one] == other


def _threads_ahead(placement: Placement) -> list[set[int]]:
    """Return the numbers of the threads of each of four blocks that run ahead."""
    mask = placement.ahead(1024)
    assert mask is not None
    return [set(placement.thread_numbers[block].tolist()) for block in mask.reshape(4, 256)]
