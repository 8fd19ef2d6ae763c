"""Shuffles, votes, matches and reductions within a warp, and barriers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from harness.simulator.hardware.errors import BarrierDeadlock, UnsupportedInstruction
from tests.simulator.support import Array, Device, int32, pointer

FULL = 0xFFFFFFFF
MASKS = [FULL, 0x0000FFFF, 0x80000001, 0x5A5AA5F0, 0x00000010]


@pytest.fixture(scope="module")
def ptx(compile_ptx: Callable[[Path], str]) -> str:
    return compile_ptx(Path(__file__).with_name("warps.cu"))


@pytest.fixture
def module(device: Device, ptx: str) -> LoadedModule:
    return device.machine.load(ptx)


def word(value: int) -> bytes:
    """Return an unsigned integer as the bytes of a 32-bit kernel argument."""
    return struct.pack("<I", value)


def named(mask: int, lane: int = 0) -> list[int]:
    """Return the numbers of all lanes in a mask that are at least `lane`."""
    return [j for j in range(lane, 32) if mask >> j & 1]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("amount", "width"), [(1, 32), (3, 8), (17, 16), (31, 32), (0, 4)])
def test_shuffles(device: Device, module: LoadedModule, mask: int, amount: int, width: int) -> None:
    """Every shuffle mode stays within its segment of `width` lanes.

    A lane whose source is outside the segment keeps its own value.
    """
    threads = 64
    x = np.arange(threads, dtype=np.int32) * 7 - 50
    y = np.full((4, threads), -1, np.int32)
    expected = y.copy()
    is_open = np.zeros(y.shape, np.uint8)
    for t in range(threads):
        lane, warp = t % 32, t // 32 * 32
        if not mask >> lane & 1:
            continue
        start = lane // width * width
        sources = [
            start + amount % width,
            lane - amount if lane - amount >= start else lane,
            lane + amount if lane + amount < start + width else lane,
            lane ^ amount if lane ^ amount < start + width else lane,
        ]
        for row, source in enumerate(sources):
            # CUDA leaves the value of a lane outside the mask undefined; it is not compared.
            is_open[row, t] = not mask >> source & 1
            expected[row, t] = -1 if is_open[row, t] else x[warp + source]
    target = device.put(y)
    arguments = [
        *map(pointer, (target, device.put(x), device.put(is_open))),
        *(word(mask), int32(amount), int32(width)),
    ]
    result = device.launch(module, "shuffles", arguments, block=(threads, 1, 1))
    if mask == FULL:
        assert result.findings == ()
    assert np.array_equal(device.get(target, y), expected)


def test_shuffle_of_doubles(device: Device, module: LoadedModule) -> None:
    """__shfl_xor_sync of doubles keeps NaN payloads and signed zeros."""
    x = np.arange(32, dtype=np.float64)
    x[3], x[7] = -0.0, np.array(0x7FF4DEADBEEF0001, np.uint64).view(np.float64)
    target = device.put(np.zeros_like(x))
    device.launch(module, "shuffle_wide", [pointer(target), pointer(device.put(x))])
    expected = x[np.arange(32) ^ 5].view(np.uint64)
    assert np.array_equal(device.get(target, x).view(np.uint64), expected)


def test_shuffle_from_a_lane_of_choice(device: Device, module: LoadedModule) -> None:
    """Each lane of a shuffle may read a different lane, given by the operand's low five bits."""
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**31), 2**31, 32).astype(np.int32)
    source = rng.integers(-100, 100, 32).astype(np.int32)
    target = device.put(np.zeros_like(x))
    arguments = [pointer(target), pointer(device.put(x)), pointer(device.put(source))]
    device.launch(module, "varying_source", arguments)
    assert np.array_equal(device.get(target, x), x[source & 31])


@pytest.mark.parametrize("chunk_lanes", [96, 16384])
def test_sum_over_a_warp(device: Device, ptx: str, chunk_lanes: int) -> None:
    """A reduction by shuffles gives the sum of each warp, in every block."""
    x = np.arange(5 * 96, dtype=np.float32)
    chunked = device.in_chunks_of(chunk_lanes)
    target = device.put(x)
    loaded = chunked.machine.load(ptx)
    result = chunked.launch(loaded, "warp_sum", [pointer(target)], (5, 1, 1), (96, 1, 1))
    assert result.findings == ()
    assert np.array_equal(device.get(target, x)[::32], x.reshape(-1, 32).sum(1))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("pattern", ["ones", "zeros", "random"])
