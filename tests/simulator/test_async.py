"""Asynchronous copies (cp.async, bulk and TMA copies) and mbarriers."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.errors import UnmetCondition, UnsupportedInstruction
from harness.simulator.hardware.memory import POISON, Memory
from tests.simulator.conftest import Compile
from tests.simulator.support import Array, Device, bits, int32, pointer

UINT16, UINT32, FLOAT16, FLOAT32, TFLOAT32 = 1, 2, 6, 7, 11


@pytest.fixture
def module(device: Device, compile_ptx: Compile) -> LoadedModule:
    return device.machine.load(compile_ptx(Path(__file__).with_name("async.cu")))


def test_cp_async_groups(device: Device, module: LoadedModule) -> None:
    """A thread that waits for its own cp.async groups reads the copied data, without a finding."""
    x = np.arange(256, dtype=np.float32)
    target = device.put(np.zeros_like(x))
    arguments = [pointer(target), pointer(device.put(x)), int32(0)]
    result = device.launch(module, "two_groups", arguments)
    assert result.findings == ()
    assert np.array_equal(device.get(target, x), x)


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("asked", "words"), [(4, ""), (8, ""), (12, "of 8 bytes is told to read 12")]
)
def test_cp_async_of_too_many_bytes(device: Device, asked: int, words: str) -> None:
    """A cp.async that is told to read more bytes than it copies is a finding; fewer are right."""
    ptx = """.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 from, .param .u32 size) {
  .reg .b64 %p; .reg .b32 %n; .shared .align 16 .b8 values[16];
  ld.param.u64 %p, [from]; ld.param.u32 %n, [size];
  cp.async.ca.shared.global [values], [%p], 8, %n;
  cp.async.wait_all; ret;
}"""
    arguments = [pointer(device.put(np.arange(4))), int32(asked)]
    found = device.run(ptx, arguments, block=(1, 1, 1)).findings
    assert len(found) == bool(words)
    assert all(each.check == "memcheck" and words in each.message for each in found)


@pytest.mark.simulator_only
@pytest.mark.parametrize(("left", "missing"), [(1, ["second group"]), (2, ["first", "second"])])
def test_cp_async_without_a_wait(
    device: Device, module: LoadedModule, left: int, missing: list[str]
) -> None:
    """A read of cp.async data without a wait is a race at the reading line, and gives poison.

    Poison is the NaN pattern of memory that nothing has written.
    """
    x = np.arange(256, dtype=np.float32)
    target = device.put(x)
    arguments = [pointer(target), pointer(device.put(x)), int32(left)]
    result = device.launch(module, "two_groups", arguments)
    assert [(f.check, f.severity) for f in result.findings] == [("racecheck", "error")] * len(
        missing
    )
    lines = Path(__file__).with_name("async.cu").read_text().split("\n")
    for finding, name in zip(result.findings, missing, strict=True):
        (line,) = (n for n, text in enumerate(lines, 1) if f"// {name}" in text)
        assert f"races with the load at async.cu:{line} by thread (0,0,0)" in finding.message
        assert finding.message.endswith("no wait for the asynchronous copy between them")
    got = device.get(target, x)
    assert (got[128:].view(np.uint32) == POISON).all()
    assert np.array_equal(got[:128], x[:128]) is (left == 1)


@pytest.mark.simulator_only
def test_copies_without_a_wait_and_without_racecheck(memory: Memory, compile_ptx: Compile) -> None:
    """If racecheck is off, initcheck reports each read of cp.async data without a wait."""
    device = Device(Machine(memory, racecheck=False))
    module = device.machine.load(compile_ptx(Path(__file__).with_name("async.cu")))
    x = np.arange(256, dtype=np.float32)
    arguments = [pointer(device.put(x)), pointer(device.put(x)), int32(2)]
    result = device.launch(module, "two_groups", arguments)
    assert [f.check for f in result.findings] == ["initcheck", "initcheck"]


def test_cp_async_fills_with_zeros(device: Device, module: LoadedModule) -> None:
    """cp.async writes zeros for the bytes past src-size.

    If its ignore-src predicate is true, it writes only zeros.
    """
    x = np.arange(1, 97, dtype=np.uint32) * 0x01010101
    target = device.put(np.zeros_like(x))
    result = device.launch(module, "partial", [pointer(target), pointer(device.put(x)), int32(1)])
    assert result.findings == ()
    expected = x.copy()
    expected[:3] &= 0xFF
    expected[32:] = np.where(np.arange(64) // 2 % 2 == 1, 0, x[:64])
    assert np.array_equal(device.get(target, x), expected)


@pytest.mark.simulator_only
def test_cp_async_checks_its_source(device: Device, module: LoadedModule) -> None:
    """A cp.async that starts past the end of its source allocation is a memcheck finding."""
    source = device.put(np.zeros(252, np.float32))
    target = device.put(np.zeros(256, np.float32))
    result = device.launch(module, "two_groups", [pointer(target), pointer(source), int32(0)])
    assert [(f.check, f.message) for f in result.findings] == [
        ("memcheck", "16-byte load 16 bytes past the end of a 1008-byte allocation")
    ]
    assert result.findings[0].thread == (31, 0, 0)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_mbarriers_order_a_ring(device: Device, module: LoadedModule, rounds: int) -> None:
    """A producer and a consumer warp exchange numbers through a ring of slots with mbarriers."""
    target = device.put(np.zeros(96, np.int32))
    arguments = [pointer(target), int32(rounds), int32(0)]
    result = device.launch(module, "ring", arguments, grid=(3, 1, 1), block=(64, 1, 1))
    assert result.findings == ()
    lane = np.arange(32)
    expected = sum(i * 100 + 31 - lane for i in range(rounds))
    got = device.get(target, np.zeros((3, 32), np.int32))
    assert np.array_equal(got, np.broadcast_to(expected, (3, 32)))


@pytest.mark.simulator_only
def test_a_missing_arrival_is_a_deadlock(device: Device, module: LoadedModule) -> None:
    """A wait for an mbarrier phase that cannot complete raises an error with its source line."""
    target = device.put(np.zeros(32, np.int32))
    with pytest.raises(UnmetCondition, match=r"try_wait.*async\.cu") as caught:
        device.launch(module, "ring", [pointer(target), int32(4), int32(1)], block=(64, 1, 1))
    assert caught.value.waiting == 32


@pytest.mark.simulator_only
def test_mbarrier_of_no_arrivals_is_none(device: Device, module: LoadedModule) -> None:
    """A wait for an mbarrier with an arrival count of 0 or 2^20 raises a deadlock error.

    Valid counts are 1 to 2^20 - 1.
    """
    target = device.put(np.zeros(1, np.int32))
    device.launch(module, "of_count", [pointer(target), int32(1)], block=(1, 1, 1))
    assert device.get(target, np.zeros(1, np.int32))[0] == 1
    for count in (0, 1 << 20):
        with pytest.raises(UnmetCondition):
            device.launch(module, "of_count", [pointer(target), int32(count)], block=(1, 1, 1))


def test_mbarrier_states(device: Device, module: LoadedModule) -> None:
    """A state from an mbarrier arrival tells whether the phase of that arrival has completed.

    A thread that has called `arrive_drop` is not counted in the next phase.
    """
    target = device.put(np.zeros(32, np.int32))
    device.launch(module, "states", [pointer(target)])
    assert device.get(target, np.zeros(32, np.int32)).tolist() == [0b110] * 32


def test_pending_counts(device: Device, module: LoadedModule) -> None:
    """`mbarrier.pending_count` returns the number of missing arrivals that a state holds.

    The arrival that returned the state still counts as missing. If an mbarrier expects 7 arrivals,
    arrivals with counts of 1, 2 and 3 therefore give 7, 6 and 4.
    """
    target = device.put(np.zeros(3, np.int32))
    device.launch(module, "pending_counts", [pointer(target)], block=(1, 1, 1))
    assert device.get(target, np.zeros(3, np.int32)).tolist() == [7, 6, 4]


def test_cp_async_counted_by_an_mbarrier(device: Device, module: LoadedModule) -> None:
    """After an mbarrier's phase has completed, all threads see the copies that it counts.

    The copies are made by cp.async.
    """
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    target = device.put(np.zeros_like(x))
    arguments = [pointer(target), pointer(device.put(x))]
    assert device.launch(module, "counted", [*arguments, int32(1)]).findings == ()
    assert np.array_equal(device.get(target, x), x[::-1])


@pytest.mark.simulator_only
def test_cp_async_that_an_mbarrier_does_not_count(device: Device, module: LoadedModule) -> None:
    """A read of data that cp.async copies is a race if the thread does not wait for the copy.

    Here an mbarrier counts the copy, and the thread does not wait for the mbarrier.
    """
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    arguments = [pointer(device.put(x)), pointer(device.put(x)), int32(0)]
    (finding,) = device.launch(module, "counted", arguments).findings
    assert finding.check == "racecheck"
    assert finding.message.endswith("no wait for the asynchronous copy between them")


def test_bulk_copies(device: Device, module: LoadedModule) -> None:
    """A bulk load completes with its mbarrier's phase, and a bulk store with its bulk group."""
    x = np.arange(256, dtype=np.float32)
    target = device.put(np.zeros_like(x))
    arguments = [pointer(target), pointer(device.put(x)), int32(1024)]
    result = device.launch(module, "bulk", arguments, block=(64, 1, 1))
    assert result.findings == ()
    assert np.array_equal(device.get(target, x), x + 1)


