"""Atomic operations, and threads that wait for other threads."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from harness.simulator.hardware.errors import BarrierDeadlock, KernelTrap
from tests.simulator.support import Array, Device, bits, int32, pointer


@pytest.fixture(scope="module")
def ptx(compile_ptx: Callable[[Path], str]) -> str:
    return compile_ptx(Path(__file__).with_name("atomics.cu"))


@pytest.fixture
def module(device: Device, ptx: str) -> LoadedModule:
    return device.machine.load(ptx)


INTEGERS = {"i": np.int32, "j": np.uint32, "x": np.int64, "y": np.uint64, "t": np.uint16}
CASES = [
    *(("add", t) for t in "ijy"),
    *((op, t) for op in ("min", "max") for t in "ijxy"),
    *((op, t) for op in ("and", "or", "xor") for t in "jy"),
    *(("exch", t) for t in "iy"),
    *(("cas", t) for t in "iyt"),
    ("inc", "j"),
    ("dec", "j"),
]


def after(operation: str, old: int, operand: int, limit: int) -> int:
    """Return the value that an atomic operation leaves in memory.

    Args:
        operation: Name of the operation.
        old: Value in memory before the operation.
        operand: The operation's operand.
        limit: Value that `cas` compares with `old`.
    """
    results: dict[str, Callable[[], int]] = {
        "add": lambda: old + operand,
        "min": lambda: min(old, operand),
        "max": lambda: max(old, operand),
        "and": lambda: old & operand,
        "or": lambda: old | operand,
        "xor": lambda: old ^ operand,
        "exch": lambda: operand,
        "cas": lambda: operand if old == limit else old,
        "inc": lambda: 0 if old >= operand else old + 1,
        "dec": lambda: operand if old == 0 or old > operand else old - 1,
    }
    return results[operation]()


@pytest.mark.parametrize(("operation", "code"), CASES)
def test_integer_operations(
    device: Device, module: LoadedModule, operation: str, code: str
) -> None:
    """Atomic integer operations of a warp's threads act one after another, in the order of lanes.

    Each operation returns the value that the previous thread's operation left.
    """
    dtype = INTEGERS[code]
    info = np.iinfo(np.dtype(dtype).name)
    rng = np.random.default_rng(1)
    x = rng.integers(info.min, info.max, 32, dtype, endpoint=True)
    if operation in ("inc", "dec"):
        x = rng.integers(0, 5, 32).astype(dtype)
    start = info.max if operation == "add" else 3
    expected = []
    value = int(start)
    wrap = np.array(value, dtype)
    for v in x:
        expected.append(value)
        value = after(operation, value, int(v), 3)
        wrap = np.array(value % 2 ** (8 * x.itemsize), f"u{x.itemsize}").view(dtype)
        value = int(wrap)
    at, old = device.put(np.full(2, start, dtype)), device.put(np.zeros_like(x))
    limit = np.array(3, dtype).tobytes()
    arguments = [pointer(old), pointer(at), pointer(device.put(x)), limit]
    result = device.launch(module, f"op_{operation}I{code}E", arguments)
    assert result.findings == ()
    assert device.get(old, x).tolist() == expected
    assert device.get(at, x[:2]).tolist() == [value, start]


@pytest.mark.parametrize(("code", "dtype"), [("f", np.float32), ("d", np.float64)])
def test_floating_additions(device: Device, module: LoadedModule, code: str, dtype: type) -> None:
    """`atomicAdd` of floats rounds every sum separately; infinities of both signs give NaN."""
    x: Array = np.array([1e30, 1.0, -1e30, 0.1, 3.0, np.inf, 1.0, -np.inf] * 4, dtype)
    expected: Array = np.zeros_like(x)
    value = dtype(-0.0)
    with np.errstate(all="ignore"):
        for i, v in enumerate(x):
            expected[i] = value
            value = dtype(value + v)
    at, old = device.put(np.full(1, -0.0, dtype)), device.put(np.zeros_like(x))
    arguments = [pointer(old), pointer(at), pointer(device.put(x)), np.zeros(1, dtype).tobytes()]
    device.launch(module, f"op_addI{code}E", arguments)
    got = device.get(old, x)
    assert np.array_equal(bits(got[:8]), bits(expected[:8]))
    assert np.isnan(got[8:]).all()


def test_exchange_of_floats(device: Device, module: LoadedModule) -> None:
    """`atomicExch` of floats moves bits, and so preserves signed zeros and NaN payloads."""
    x = np.array([0x80000000, 0x7F812345, 1, 0xFF800000] * 8, np.uint32).view(np.float32)
    at, old = device.put(np.zeros(1, np.float32)), device.put(x)
    device.launch(
        module, "op_exchIf", [pointer(old), pointer(at), pointer(device.put(x)), bytes(4)]
    )
    assert bits(device.get(old, x))[1:].tolist() == bits(x)[:-1].tolist()


def test_subnormal_sums(device: Device, module: LoadedModule) -> None:
    """`atomicAdd` flushes subnormal floats to zero in global memory, but not in shared memory."""
    tiny = np.float32(2.0**-140)
    y = device.put(np.array([-0.0, 0], np.float32))
    device.launch(module, "subnormals", [pointer(y), tiny.tobytes()], block=(1, 1, 1))
    assert device.get(y, np.zeros(2, np.float32)).tolist() == [0.0, 2.0**-139]


def nearest_half(exact: Fraction, fraction: int, smallest: int) -> Fraction:
    """Return the number of a 16-bit float format nearest to `exact`, ties to even.

    Args:
        exact: The number to round.
        fraction: Fraction bits of the format.
        smallest: Exponent of the smallest normal number of the format.
    """
    if exact == 0:
        return exact
    exponent = smallest
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - fraction)
    return round(exact / unit) * unit


@pytest.mark.parametrize(
    ("code", "fraction", "smallest"), [("6__half", 10, -14), ("13__nv_bfloat16", 7, -126)]
)
def test_half_precision_additions(
    device: Device, module: LoadedModule, code: str, fraction: int, smallest: int
) -> None:
    """`atomicAdd` of f16 and bf16 rounds to nearest even, and keeps subnormal numbers."""
    rng = np.random.default_rng(9)
    pattern = rng.integers(0, 2**16, 32).astype(np.uint16) & 0xBFFF  # below 2 in magnitude
    pattern[5:9] = 1, 0x8001, 3, 0x0400

    def exact(word: int) -> Fraction:
        exponent = word >> fraction & (1 << (15 - fraction)) - 1
        low = word & (1 << fraction) - 1
        value = Fraction(low + ((1 << fraction) if exponent else 0), 2**fraction)
        value *= Fraction(2) ** (max(exponent - 1, 0) + smallest)
        return -value if word >> 15 else value

    at, old = device.put(np.zeros(2, np.uint16)), device.put(pattern)
    arguments = [pointer(old), pointer(at), pointer(device.put(pattern)), bytes(2)]
    device.launch(module, f"op_addI{code}", arguments)
    value = Fraction(0)
    for word, got in zip(pattern, device.get(old, pattern), strict=True):
        assert exact(int(got)) == value
        value = nearest_half(value + exact(int(word)), fraction, smallest)


def test_pairs_of_halves(device: Device, module: LoadedModule) -> None:
    """`atomicAdd` of __half2 or __nv_bfloat162 adds each half of the word separately.

    An overflow of f16 becomes infinity.
    """
    x = np.array([[1.5, 65504.0]] * 3, np.float32)
    h, b = device.put(np.zeros(2, np.float16)), device.put(np.zeros(2, np.uint16))
    arguments = [pointer(h), pointer(b), pointer(device.put(x))]
    device.launch(module, "pairs_of_halves", arguments, block=(3, 1, 1))
    assert device.get(h, np.zeros(2, np.float16)).tolist() == [4.5, np.inf]
    halves = device.get(b, np.zeros(2, np.uint16)).astype(np.uint32) << 16
    assert halves.view(np.float32).tolist() == [4.5, 196608.0]


def test_vectors_of_floats(device: Device, module: LoadedModule) -> None:
    """`atomicAdd` of float4 or float2 adds each element separately."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    y = device.put(np.zeros((2, 4), np.float32))
    arguments = [pointer(y), pointer(device.put(x))]
    result = device.launch(module, "vectors_of_floats", arguments, block=(4, 1, 1))
    assert result.findings == ()
    got = device.get(y, np.zeros((2, 4), np.float32))
    assert got.tolist() == [[24, 28, 32, 36], [24, 4, 0, 0]]