def test_votes(device: Device, module: LoadedModule, mask: int, pattern: str) -> None:
    """Ballot, any, all and uni consider only the lanes of the mask."""
    rng = np.random.default_rng(mask)
    values = {"ones": np.ones(64), "zeros": np.zeros(64), "random": rng.integers(0, 2, 64)}
    x = values[pattern].astype(np.int32)
    y = np.full((4, 64), 9, np.uint32)
    expected = y.copy()
    for t in range(64):
        if mask >> (t % 32) & 1:
            votes = [int(x[t // 32 * 32 + j]) for j in named(mask)]
            ballot = sum(v << j for v, j in zip(votes, named(mask), strict=True))
            same = len(set(votes)) == 1
            expected[:, t] = ballot, any(votes), all(votes), same
    target = device.put(y)
    device.launch(
        module, "votes", [pointer(target), pointer(device.put(x)), word(mask)], block=(64, 1, 1)
    )
    assert np.array_equal(device.get(target, y), expected)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("kinds", [1, 3])
def test_matches(device: Device, module: LoadedModule, mask: int, dtype: type, kinds: int) -> None:
    """match.any and match.all compare all 32 or 64 bits of the values of the lanes in the mask."""
    rng = np.random.default_rng(7)
    x: Array = (rng.integers(0, kinds, 32) * (2**40 if dtype is np.int64 else 5)).astype(dtype)
    y = np.full((3, 32), 9, np.uint32)
    expected = y.copy()
    for t in named(mask):
        equal = sum(1 << j for j in named(mask) if x[j] == x[t])
        expected[:, t] = equal, mask if equal == mask else 0, equal == mask
    target = device.put(y)
    kernel = "matchesIi" if dtype is np.int32 else "matchesIx"
    device.launch(module, kernel, [pointer(target), pointer(device.put(x)), word(mask)])
    assert np.array_equal(device.get(target, y), expected)


@pytest.mark.parametrize("mask", MASKS)
def test_reductions(device: Device, module: LoadedModule, mask: int) -> None:
    """redux.sync sums wrap around; minima and maxima are signed or unsigned by their type.

    Only lanes of the mask take part.
    """
    rng = np.random.default_rng(5)
    x = rng.integers(-(2**31), 2**31, 32).astype(np.int32)
    y = np.full((8, 32), 9, np.uint32)
    signed = [int(x[j]) for j in named(mask)]
    unsigned = [v % 2**32 for v in signed]
    expected = y.copy()
    results = [sum(signed), min(signed), max(signed), min(unsigned), max(unsigned)]
    results += [reduce(f, unsigned) for f in (int.__and__, int.__or__, int.__xor__)]
    for t in named(mask):
        expected[:, t] = [r % 2**32 for r in results]
    target = device.put(y)
    device.launch(module, "reductions", [pointer(target), pointer(device.put(x)), word(mask)])
    assert np.array_equal(device.get(target, y), expected)


def test_both_sides_of_a_branch(device: Device, module: LoadedModule) -> None:
    """On each side of a branch, lanes exchange values only among themselves.

    The active mask has only the lanes of that side.
    """
    y = np.zeros(32, np.uint32)
    target = device.put(y)
    result = device.launch(module, "halves", [pointer(target)])
    odd = (np.arange(32) ^ 2) * 10 + 16000
    expected = np.where(np.arange(32) % 2, odd, 0x11111111)
    assert np.array_equal(device.get(target, y), expected)
    assert result.findings == ()


def test_lanes_wait_for_each_other(device: Device, module: LoadedModule) -> None:
    """A shuffle waits for the last lane of its mask, and then exchanges all values."""
    y = np.ones(65, np.int32)
    target = device.put(y)
    device.launch(module, "late_lanes", [pointer(target)], block=(64, 1, 1))
    t = np.arange(64) ^ 1
    assert np.array_equal(device.get(target, y)[1:], t * (t + 1) // 2)


def test_syncwarp_at_two_places(device: Device, module: LoadedModule) -> None:
    """Lanes at two different __syncwarp() calls wait for each other.

    Afterwards, each side of the branch sees the writes of the other side.
    """
    y = np.zeros(32, np.int32)
    target = device.put(y)
    result = device.launch(module, "two_places", [pointer(target)])
    assert np.array_equal(device.get(target, y), np.arange(32) ^ 16)
    assert result.findings == ()


@pytest.mark.parametrize("mask", MASKS)
def test_elect(device: Device, module: LoadedModule, mask: int) -> None:
    """elect.sync makes the lowest lane of the mask the leader; all lanes get its number."""
    y = np.full(32, 99, np.uint32)
    target = device.put(y)
    device.launch(module, "elects", [pointer(target), word(mask)])
    lowest = named(mask)[0]
    expected = [2 * lowest + (t == lowest) if mask >> t & 1 else 99 for t in range(32)]
    assert device.get(target, y).tolist() == expected


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("mask", "threads", "message", "count"),
    [
        (FULL, 20, "mask 0xffffffff names lanes that the block does not have", 20),
        (0xFFFFFFFE, 32, "mask 0xfffffffe executed by a lane that is not in its own mask", 1),
    ],
)
def test_masks_that_name_the_wrong_lanes(
    device: Device,
    module: LoadedModule,
    mask: int,
    threads: int,
    message: str,
    count: int,
) -> None:
    """A vote is a synccheck finding with its line if its mask names a lane that does not exist.

    A mask that does not name the lane that executes the vote is also a finding. The existing lanes
    in the mask continue.
    """
    target = device.put(np.zeros(32, np.uint32))
    arguments = [pointer(target), word(mask), int32(0)]
    result = device.launch(module, "named_mask", arguments, block=(threads, 1, 1))
    (finding,) = result.findings
    assert (finding.check, finding.count) == ("synccheck", count)
    assert finding.message == f"vote.sync.ballot.b32: {message}"
    assert finding.thread == (0, 0, 0)
    assert finding.file is not None
    line = Path(finding.file).read_text().split("\n")[(finding.line or 0) - 1]
    assert "line of the ballot" in line
    assert result.fault is None
    here = sum(1 << t for t in range(threads))
    assert device.get(target, np.zeros(32, np.uint32))[0] == here & mask


def test_lanes_that_have_ended_may_be_named(device: Device, module: LoadedModule) -> None:
    """The mask of a vote may name lanes that have ended, without a finding.

    CUDA requires only the running lanes of a mask to take part.
    """
    target = device.put(np.zeros(32, np.uint32))
    arguments = [pointer(target), word(FULL), int32(4)]
    result = device.launch(module, "named_mask", arguments, block=(32, 1, 1))
    assert result.findings == ()
    assert device.get(target, np.zeros(32, np.uint32))[4] == FULL & ~0xF


@pytest.mark.simulator_only
def test_a_lane_that_never_comes(device: Device, module: LoadedModule) -> None:
    """A vote is a finding if a lane of its mask waits at a barrier and so never arrives.

    The other lanes continue without that lane.
    """
    target = device.put(np.zeros(32, np.uint32))
    result = device.launch(module, "never_comes", [pointer(target)])
    finding, divergent = result.findings
    assert divergent.message.startswith("divergent barrier: threads of one warp wait at")
    assert finding.message == (
        "vote.sync.ballot.b32: mask 0xffffffff waits for lanes that never arrive"
    )
    assert finding.count == 31


def test_barriers_that_count(device: Device, module: LoadedModule) -> None:
    """bar.red counts, ands or ors a predicate over the running threads of each block."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 2, (4, 70)).astype(np.int32)
    x[1], x[2] = 0, 5
    y = np.full((3, 4, 70), -1, np.int32)
    target = device.put(y)
    arguments = [pointer(target), pointer(device.put(x))]
    device.launch(module, "counts", arguments, (4, 1, 1), (70, 1, 1))
    here = x[:, :67] != 0
    expected = y.copy()
    expected[0, :, :67] = here.sum(1)[:, None]
    got = device.get(target, y)
    assert np.array_equal(got[0], expected[0])
    assert np.array_equal(got[1, :, :67] != 0, np.repeat(here.all(1), 67).reshape(4, 67))
    assert np.array_equal(got[2, :, :67] != 0, np.repeat(here.any(1), 67).reshape(4, 67))


def test_barriers_between_two_warps(device: Device, module: LoadedModule) -> None:
    """A warp at bar.sync waits in every round for the bar.arrive of another warp."""
    y = np.zeros((6, 32), np.int32)
    target = device.put(y)
    arguments = [pointer(target), int32(6)]
    result = device.launch(module, "producer_consumer", arguments, (1, 1, 1), (64, 1, 1))
    assert np.array_equal(device.get(target, y), np.arange(6)[:, None] * 100 + np.arange(32))
    assert result.findings == ()


def test_barrier_numbers_in_registers(device: Device, module: LoadedModule) -> None:
    """A barrier may take its number and its thread count from registers."""
    y = np.zeros(128, np.int32)
    target = device.put(y)
    device.launch(module, "numbered", [pointer(target), int32(64)], (1, 1, 1), (128, 1, 1))
    assert np.array_equal(device.get(target, y), np.arange(128) ^ 32)


@pytest.mark.simulator_only
def test_a_barrier_that_too_few_threads_reach(device: Device, module: LoadedModule) -> None:
    """A barrier that too few threads reach raises a deadlock error.

    The error has the barrier's number, its line and the waiting threads.
    """
    arguments = [pointer(device.put(np.zeros(128, np.int32))), int32(96)]
    with pytest.raises(BarrierDeadlock, match=r"at barrier 1, .*warps\.cu:\d+ \(threads 0-63\)"):
        device.launch(module, "numbered", arguments, block=(128, 1, 1))


def test_a_cluster_is_one_block(device: Device, module: LoadedModule) -> None:
    """The barriers and addresses of a cluster of one block act as those of the block."""
    y = np.zeros((3, 32), np.uint32)
    target = device.put(y)
    device.launch(module, "cluster_of_one", [pointer(target)], (3, 1, 1))
    expected = (31 - np.arange(32)) ** 2 + 100000 + 1000000 * np.arange(3)[:, None]
    assert np.array_equal(device.get(target, y), expected)


@pytest.mark.simulator_only
def test_clusters_of_more_blocks_are_refused(device: Device, module: LoadedModule) -> None:
    """A kernel that requires clusters of two blocks raises an error naming the directive."""
    with pytest.raises(UnsupportedInstruction, match=r"\.reqnctapercluster 2"):
        device.launch(module, "pair_of_blocks", [pointer(0)])


@pytest.mark.simulator_only
def test_unknown_exchanges_are_named(device: Device) -> None:
    """`redux.sync.mul`, which PTX does not have, raises an error that names it."""
    y: Array = np.zeros(1, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=r"redux\.sync\.mul\.s32"):
        device.evaluate("redux.sync.mul.s32 %d, %a, -1", y, out=y)


@pytest.mark.parametrize("blocks", [1, 3])
def test_warps_that_part_as_wholes(device: Device, ptx: str, blocks: int) -> None:
    """Warps that take different branches exchange values only among their own lanes.

    Several blocks, which may run together, do not change this.
    """
    chunked = device.in_chunks_of(256)
    y = device.put(np.zeros((blocks, 4, 32), np.float32))
    loaded = chunked.machine.load(ptx)
    result = chunked.launch(loaded, "specialised", [pointer(y)], (blocks, 1, 1), (128, 1, 1))
    assert result.findings == ()
    t = np.arange(128, dtype=np.float32).reshape(4, 32)
    expected = np.where(np.arange(4)[:, None] % 2, t.sum(1)[:, None], t.max(1)[:, None])
    got = device.get(y, np.zeros((blocks, 4, 32), np.float32))
    assert np.array_equal(got, np.broadcast_to(expected, (blocks, 4, 32)))


@pytest.mark.simulator_only
def test_sleeping_for_ever_is_a_deadlock(device: Device, module: LoadedModule) -> None:
    """Threads that only sleep in an endless loop raise a deadlock error."""
    y = device.put(np.zeros(1, np.int32))
    with pytest.raises(BarrierDeadlock, match=r"32 threads spinning at .*warps\.cu"):
        device.launch(module, "sleeps_for_ever", [pointer(y)])