def encode(
    device: Device,
    kind: int,
    address: int,
    dims: tuple[int, ...],
    pitch: int,
    box: tuple[int, ...],
    swizzle: int = 0,
    fill: int = 0,
) -> bytes:
    """Return the 128 bytes of a tensor map that cuTensorMapEncodeTiled makes.

    Args:
        device: The simulated device, or a GPU.
        kind: Number of the element type, as in CUtensorMapDataType.
        address: Address of the tensor.
        dims: Extents of the tensor in elements, innermost first.
        pitch: Bytes from one row to the next.
        box: Extents of the box in elements, innermost first.
        swizzle: Number of the swizzle mode, as in CUtensorMapSwizzle.
        fill: 1 to fill elements outside the tensor with NaN instead of zeros.

    Raises:
        ValueError: cuTensorMapEncodeTiled refuses the arguments.
    """
    raw = (ctypes.c_uint8 * 192)()
    start = ctypes.addressof(raw) + -ctypes.addressof(raw) % 64
    rank = len(dims)
    tensor = (
        ctypes.c_void_p(start),
        ctypes.c_uint32(kind),
        ctypes.c_uint32(rank),
        ctypes.c_uint64(address),
        (ctypes.c_uint64 * rank)(*dims),
        (ctypes.c_uint64 * rank)(*([pitch] * (rank - 1))),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
    )
    if device.encode_tiled(tensor, interleave=0, swizzle=swizzle, fill=fill):
        raise ValueError("refused")
    return ctypes.string_at(start, 128)


