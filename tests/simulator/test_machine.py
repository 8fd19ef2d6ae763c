"""The simulated machine: results, memory, findings and errors of small kernels."""

import mmap
import re
import struct

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule
from harness.simulator.hardware.errors import (
    BarrierDeadlock,
    InvalidLaunch,
    KernelTrap,
    UnsupportedInstruction,
)
from harness.simulator.hardware.fault import Fault
from harness.simulator.ptx.mangling import readable
from tests.simulator.support import Array, Device, int32, int64, pointer

ILLEGAL: Fault = "illegal address"
MISALIGNED: Fault = "misaligned address"


@pytest.fixture
def module(device: Device, kernels: str) -> LoadedModule:
    return device.machine.load(kernels)


def conv_transpose(x: Array, w: Array, stride: int, padding: int, dilation: int) -> Array:
    """Return the 1D transposed convolution of x and w in float64, computed term by term."""
    batch, _, length = x.shape
    _, out, kernel = w.shape
    full: Array = np.zeros((batch, out, (length - 1) * stride + dilation * (kernel - 1) + 1))
    for k in range(kernel):
        term = np.einsum("bil,io->bol", x.astype(np.float64), w[:, :, k].astype(np.float64))
        start = k * dilation
        full[:, :, start : start + (length - 1) * stride + 1 : stride] += term
    return full[:, :, padding : full.shape[2] - padding]


