"""Counters of a launch: instructions, memory accesses and matrix operations."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.counters.classes import (
    classify,
    floating_point_operations,
    matrix_operations,
)
from harness.simulator.counters.counters import AccessCounts, KernelCounters, merged
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.memory import Memory
from harness.simulator.hardware.resources import Occupancy, occupancy, parse_usage
from harness.simulator.ptx.ptx import Instruction
from tests.simulator.support import Device, int32, pointer

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("counted.cu")


@pytest.fixture(scope="session")
def counted_ptx(compile_ptx: Callable[..., str]) -> str:
    return compile_ptx(SOURCE, architecture="90a")


@pytest.fixture
def device(memory: Memory) -> Device:
    return Device(Machine(memory, counters=True))


@pytest.fixture
def module(device: Device, counted_ptx: str) -> LoadedModule:
    return device.machine.load(counted_ptx)


def access(counters: KernelCounters, kind: str, space: str) -> AccessCounts:
    """Return the counts for one kind of access in one state space; there must be exactly one."""
    (found,) = (a for a in counters.accesses if (a.kind, a.space) == (kind, space))
    return found


def launch(
    device: Device, module: LoadedModule, kernel: str, *arguments: bytes, **shape: object
) -> KernelCounters:
    """Launch a kernel, check that there are no findings, and return the launch's counters."""
    result = device.launch(module, kernel, arguments, **shape)  # type: ignore[arg-type]
    assert result.findings == ()
    assert result.counters is not None
    assert sum(result.counters.thread_instructions.values()) == result.thread_instructions
    return result.counters


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (32, 32), (0, 1)])
def test_sectors_per_request(
    device: Device, module: LoadedModule, stride: int, sectors: int
) -> None:
    """Loads with several strides count the 32-byte sectors that the words of a warp lie in.

    If all threads of a warp load one word, the load counts one sector.
    """
    x = device.put(np.zeros(128 * max(stride, 1), np.float32))
    y = device.put(np.zeros(128, np.float32))
    counters = launch(
        device,
        module,
        "strided",
        pointer(x),
        pointer(y),
        int32(stride),
        grid=(2, 1, 1),
        block=(64, 1, 1),
    )
    load = access(counters, "load", "global")
    assert (load.requests, load.threads, load.nbytes) == (4, 128, 512)
    assert (load.sectors, load.ideal_sectors) == (4 * sectors, 16)
    assert load.stride == 4 * stride
    assert access(counters, "store", "global").sectors == 16


def test_float4(device: Device, module: LoadedModule) -> None:
    """A warp's float4 load is one request of 512 bytes in 16 sectors."""
    x, y = (device.put(np.zeros(128, np.float32)) for _ in range(2))
    counters = launch(device, module, "copy_quads", pointer(x), pointer(y))
    load = access(counters, "load", "global")
    assert (load.requests, load.nbytes, load.sectors, load.ideal_sectors) == (1, 512, 16, 16)
    assert load.stride == 16


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(1, 1), (2, 2), (3, 1), (4, 4), (32, 32), (0, 1)]
)
def test_bank_conflicts(device: Device, module: LoadedModule, stride: int, wavefronts: int) -> None:
    """A warp's shared memory access takes as many wavefronts as its busiest bank has words.

    Threads that access the same word count once.
    """
    y = device.put(np.zeros(32, np.int32))
    arguments = [pointer(y), int32(stride)]
    result = device.launch(module, "shared_stride", arguments, dynamic_shared_bytes=4096)
    assert result.counters is not None
    for kind in ("load", "store"):
        counts = access(result.counters, kind, "shared")
        assert (counts.requests, counts.wavefronts, counts.ideal_wavefronts) == (1, wavefronts, 1)


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 4), (2, 8)])
def test_bank_conflicts_of_float4(
    device: Device, module: LoadedModule, stride: int, wavefronts: int
) -> None:
    """A warp's access of 16 bytes a thread takes at least four wavefronts.

    The reason is that each quarter of the warp already accesses all 32 banks.
    """
    y = device.put(np.zeros(128, np.float32))
    counters = launch(
        device, module, "shared_vectors", pointer(y), int32(stride), dynamic_shared_bytes=1024
    )
    store = access(counters, "store", "shared")
    assert (store.requests, store.wavefronts, store.ideal_wavefronts) == (1, wavefronts, 4)