def test_histogram_in_shared_memory(device: Device, module: LoadedModule) -> None:
    """Each block counts a histogram by atomics in its own shared memory.

    The sum of all blocks' histograms is right.
    """
    x = np.random.default_rng(4).integers(0, 99, 1000).astype(np.int32)
    y = device.put(np.zeros(8, np.int32))
    arguments = [pointer(y), pointer(device.put(x)), int32(1000)]
    device.launch(module, "shared_histogram", arguments, (3, 1, 1), (96, 1, 1))
    expected = 3 * np.bincount(x & 7, minlength=8)
    assert device.get(y, np.zeros(8, np.int32)).tolist() == expected.tolist()


def test_scopes_and_orders(device: Device, module: LoadedModule) -> None:
    """Atomic additions of every scope and memory order give the right sum."""
    y = device.put(np.zeros(1, np.int32))
    device.launch(module, "scopes", [pointer(y)])
    assert device.get(y, np.zeros(1, np.int32))[0] == 31 * 32


@pytest.mark.parametrize("chunk_lanes", [64, 16384])
def test_compare_and_swap_loops(device: Device, ptx: str, chunk_lanes: int) -> None:
    """Threads that raise one value by loops around atomicCAS leave the maximum of all values."""
    x = np.random.default_rng(6).standard_normal(512).astype(np.float32)
    y = device.put(np.full(1, -np.inf, np.float32))
    chunked = device.in_chunks_of(chunk_lanes)
    arguments = [pointer(y), pointer(device.put(x))]
    loaded = chunked.machine.load(ptx)
    chunked.launch(loaded, "float_max", arguments, (8, 1, 1), (64, 1, 1))
    assert device.get(y, x[:1])[0] == x.max()