def run_box(
    device: Device, module: LoadedModule, x: Array, kind: int, box: tuple[int, int],
    at: tuple[int, int], swizzle: int = 0, fill: int = 0, waits: int = 1,
) -> tuple[Array, Array, Array, int]:  # fmt: skip
    """Copy a box of matrix `x` by TMA to shared memory, and from there to a zeroed matrix.

    Args:
        device: The simulated device, or a GPU.
        module: The kernels of async.cu.
        x: The matrix.
        kind: Number of the element type, as in CUtensorMapDataType.
        box: Width and height of the box in elements.
        at: Column and row where the box starts.
        swizzle: As in `encode`.
        fill: As in `encode`.
        waits: 0 to read shared memory without waiting for the load; 1 or 2 to wait. 2 also stores
            a box that starts below zero, which 0 and 1 do not store.

    Returns:
        The box as it lies in shared memory, the zeroed matrix after the copy, the check of each
            finding, and the box's size in bytes.
    """
    height, width = x.shape
    target = device.put(np.zeros_like(x))
    pitch = width * x.itemsize
    maps = [
        encode(device, kind, address, (width, height), pitch, box, swizzle, fill)
        for address in (device.put(x), target)
    ]
    nbytes = box[0] * box[1] * x.itemsize
    raw = device.put(np.zeros(nbytes, np.uint8))
    arguments = [*maps, pointer(raw), *map(int32, (nbytes, *at, waits))]
    result = device.launch(module, "box", arguments, block=(64, 1, 1))
    checks = np.array([f.check for f in result.findings])
    shared = device.get(raw, np.zeros((box[1], box[0]), x.dtype))
    return shared, device.get(target, x), checks, nbytes