def test_instructions_and_operations(device: Device, module: LoadedModule) -> None:
    """Instructions are counted by class, per thread and per warp.

    A fused multiply-add counts as two operations.
    """
    y, z = device.put(np.ones(48, np.float32)), device.put(np.ones(48, np.float64))
    arguments = [pointer(y), pointer(z), np.float32(2).tobytes(), np.float64(3).tobytes()]
    counters = launch(device, module, "arithmetic", *arguments, block=(48, 1, 1))
    assert counters.operations == {"f32": 48 * 4, "f64": 48 * 2}
    assert counters.thread_instructions["float32"] == 48 * 3
    assert counters.warp_instructions["float32"] == 2 * 3
    assert counters.thread_instructions["float64"] == 48
    assert counters.thread_instructions["load global"] == 48 * 2
    assert counters.thread_instructions["store global"] == 48 * 2
    assert counters.lanes_per_instruction == 24


def at_line(counters: KernelCounters, text: str) -> AccessCounts:
    """Return the counts for the line of counted.cu that ends in the comment `// text`."""
    (line,) = (
        n for n, code in enumerate(SOURCE.read_text().split("\n"), 1) if code.endswith(f"// {text}")
    )
    (found,) = (a for a in counters.accesses if a.line == line)
    return found


@pytest.mark.parametrize(("pitch", "wavefronts"), [(16, 4), (32, 8), (80, 4), (128, 32)])
def test_ldmatrix(device: Device, module: LoadedModule, pitch: int, wavefronts: int) -> None:
    """`ldmatrix` takes one wavefront for eight rows of 16 bytes in different banks, else more."""
    y = device.put(np.zeros(32, np.uint32))
    arguments = pointer(y), int32(pitch)
    counters = launch(device, module, "load_matrices", *arguments, dynamic_shared_bytes=32 * pitch)
    (loads,) = (a for a in counters.accesses if (a.kind, a.space) == ("load", "shared"))
    assert (loads.requests, loads.threads, loads.nbytes) == (1, 32, 512)
    assert (loads.wavefronts, loads.ideal_wavefronts) == (wavefronts, 4)
    assert counters.warp_instructions["load shared"] == 1


@pytest.mark.parametrize(("stride", "sectors"), [(1, 16), (2, 32)])
def test_cp_async(device: Device, module: LoadedModule, stride: int, sectors: int) -> None:
    """A warp's cp.async counts as one request to global memory and one to shared memory."""
    x, y = (device.put(np.zeros(256, np.float32)) for _ in range(2))
    arguments = pointer(x), pointer(y), int32(stride)
    counters = launch(device, module, "copy_async", *arguments, dynamic_shared_bytes=512)
    source = access(counters, "asynchronous copy", "global")
    assert (source.requests, source.nbytes, source.stride) == (1, 512, 16 * stride)
    assert (source.sectors, source.ideal_sectors) == (sectors, 16)
    target = access(counters, "asynchronous copy", "shared")
    assert (target.requests, target.nbytes, target.wavefronts) == (1, 512, 4)
    assert counters.warp_instructions["copy"] == 2


def test_bulk_copies(device: Device, module: LoadedModule) -> None:
    """A bulk copy counts one request for every 128 bytes, rounded up, and no wavefronts."""
    x, y = (device.put(np.zeros(260, np.float32)) for _ in range(2))
    counters = launch(
        device, module, "copy_bulk", pointer(x), pointer(y), dynamic_shared_bytes=1040
    )
    found = [a for a in counters.accesses if a.kind == "asynchronous copy"]
    assert sorted(a.space for a in found) == ["global", "global", "shared", "shared"]
    for one in found:
        assert (one.threads, one.nbytes, one.requests) == (1, 1040, 9)
        in_global = one.space == "global"
        assert (one.sectors, one.ideal_sectors) == ((33, 33) if in_global else (0, 0))
        assert one.wavefronts == 0