@pytest.mark.parametrize("kernel", ["lock_and_add", "spin_lock"])
def test_locks(device: Device, module: LoadedModule, kernel: str) -> None:
    """Threads that spin on a lock do not block its holder: every thread gets the lock."""
    y, lock = device.put(np.zeros(1, np.int32)), device.put(np.zeros(1, np.int32))
    device.launch(module, kernel, [pointer(y), pointer(lock)], (2, 1, 1), (64, 1, 1))
    assert device.get(y, np.zeros(1, np.int32))[0] == 128


@pytest.mark.parametrize("chunk_lanes", [32, 16384])
def test_waiting_for_a_later_thread(device: Device, ptx: str, chunk_lanes: int) -> None:
    """A thread may spin until a thread of a later block has stored a value.

    This holds whether the simulator runs the blocks together or in separate chunks.
    """
    chunked = device.in_chunks_of(chunk_lanes)
    y = device.put(np.zeros(96, np.int32))
    chunked.launch(chunked.machine.load(ptx), "chain", [pointer(y)], (3, 1, 1))
    assert device.get(y, np.zeros(96, np.int32)).tolist() == list(range(96, 0, -1))


def test_sleeping_threads(device: Device, module: LoadedModule) -> None:
    """Threads that call __nanosleep between reads of a flag see the flag when it is set."""
    y = device.put(np.zeros(2, np.int32))
    device.launch(module, "sleepers", [pointer(y)])
    assert device.get(y, np.zeros(2, np.int32))[0] == 7


@pytest.mark.parametrize(("limit", "expected"), [(1 << 30, 5), (3, 0)])
def test_waiting_with_a_limit(
    device: Device, module: LoadedModule, limit: int, expected: int
) -> None:
    """A spin loop that counts its attempts does not keep other threads from running."""
    y = device.put(np.zeros(2, np.int32))
    arguments = [pointer(y), int32(limit)]
    device.launch(module, "counted_waiting", arguments)
    seen = device.get(y, np.zeros(2, np.int32))
    assert seen[0] == 5
    assert seen[1] in (expected, 5)


@pytest.mark.approximate
def test_clocks_go_on(device: Device, module: LoadedModule) -> None:
    """A loop that waits for 5000 ticks of clock64() ends after fewer than 10000 ticks.

    Every launch measures the same number of ticks.
    """
    y: Array = np.zeros(64, np.int64)
    counts = []
    for _ in range(2):
        target = device.put(y)
        device.launch(module, "clocks", [pointer(target)])
        counts.append(device.get(target, y).tolist())
    assert counts[0] == counts[1]
    assert 5000 <= counts[0][0] < 10000
    assert counts[0][32:] == [1] * 32


@pytest.mark.parametrize("chunk_lanes", [64, 16384])
def test_barrier_of_the_grid(device: Device, ptx: str, chunk_lanes: int) -> None:
    """grid.sync() of cooperative groups waits for all blocks of the grid.

    This holds whether the simulator runs the blocks together or in separate chunks.
    """
    chunked = device.in_chunks_of(chunk_lanes)
    n = 4 * 64
    y, x = device.put(np.zeros(n, np.int32)), device.put(np.zeros(n, np.int32))
    arguments = [pointer(y), pointer(x)]
    loaded = chunked.machine.load(ptx)
    where = loaded, "grid_barrier", arguments, (4, 1, 1), (64, 1, 1)
    result = chunked.launch(*where, cooperative=True)
    assert result.findings == ()
    expected = 3 * (n - 1 - np.arange(n)) + 3
    assert np.array_equal(device.get(y, np.zeros(n, np.int32)), expected)