def test_a_box_of_a_tensor(device: Device, module: LoadedModule) -> None:
    """A TMA load packs a box of a tensor densely into shared memory.

    A TMA store writes the box to the same position of another tensor.
    """
    x = np.arange(20 * 64, dtype=np.uint32).reshape(20, 64)
    shared, copy, checks, _ = run_box(device, module, x, UINT32, (16, 8), (8, 5))
    assert not len(checks)
    assert np.array_equal(shared, x[5:13, 8:24])
    expected = np.zeros_like(x)
    expected[5:13, 8:24] = shared
    assert np.array_equal(copy, expected)


@pytest.mark.parametrize("at", [(-4, -3), (56, 15), (80, 2), (4, 19)])
def test_a_box_across_the_edge(device: Device, module: LoadedModule, at: tuple[int, int]) -> None:
    """A TMA load reads elements outside the tensor as zeros; a TMA store skips them."""
    x = np.arange(1, 20 * 64 + 1, dtype=np.uint32).reshape(20, 64)
    shared, copy, checks, _ = run_box(device, module, x, UINT32, (16, 8), at)
    assert not len(checks)
    padded = np.zeros((100, 200), np.uint32)
    padded[40:60, 60:124] = x
    window = slice(40 + at[1], 48 + at[1]), slice(60 + at[0], 76 + at[0])
    assert np.array_equal(shared, padded[window])
    expected = np.zeros_like(padded)
    if min(at) >= 0:
        expected[window] = padded[window]
    assert np.array_equal(copy, expected[40:60, 60:124])


@pytest.mark.simulator_only
@pytest.mark.parametrize("at", [(-4, 3), (4, -1)])
def test_a_stored_box_cannot_start_below_zero(
    device: Device, module: LoadedModule, at: tuple[int, int]
) -> None:
    """A TMA store of a box that starts below zero is a memcheck finding and stores nothing.

    A GPU stops at such a store. A load may start below zero.
    """
    x = np.ones((20, 64), np.uint32)
    _, copy, checks, _ = run_box(device, module, x, UINT32, (16, 8), at, waits=2)
    assert list(checks) == ["memcheck"]
    assert not copy.any()


@pytest.mark.simulator_only
@pytest.mark.parametrize("column", [1, 6])
def test_a_box_starts_at_a_multiple_of_16_bytes(
    device: Device, module: LoadedModule, column: int
) -> None:
    """A TMA load or store whose box does not start at a multiple of 16 bytes is a memcheck finding.

    The simulator then copies nothing. A GPU stops at such a copy.
    """
    x = np.ones((20, 64), np.uint32)
    shared, copy, checks, _ = run_box(device, module, x, UINT32, (16, 8), (column, 3), waits=0)
    assert list(checks).count("memcheck") == 2
    assert not (shared == 1).any()
    assert not copy.any()