@pytest.mark.parametrize(
    ("kernel", "requests", "nbytes"), [("wmma_rows", 4, 8), ("wmma_columns", 8, 4)]
)
def test_wmma(
    device: Device, module: LoadedModule, kernel: str, requests: int, nbytes: int
) -> None:
    """`wmma` loads and stores are counted as ptxas compiles them.

    A load from shared memory counts as one ldmatrix. A load from global memory counts as loads of
    words. In a row-major store of the sums, each thread stores pairs; in a column-major store, it
    stores single numbers.
    """
    x = device.put(np.zeros(256, np.float16))
    y = device.put(np.zeros(256, np.float32))
    counters = launch(device, module, kernel, pointer(x), pointer(y), dynamic_shared_bytes=512)
    a, b = at_line(counters, "from shared memory"), at_line(counters, "from global memory")
    assert (a.requests, a.nbytes, a.wavefronts, a.ideal_wavefronts) == (1, 512, 8, 4)
    assert (b.requests, b.nbytes, b.sectors, b.ideal_sectors) == (4, 512, 32, 16)
    sums = at_line(counters, "sums")
    assert (sums.kind, sums.requests, sums.nbytes) == ("store", requests, 1024)
    assert sums.threads == 1024 // nbytes
    assert sums.sectors == 32
    assert counters.matrix_operations == {"f16": 2 * 16**3}


def test_wgmma(device: Device, module: LoadedModule) -> None:
    """`wgmma` reads both matrices once from shared memory, and its operations count as bf16."""
    y = device.put(np.zeros(128, np.float32))
    counters = launch(
        device, module, "warpgroup", pointer(y), block=(128, 1, 1), dynamic_shared_bytes=2560
    )
    read = access(counters, "wgmma", "shared")
    assert (read.nbytes, read.wavefronts) == ((64 + 16) * 16 * 2, 0)
    assert counters.matrix_operations == {"bf16": 2 * 64 * 16 * 16}
    assert counters.flop == 2 * 64 * 16 * 16 + counters.operations["f32"]


def test_divergent_branches(device: Device, module: LoadedModule) -> None:
    """A branch counts as divergent for each warp whose threads take different paths.

    Idle lanes lower the average number of active lanes per instruction.
    """
    y = device.put(np.zeros(128, np.int32))
    counters = launch(device, module, "divergent", pointer(y), int32(8), block=(64, 1, 1))
    divergent = [b for b in counters.branches if b.divergent]
    assert [(b.executed, b.divergent) for b in divergent] == [(2, 2)]
    lines = SOURCE.read_text().split("\n")
    assert "// part" in lines[(divergent[0].line or 0) - 1]
    assert counters.lanes_per_instruction < 16
    together = launch(device, module, "divergent", pointer(y), int32(32), block=(64, 1, 1))
    assert together.lanes_per_instruction == 32
    assert not any(b.divergent for b in together.branches)


@pytest.mark.parametrize("chunk_lanes", [64, 16384])
@pytest.mark.parametrize("schedule", [0, 3])
def test_counts_are_repeatable(
    device: Device, counted_ptx: str, chunk_lanes: int, schedule: int
) -> None:
    """Counts do not depend on the order of blocks, on earlier launches, or on chunks.

    A chunk is a group of blocks that the simulator runs together.
    """
    machine = Machine(
        device.machine.memory, counters=True, chunk_lanes=chunk_lanes, schedule=schedule
    )
    module = machine.load(counted_ptx)
    x = device.put(np.zeros(256, np.float32))
    y = device.put(np.zeros(128, np.float32))
    arguments = (pointer(x), pointer(y), int32(2))
    first, second = (
        launch(Device(machine), module, "strided", *arguments, grid=(2, 1, 1), block=(64, 1, 1))
        for _ in range(2)
    )
    assert first == second
    assert access(first, "load", "global").sectors == 32


def test_launches_are_summed(device: Device, module: LoadedModule) -> None:
    """`merged` adds up every count of two launches."""
    x, y = (device.put(np.zeros(128, np.float32)) for _ in range(2))
    one = launch(device, module, "copy_quads", pointer(x), pointer(y))
    both = merged(one, one)
    assert both.launches == 2
    assert access(both, "load", "global").sectors == 32
    assert both.warp_instructions == {n: 2 * c for n, c in one.warp_instructions.items()}