@pytest.mark.parametrize("chunk_lanes", [128, 16384])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 3), (8, 0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_naive_transposed_convolution_is_right(
    device: Device,
    kernels: str,
    dtype: type,
    stride: int,
    padding: int,
    dilation: int,
    chunk_lanes: int,
) -> None:
    """A transposed convolution of small integers is exact, with 32-bit and 64-bit indices.

    The number of threads that the simulator runs together does not change the result.
    """
    rng = np.random.default_rng(1)
    x: Array = rng.integers(-9, 9, (2, 3, 37)).astype(dtype)
    w: Array = rng.integers(-9, 9, (3, 4, 3)).astype(dtype)
    expected = conv_transpose(x, w, stride, padding, dilation)
    y: Array = np.zeros(expected.shape, dtype)
    target = device.machine.memory.allocate(y.nbytes)
    pack = int32 if dtype is np.float32 else int64
    numbers = (2, 3, 4, 37, y.shape[2], 3, stride, padding, dilation)
    arguments = [pointer(device.put(x)), pointer(device.put(w)), pointer(target)]
    arguments += [pack(n) for n in numbers]
    chunked = device.in_chunks_of(chunk_lanes)
    kernel = "conv_transposeIf" if dtype is np.float32 else "conv_transposeId"
    result = chunked.launch(
        chunked.machine.load(kernels), kernel, arguments, (-(-y.size // 64), 1, 1), (64, 1, 1)
    )
    assert result.findings == ()
    assert np.array_equal(device.get(target, y), expected)


def test_threads_that_part_meet_again(device: Device, module: LoadedModule) -> None:
    """Threads of a warp whose loops have different lengths each get their own result."""
    expected = []
    for start in range(1, 301):
        value, count = start, 0
        while value != 1:
            value, count = (3 * value + 1 if value % 2 else value // 2), count + 1
        expected.append(count)
    steps = device.put(np.zeros(300, np.int32))
    device.launch(module, "collatz", [pointer(steps), int32(300)], (3, 1, 1), (128, 1, 1))
    assert device.get(steps, np.zeros(300, np.int32)).tolist() == expected


def test_block_and_thread_numbers(device: Device, module: LoadedModule) -> None:
    """`blockIdx` and `threadIdx` of three-dimensional grids and blocks count along x first."""
    y = np.zeros((4, 3, 2, 2, 3, 5), np.int32)  # block z, y, x, thread z, y, x
    target = device.put(y)
    device.launch(module, "where", [pointer(target)], (2, 3, 4), (5, 3, 2))
    bz, by, bx, tz, ty, tx = np.indices(y.shape)
    expected = bx + 10 * by + 100 * bz + 1000 * tx + 10000 * ty + 100000 * tz
    assert np.array_equal(device.get(target, y), expected)


def test_shared_memory_and_barriers(device: Device, module: LoadedModule) -> None:
    """Each block has its own static and dynamic shared memory; barriers order its accesses."""
    y = np.arange(48 * 5, dtype=np.int32)
    target = device.put(y)
    result = device.launch(module, "reverse", [pointer(target)], (5, 1, 1), (48, 1, 1), 48 * 4)
    blocks = y.reshape(5, 48)[:, ::-1] + 1000 * np.arange(5)[:, None]
    assert np.array_equal(device.get(target, y).reshape(5, 48), blocks)
    assert result.findings == ()


def test_barrier_does_not_wait_for_threads_that_have_ended(
    device: Device, module: LoadedModule
) -> None:
    """A barrier waits only for those threads of the block that have not ended."""
    y = np.zeros(8, np.int32)
    target = device.put(y)
    device.launch(module, "early_exit", [pointer(target)], (1, 1, 1), (8, 1, 1))
    assert device.get(target, y).tolist() == [42] * 5 + [0] * 3


def test_variables_of_the_module(device: Device, module: LoadedModule) -> None:
    """Constant and global variables start with their initial values.

    An initial value may be a pointer to another variable. Atomics on a global variable work.
    """
    target = device.put(np.zeros(32, np.float32))
    device.launch(module, "globals", [pointer(target)], (1, 1, 1), (32, 1, 1))
    table = np.array([1.5, 2.5, 3.5, 4.5], np.float32)
    thread = np.arange(32)
    expected = table[thread & 3] + table[1 + (thread & 1)]
    assert np.array_equal(device.get(target, np.zeros(32, np.float32)), expected)
    counter = device.get(module.address_of("counter"), np.zeros(1, np.int32))
    assert counter[0] == 5 + 2 * 32
    assert module.address_of("nothing of that name") == 0


def test_device_functions(device: Device, module: LoadedModule) -> None:
    """Device functions take numbers, structures by value, and pointers to local variables."""
    target = device.put(np.zeros(32, np.float32))
    pair = struct.pack("<i3fd", 1, 10, 20, 30, 0.5)
    result = device.launch(module, "calls", [pointer(target), pair])
    thread = np.arange(32)
    expected = thread * np.where((thread + 1) & 1, 20, 10) + 0.5 + thread + 1
    assert np.array_equal(device.get(target, np.zeros(32, np.float32)), expected)
    assert result.findings == ()


def test_vector_accesses(device: Device, module: LoadedModule) -> None:
    """A float4 is loaded and stored with its elements in order."""
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    target = device.put(np.zeros_like(x))
    device.launch(module, "vectors", [pointer(target), pointer(device.put(x))])
    assert np.array_equal(device.get(target, x), x[:, ::-1])


def test_local_arrays(device: Device, module: LoadedModule) -> None:
    """Every thread has its own copy of an array in local memory."""
    target = device.put(np.zeros(32, np.int32))
    device.launch(module, "local_array", [pointer(target), int32(3)])
    thread = np.arange(32)
    expected = ((thread + 3) & 7) ** 2 + thread
    assert np.array_equal(device.get(target, np.zeros(32, np.int32)), expected)


@pytest.mark.simulator_only
def test_store_past_the_end_is_found_where_it_is_made(device: Device, module: LoadedModule) -> None:
    """A store past an allocation's end is a finding with the kernel, source line and thread.

    Its message says how far past the end the store reaches. The store has no effect.
    """
    target = device.machine.memory.allocate(16)
    result = device.launch(module, "one_past", [pointer(target), int32(4)])
    (finding,) = result.findings
    assert finding.message == "4-byte store 4 bytes past the end of a 16-byte allocation"
    assert (finding.check, finding.kernel, finding.count) == ("memcheck", "one_past_the_end", 1)
    assert (finding.block, finding.thread) == ((0, 0, 0), (4, 0, 0))
    assert finding.address == target + 16
    assert finding.file is not None
    with open(finding.file) as source:  # noqa: PTH123
        assert "line of the store" in source.read().split("\n")[(finding.line or 0) - 1]
    assert result.fault is None
    assert device.get(target, np.zeros(4, np.float32)).tolist() == [0, 1, 2, 3]


@pytest.mark.simulator_only
def test_reading_what_nothing_wrote(device: Device, module: LoadedModule) -> None:
    """Loads of unwritten memory are one initcheck finding per line, and return NaN (poison)."""
    source = device.machine.memory.allocate(128)
    target = device.put(np.zeros(32, np.float32))
    result = device.launch(module, "copies", [pointer(target), pointer(source)])
    (finding,) = result.findings
    assert finding.check == "initcheck"
    assert finding.count == 32
    assert result.fault is None
    assert np.isnan(device.get(target, np.zeros(32, np.float32))).all()


@pytest.mark.simulator_only
def test_reading_what_was_discarded(device: Device) -> None:
    """Memory that `discard.global.L2` has dropped counts as unwritten until a kernel stores to it.

    Each thread discards a line, and stores to its first word. The rest is poison.
    """
    lines = device.put(np.zeros((32, 32), np.float32))
    sums = device.put(np.zeros(32, np.float32))
    ptx = """.version 9.0
    .target sm_90
    .address_size 64
    .visible .entry drop(.param .u64 lines, .param .u64 sums)
    {
        .reg .b32 %t; .reg .b64 %l, %s, %o; .reg .f32 %f;
        ld.param.u64 %l, [lines]; ld.param.u64 %s, [sums];
        mov.u32 %t, %tid.x;
        mul.wide.u32 %o, %t, 128; add.s64 %l, %l, %o;
        mul.wide.u32 %o, %t, 4; add.s64 %s, %s, %o;
        discard.global.L2 [%l], 128;
        st.global.f32 [%l], 0f3F800000;
        ld.global.f32 %f, [%l];
        ld.global.f32 %f, [%l + 4];
        st.global.f32 [%s], %f;
        ret;
    }
    """
    result = device.run(ptx, [pointer(lines), pointer(sums)])
    (finding,) = result.findings
    assert (finding.check, finding.count) == ("initcheck", 32)
    assert np.isnan(device.get(sums, np.zeros(32, np.float32))).all()
    kept = device.get(lines, np.zeros((32, 32), np.float32))
    assert (kept[:, 0] == 1).all()
    assert np.isnan(kept[:, 1:]).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("store", ["", "st.global.f32 [%l], 0f3F800000;"])
def test_line_that_two_warps_discard(device: Device, store: str) -> None:
    """Two warps may discard one line; a store to it that is not ordered with that is a race."""
    line = device.put(np.zeros(32, np.float32))
    ptx = f""".version 9.0
    .target sm_90
    .address_size 64
    .visible .entry drop(.param .u64 line)
    {{
        .reg .b64 %l;
        ld.param.u64 %l, [line]; discard.global.L2 [%l], 128; {store} ret;
    }}
    """
    found = device.run(ptx, [pointer(line)], block=(64, 1, 1)).findings
    assert ("error" in [each.severity for each in found]) is bool(store)
    assert bool(found) is bool(store)


def test_what_is_copied_is_written(device: Device, module: LoadedModule) -> None:
    """Memory that one kernel has stored to counts as initialised in the next kernel."""
    first = device.put(np.arange(32, dtype=np.float32))
    second, third = (device.machine.memory.allocate(128) for _ in range(2))
    for source, target in ((first, second), (second, third)):
        result = device.launch(module, "copies", [pointer(target), pointer(source)])
        assert result.findings == ()


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("address", "message", "fault"),
    [
        ("freed", "4-byte load at byte 0 of a 128-byte allocation that has been freed", None),
        ("before", "4-byte load 32 bytes before the start of a 128-byte allocation", None),
        ("null", "4-byte load through a null pointer: 0x0", ILLEGAL),
        (
            "host",
            "4-byte load through an address that is not device memory: 0x7000000000000",
            ILLEGAL,
        ),
        ("far", "4-byte load 4194180 bytes past the end of a 128-byte allocation", ILLEGAL),
        ("odd", "misaligned 4-byte load: address 0x{odd:x} is not a multiple of 4", MISALIGNED),
    ],
)
def test_messages_of_wrong_loads(
    device: Device, module: LoadedModule, address: str, message: str, fault: Fault | None
) -> None:
    """Each kind of invalid address has its own message.

    The launch also has a fault (CUDA's error) if a GPU would stop at such a load.
    """
    good = device.put(np.zeros(32, np.float32))
    freed = device.put(np.zeros(32, np.float32))
    device.machine.memory.free(freed)
    bad = {"freed": freed, "before": good - 32, "null": 0, "host": 7 << 48, "odd": good + 1}
    target = device.put(np.zeros(32, np.float32))
    bad["far"] = target + (4 << 20)
    result = device.launch(module, "copies", [pointer(target), pointer(bad[address])])
    assert result.findings[0].message == message.format(odd=good + 1)
    assert result.fault == fault


@pytest.mark.simulator_only
def test_host_pointer_is_called_one(device: Device, module: LoadedModule) -> None:
    """A load from an address of this process's host memory is reported as a host pointer.

    The usual cause is a tensor that was not copied to the device.
    """
    # The heap of a Python that is not position-independent lies below the addresses that look like
    # host pointers, so the test maps a page instead.
    host = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.float32)
    target = device.put(np.zeros(32, np.float32))
    result = device.launch(module, "copies", [pointer(target), pointer(host.ctypes.data)])
    expected = f"4-byte load through a host pointer: 0x{host.ctypes.data:x}"
    assert result.findings[0].message == expected


@pytest.mark.simulator_only
def test_trap_stops_the_kernel(device: Device, module: LoadedModule) -> None:
    """A trap stops the kernel with an error that names the thread."""
    with pytest.raises(KernelTrap) as caught:
        device.launch(module, "traps", [int32(7)])
    assert caught.value.thread == (7, 0, 0)
    device.launch(module, "traps", [int32(99)])


@pytest.mark.simulator_only
def test_instructions_are_counted(device: Device) -> None:
    """`thread_instructions` counts a predicated instruction only for threads that execute it."""
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry test()
    {
        .reg .pred %p; .reg .b32 %r;
        mov.u32 %r, %tid.x;
        setp.lt.u32 %p, %r, 3;
        @%p add.s32 %r, %r, 1;
        @%p bra END;
        add.s32 %r, %r, 2;
    END:
        ret;
    }"""
    result = device.run(ptx, [], grid=(2, 1, 1), block=(10, 1, 1))
    assert result.thread_instructions == 2 * (10 * 4 + 3 + 7)


@pytest.mark.simulator_only
def test_barriers_that_can_never_complete(device: Device) -> None:
    """Threads of one block that wait at different barriers raise a deadlock error."""
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry test()
    {
        .reg .pred %p; .reg .b32 %r;
        mov.u32 %r, %tid.x;
        setp.lt.u32 %p, %r, 3;
        @%p bra OTHER;
        bar.sync 1;
        ret;
    OTHER:
        bar.sync 2;
        ret;
    }"""
    message = "7 threads at barrier 1 (threads 3-9); 3 threads at barrier 2 (threads 0-2)"
    with pytest.raises(BarrierDeadlock, match=re.escape(message)):
        device.run(ptx, [], block=(10, 1, 1))


@pytest.mark.parametrize("shift", [0, 1])
def test_registers_of_waiting_threads_are_kept(device: Device, shift: int) -> None:
    """A register that is equal in all threads keeps its value in threads that do not write it."""
    ptx = f"""
    .version 9.0
    .target sm_90
    .visible .entry test(.param .u64 out)
    {{
        .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, 5;
        setp.lt.u32 %p, %r1, 3;
        @{"!" if shift else ""}%p bra END;
        mov.u32 %r2, 6;
    END:
        ld.param.u64 %rd1, [out];
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r2;
        ret;
    }}"""
    target = device.put(np.zeros(6, np.uint32))
    device.run(ptx, [pointer(target)], block=(6, 1, 1))
    expected = [6, 6, 6, 5, 5, 5] if shift else [5, 5, 5, 6, 6, 6]
    assert device.get(target, np.zeros(6, np.uint32)).tolist() == expected


@pytest.mark.simulator_only
def test_missing_instruction_is_named(device: Device) -> None:
    """A kernel with an unsupported instruction is not started.

    The error has the instruction's text and its source line.
    """
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry _Z4testv()
    {
        .loc 1 12 3
        tensormap.frobnicate.b32 %r1, 5;
        ret;
    }
    .file 1 "somewhere.cu"
    """
    with pytest.raises(UnsupportedInstruction) as caught:
        device.run(ptx, [])
    error = caught.value
    assert error.instruction == "tensormap.frobnicate.b32 %r1, 5"
    assert (error.kernel, error.file, error.line) == ("test", "somewhere.cu", 12)


@pytest.mark.simulator_only
def test_other_kernels_of_the_module_still_run(device: Device, module: LoadedModule) -> None:
    """If one kernel has an unsupported instruction, other kernels of its module still run."""
    with pytest.raises(UnsupportedInstruction, match=r"malloc.*allocates.*kernels\.cu"):
        device.launch(module, "allocates", [pointer(0)])
    device.launch(module, "traps", [int32(99)])


@pytest.mark.simulator_only
def test_impossible_launches_are_refused(device: Device, module: LoadedModule) -> None:
    """Launches with over 1024 threads a block, an empty grid or wrong arguments raise an error."""
    with pytest.raises(InvalidLaunch):
        device.launch(module, "traps", [int32(1)], block=(1025, 1, 1))
    with pytest.raises(InvalidLaunch):
        device.launch(module, "traps", [int32(1)], grid=(0, 1, 1))
    with pytest.raises(InvalidLaunch, match="takes 1 arguments, not 2"):
        device.launch(module, "traps", [int32(1), int32(2)])
    with pytest.raises(InvalidLaunch, match="has 4 bytes, not 8"):
        device.launch(module, "traps", [int64(1)])


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z7naive32IfEvPKT_", "naive32"),
        ("_ZN12_GLOBAL__N_14convEPf", "conv"),
        ("_ZN2at6native6kernelEv", "at::native::kernel"),
        ("plain", "plain"),
    ],
)
def test_readable_names(mangled: str, name: str) -> None:
    """`readable` turns the mangled name of a kernel into the name in the source."""
    assert readable(mangled) == name


@pytest.mark.simulator_only
def test_vector_load_across_the_end(device: Device, module: LoadedModule) -> None:
    """A vector load that begins inside an allocation and ends outside is a finding."""
    x = device.put(np.zeros(6, np.float32))
    target = device.put(np.zeros(8, np.float32))
    result = device.launch(module, "vectors", [pointer(target), pointer(x)], block=(2, 1, 1))
    (finding,) = result.findings
    assert finding.message == "16-byte load 8 bytes past the end of a 24-byte allocation"
    assert finding.thread == (1, 0, 0)


SHARED = """
.version 9.0
.target sm_90
.visible .entry test(.param .u32 at)
{
    .shared .align 4 .b8 room[128];
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [at];
    ld.shared.u32 %r2, [%r1];
    st.shared.u32 [%r1], %r2;
    ret;
}"""


@pytest.mark.simulator_only
@pytest.mark.parametrize("chunk_lanes", [32, 16384])
def test_shared_memory_starts_unwritten_in_every_block(device: Device, chunk_lanes: int) -> None:
    """Shared memory is uninitialised in every block, even if an earlier block wrote to it."""
    chunked = device.in_chunks_of(chunk_lanes)
    result = chunked.run(SHARED, [int32(4)], grid=(3, 1, 1), block=(32, 1, 1))
    (finding,) = (f for f in result.findings if f.severity == "error")
    assert finding.message == "4-byte load of shared memory that nothing wrote: byte 4"
    assert finding.count == 3 * 32


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("at", "access"),
    [
        (128, "4 bytes past the end of 128 bytes of shared memory"),
        (-4, "4 bytes before the start of shared memory"),
    ],
)
def test_shared_memory_has_bounds(device: Device, at: int, access: str) -> None:
    """Accesses before or past the end of a block's shared memory are findings."""
    result = device.run(SHARED, [int32(at)], block=(1, 1, 1))
    assert [f.message for f in result.findings] == [
        f"4-byte load {access}",
        f"4-byte store {access}",
    ]


@pytest.mark.simulator_only
def test_a_deadlock_is_that_of_one_block(device: Device) -> None:
    """If one block deadlocks, the other blocks run to the end, and the error names the block."""
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry test()
    {
        .reg .pred %p; .reg .b32 %r<3>;
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        add.s32 %r1, %r1, %r2;
        setp.gt.u32 %p, %r1, 9;
        @%p bra OTHER;
        bar.sync 1;
        ret;
    OTHER:
        bar.sync 2;
        ret;
    }"""
    device.run(ptx, [], block=(10, 1, 1))
    with pytest.raises(BarrierDeadlock) as caught:
        device.run(ptx, [], grid=(2, 1, 1), block=(10, 1, 1))
    assert caught.value.block == (1, 0, 0)
    assert caught.value.waiting == ((1, 9), (2, 1))


def test_breakpoint_stops_the_kernel(device: Device) -> None:
    """A breakpoint ends the kernel like a trap, as on a GPU without a debugger."""
    ptx = """
    .version 9.0
    .target sm_90
    .visible .entry test() { brkpt; ret; }"""
    with pytest.raises(KernelTrap, match="brkpt in block"):
        device.run(ptx, [])