@pytest.mark.parametrize(("swizzle", "span"), [(1, 32), (2, 64), (3, 128)])
def test_swizzled_boxes(device: Device, module: LoadedModule, swizzle: int, span: int) -> None:
    """A swizzled TMA load permutes the 16-byte chunks of a box within each span.

    Chunk n of line m lies at the place of chunk n ^ (m % c). A line is 128 bytes of shared memory,
    and c is the number of chunks in a span.
    """
    columns = span // 2
    x = np.arange(32 * columns, dtype=np.uint16).reshape(32, columns)
    shared, copy, checks, nbytes = run_box(
        device, module, x, UINT16, (columns, 32), (0, 0), swizzle
    )
    assert not len(checks)
    assert np.array_equal(copy, x)
    chunks = x.reshape(-1, 8)
    got = shared.reshape(-1, 8)
    per_span = span // 16
    for number in range(nbytes // 16):
        line = number // 8
        place = number ^ (line % per_span)
        assert np.array_equal(got[place], chunks[number]), number


@pytest.mark.parametrize(
    ("kind", "dtype"), [(FLOAT16, np.float16), (FLOAT32, np.float32), (TFLOAT32, np.float32)]
)
def test_the_nan_outside_of_a_tensor(
    device: Device, module: LoadedModule, kind: int, dtype: type[np.generic]
) -> None:
    """A TMA load can fill elements outside the tensor with NaN, whose bits equal a GPU's."""
    x = np.ones((8, 16), dtype)
    shared, *_ = run_box(device, module, x, kind, (16, 8), (8, 0), fill=1)
    assert (shared[:, :8] == 1).all()
    assert (bits(shared[:, 8:]) == {2: 0x7FF7, 4: 0x7FF77FF7}[x.itemsize]).all()


def test_what_lies_outside_can_be_nan(device: Device, module: LoadedModule) -> None:
    """NAN_REQUEST_ZERO_FMA fills elements outside the tensor with NaN.

    A TFLOAT32 map rounds elements inside the tensor to tf32.
    """
    x = np.full((8, 8), 1 + 2.0**-12, np.float32)
    shared, *_ = run_box(device, module, x, TFLOAT32, (8, 8), (4, 0), fill=1)
    assert (shared[:, :4] == 1).all()
    assert np.isnan(shared[:, 4:]).all()


@pytest.mark.simulator_only
def test_a_box_that_nobody_waited_for(device: Device, module: LoadedModule) -> None:
    """A read of shared memory before the TMA load that fills it has completed is a race."""
    x = np.ones((8, 8), np.float32)
    *_, checks, _ = run_box(device, module, x, FLOAT32, (8, 8), (0, 0), waits=0)
    assert set(checks) == {"racecheck"}


@pytest.mark.parametrize(
    ("dims", "pitch", "box", "swizzle", "offset"),
    [
        ((64, 8), 256, (65 * 4, 8), 0, 0),
        ((64, 8), 250, (16, 8), 0, 0),
        ((64, 8), 256, (3, 8), 0, 0),
        ((64, 8), 256, (64, 8), 3, 0),
        ((64, 8), 256, (16, 8), 0, 4),
        ((64, 0), 256, (16, 8), 0, 0),
    ],
)
def test_maps_that_the_driver_refuses(
    device: Device,
    dims: tuple[int, ...],
    pitch: int,
    box: tuple[int, ...],
    swizzle: int,
    offset: int,
) -> None:
    """`cuTensorMapEncodeTiled` refuses a tensor map that breaks one of the documented rules.

    Each case breaks one rule. In three cases, the box is too large, the box is wider than the
    swizzle span, or an extent of the tensor is zero. In the other cases, the address, the pitch or
    the box's width is not a multiple of 16 bytes.
    """
    with pytest.raises(ValueError, match="refused"):
        encode(device, UINT32, 4096 + offset, dims, pitch, box, swizzle)


@pytest.mark.parametrize("name", ["bulk_and_barrier", "pipeline", "group", "copy_and_barrier"])
def test_copies_through_libraries(device: Device, compile_ptx: Compile, name: str) -> None:
    """Copies by cuda::barrier, cuda::pipeline and cooperative groups give the right result."""
    module = device.machine.load(compile_ptx(Path(__file__).with_name("libcu.cu")))
    x = np.arange(256, dtype=np.float32)
    target = device.put(np.zeros_like(x))
    (mangled,) = (n for n in module.kernels if f"{len(name)}{name}P" in n)
    arguments = [pointer(target), pointer(device.put(x))]
    try:
        result = device.machine.launch(module, mangled, (1, 1, 1), (256, 1, 1), 0, arguments)
    except UnsupportedInstruction as error:
        if "globaltimer" not in error.instruction:
            raise
        pytest.skip("their time limits need %globaltimer")
    assert result.findings == ()
    assert np.array_equal(device.get(target, x), x[::-1])