def test_nothing_is_counted_unless_asked(memory: Memory, counted_ptx: str) -> None:
    """A machine without the `counters` option counts nothing."""
    device = Device(Machine(memory))
    x, y = (device.put(np.zeros(128, np.float32)) for _ in range(2))
    module = device.machine.load(counted_ptx)
    assert device.launch(module, "copy_quads", [pointer(x), pointer(y)]).counters is None


def instruction(name: str) -> Instruction:
    """Return a PTX instruction with the given opcode and modifiers, and without operands."""
    opcode, *modifiers = name.split(".")
    return Instruction(opcode, tuple(modifiers), (), None, None, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add.s32", "integer"),
        ("setp.lt.f32", "float32"),
        ("fma.rn.f64", "float64"),
        ("fma.rn.bf16x2", "half"),
        ("cvt.rn.f32.s32", "conversion"),
        ("bra.uni", "control"),
        ("ld.shared::cta.v4.f32", "load shared"),
        ("st.u8", "store generic"),
        ("red.global.add.u32", "atomic global"),
        ("bar.sync", "barrier"),
        ("div.rn.f32", "special"),
        ("div.s32", "integer"),
        ("shfl.sync.down.b32", "other"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "matrix"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", "load shared"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "load shared"),
        ("cp.async.cg.shared.global", "copy"),
        ("cp.async.bulk.commit_group", "copy"),
    ],
)
def test_classes(name: str, expected: str) -> None:
    """Each PTX instruction is counted in exactly one class, such as `integer` or `load shared`."""
    assert classify(instruction(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fma.rn.f32", ("f32", 2)),
        ("add.rn.bf16x2", ("bf16", 2)),
        ("div.rn.f32", ("f32", 0)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ("f32", 0)),
    ],
)
def test_floating_point_operations(name: str, expected: tuple[str, int]) -> None:
    """A fused multiply-add counts as two operations, and an instruction on pairs counts double.

    Divisions and matrix instructions do not count as floating-point operations.
    """
    assert floating_point_operations(instruction(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fma.rn.f32", ("", 0)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ("tf32", 2 * 16 * 8 * 8 // 32)),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", ("s8", 256)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("f16", 2 * 16 * 16 * 16 // 32)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32", ("bf16", 256)),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", ("", 0)),
        ("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", ("tf32", 2 * 64 * 64 * 8 // 128)),
        ("wgmma.commit_group.sync.aligned", ("", 0)),
    ],
)
def test_matrix_operations(name: str, expected: tuple[str, int]) -> None:
    """A matrix instruction's operations count under the type of its factors.

    The operations are divided among the threads that execute the instruction.
    """
    assert matrix_operations(instruction(name)) == expected


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "architecture", "expected"),
    [
        (32, 0, 1024, "90", Occupancy(2, 64, 1.0, "warps")),
        (33, 0, 1024, "90", Occupancy(1, 32, 0.5, "registers")),
        (255, 0, 64, "80", Occupancy(4, 8, 0.125, "registers")),
        (16, 0, 32, "90", Occupancy(32, 32, 0.5, "blocks")),
        (16, 100 << 10, 256, "80", Occupancy(1, 8, 0.125, "shared memory")),
    ],
)
def test_occupancy(
    registers: int, shared: int, threads: int, architecture: str, expected: Occupancy
) -> None:
    """Occupancy is limited by the scarcest of warps, blocks, registers and shared memory."""
    assert occupancy(registers, shared, threads, architecture) == expected


def test_ptxas_output() -> None:
    """Registers, spills, stack and shared memory of each kernel are parsed from ptxas output."""
    output = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'
ptxas info    : Function properties for _Z1kv
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compiling entry function '_Z1lv' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 7 registers
"""
    usage = parse_usage(output)
    first, second = usage["_Z1kv"], usage["_Z1lv"]
    assert (first.registers, first.shared_bytes, first.stack_bytes) == (10, 256, 8)
    assert (first.spill_store_bytes, first.spill_load_bytes) == (16, 24)
    assert (second.registers, second.shared_bytes) == (7, 0)