@pytest.mark.simulator_only
def test_barrier_of_a_grid_that_was_launched_plainly(device: Device, module: LoadedModule) -> None:
    """grid.sync() traps if the kernel was not launched cooperatively."""
    y = device.put(np.zeros(64, np.int32))
    with pytest.raises(KernelTrap):
        device.launch(module, "grid_barrier", [pointer(y), pointer(y)], block=(64, 1, 1))


@pytest.mark.simulator_only
def test_spinning_for_ever_is_a_deadlock(device: Device, module: LoadedModule) -> None:
    """A thread that spins for ever while the others wait at a barrier raises a deadlock error.

    The error names the spinning thread and the waiting threads, with their source lines.
    """
    y = device.put(np.zeros(1, np.int32))
    with pytest.raises(BarrierDeadlock) as caught:
        device.launch(module, "never", [pointer(y)], (2, 1, 1))
    error = caught.value
    assert (error.kernel, error.block, error.waiting) == ("never", (0, 0, 0), ((0, 31),))
    at_barrier, spinning = error.places
    source = Path(__file__).with_name("atomics.cu").read_text().split("\n")
    lines = {
        text: n
        for n, line in enumerate(source, 1)
        for text in ("loop", "barrier")
        if line.endswith(f"line of the {text}")
    }
    assert f"atomics.cu:{lines['barrier']} (threads 0-4, 6-31)" in at_barrier
    assert "1 thread spinning at" in spinning
    assert f"atomics.cu:{lines['loop']} (threads 5)" in spinning


@pytest.mark.simulator_only
def test_storing_the_same_for_ever_is_a_deadlock(device: Device, module: LoadedModule) -> None:
    """An endless loop whose rounds leave all registers and all memory as they were is a deadlock.

    The loop's stores write the values that memory already has.
    """
    zeros = np.zeros(100, np.float32)
    y = device.put(zeros)
    device.launch(module, "stride_for_sum", [pointer(y), int32(64)], (2, 1, 1), (32, 1, 1))
    assert (device.get(y, zeros)[:64] == 0.5 * np.arange(64)).all()
    with pytest.raises(BarrierDeadlock, match=r"32 threads spinning at .*atomics\.cu"):
        device.launch(module, "stride_for_sum", [pointer(y), int32(100)], (2, 1, 1), (32, 1, 1))


def test_loop_that_counts_in_memory_ends(device: Device, module: LoadedModule) -> None:
    """A loop is not a deadlock if its registers repeat but its stores change memory."""
    y = device.put(np.zeros(1, np.int32))
    device.launch(module, "count_in_memory", [pointer(y)], (1, 1, 1), (1, 1, 1))
    assert device.get(y, np.zeros(1, np.int32))[0] == 5000


@pytest.mark.parametrize("chunk_lanes", [32, 16384])
def test_queue_of_work(device: Device, ptx: str, chunk_lanes: int) -> None:
    """A loop that takes work from a counter in memory runs until all the work is done."""
    chunked = device.in_chunks_of(chunk_lanes)
    counter, y = device.put(np.zeros(1, np.int32)), device.put(np.zeros(3000, np.int32))
    arguments = [pointer(counter), pointer(y), int32(3000)]
    chunked.launch(chunked.machine.load(ptx), "work_queue", arguments, (2, 1, 1))
    squares = np.arange(3000, dtype=np.int32) ** 2
    assert np.array_equal(device.get(y, squares), squares)
    total = struct.unpack("<i", device.machine.memory.read(counter, 4))[0]
    assert total == 3000 + 64


def test_result_that_nobody_wants(device: Device) -> None:
    """`_` as the destination of an atomic operation discards the old value."""
    y = device.put(np.zeros(1, np.uint32))
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry test(.param .u64 out)
    {
        .reg .b32 %r; .reg .b64 %rd;
        ld.param.u64 %rd, [out];
        mov.u32 %r, %tid.x;
        atom.global.add.u32 _, [%rd], %r;
        ret;
    }"""
    device.run(ptx, [pointer(y)])
    assert device.get(y, np.zeros(1, np.uint32))[0] == 31 * 16


def test_additions_of_vectors_keep_their_order(device: Device, module: LoadedModule) -> None:
    """`atomicAdd` of float4 and float2 by 64 threads at one address loses no addition."""
    x = np.ones((64, 4), np.float32)
    y = device.put(np.zeros((2, 4), np.float32))
    arguments = [pointer(y), pointer(device.put(x))]
    device.launch(module, "vectors_of_floats", arguments, block=(64, 1, 1))
    assert device.get(y, np.zeros((2, 4), np.float32)).tolist() == [[64] * 4, [64, 64, 0, 0]]
