"""Device functions: calls, recursion, function pointers, printf and assert."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.device.executor import Assembler
from harness.device.record import Record
from harness.device.simulated import SimulatedDevice
from harness.simulator.execution import machine
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.errors import KernelTrap, StackOverflow, UnsupportedCall
from harness.simulator.hardware.limits import LaunchRequest
from harness.simulator.hardware.memory import Memory
from harness.simulator.lowering import prepare
from harness.simulator.lowering.program import Program
from harness.simulator.ptx.ptx import Module
from tests.simulator.support import Device, int32, pointer


@pytest.fixture(scope="module")
def ptx(compile_ptx: Callable[[Path], str]) -> str:
    return compile_ptx(Path(__file__).with_name("functions.cu"))


@pytest.fixture
def module(device: Device, ptx: str) -> LoadedModule:
    return device.machine.load(ptx)


def test_recursion(device: Device, module: LoadedModule) -> None:
    """Threads recurse to different depths; each call keeps its local variables and registers."""
    nodes = np.array(
        [[5, 1, 2], [7, 3, 4], [11, 5, -1], [13, -1, -1], [17, -1, 6], [19, -1, -1], [23, -1, -1]],
        np.int32,
    )
    y, parity = device.put(np.zeros(20, np.int64)), device.put(np.zeros(20, np.int32))
    sums = device.put(np.zeros(20, np.int32))
    arguments = [pointer(y), pointer(parity), pointer(sums), pointer(device.put(nodes))]
    result = device.launch(module, "recursion", arguments, block=(20, 1, 1))
    assert result.findings == ()

    def total(at: int) -> tuple[int, int]:
        if at < 0:
            return 0, 0
        value, left, right = (int(v) for v in nodes[at])
        sides = total(left), total(right)
        return value + sides[0][0] + sides[1][0], 1 + sides[0][1] + sides[1][1]

    expected = [math.factorial(t) if t % 3 else -1 for t in range(20)]
    assert device.get(y, np.zeros(20, np.int64)).tolist() == expected
    assert device.get(parity, np.zeros(20, np.int32)).tolist() == [2, 1] * 10
    trees = [total(t % 7) for t in range(20)]
    assert device.get(sums, np.zeros(20, np.int32)).tolist() == [s * 100 + n for s, n in trees]


@pytest.mark.simulator_only
def test_endless_recursion(device: Device, module: LoadedModule) -> None:
    """Endless recursion stops the kernel with an error when the stack is full."""
    own_child = np.array([[1, 0, -1]], np.int32)
    arguments = [pointer(device.put(a)) for a in (np.zeros(1, np.int32), own_child)]
    with pytest.raises(StackOverflow, match="needs more than the stack's 1024 bytes"):
        device.launch(module, "endless", arguments)


@pytest.mark.parametrize("fixed", [0, 1, 2])
def test_function_pointers(device: Device, module: LoadedModule, fixed: int) -> None:
    """Threads of one warp may call different functions through a table of pointers."""
    x = np.arange(32, dtype=np.float32)
    y = device.put(x)
    device.launch(module, "pointers", [pointer(y), int32(fixed)])

    def apply(function: int, v: float, t: int) -> float:
        return (v * 2, v + 1, v + t * 1000)[function]

    expected = [apply(fixed, apply(t % 3, float(t), t), t) for t in range(32)]
    assert device.get(y, x).tolist() == expected


def test_virtual_functions(device: Device, module: LoadedModule) -> None:
    """A virtual call on an object in local memory calls the function of the object's class."""
    y = device.put(np.zeros(16, np.int32))
    device.launch(module, "virtual_calls", [pointer(y)], block=(16, 1, 1))

    def area(t: int, scale: int) -> int:
        return t * t * scale if t & 2 else t * (t + 1) + scale

    expected = [area(t, 3) + (area(t, t) if t & 1 else 0) for t in range(16)]
    assert device.get(y, np.zeros(16, np.int32)).tolist() == expected


def test_structures_through_a_pointer_to_a_function(device: Device, module: LoadedModule) -> None:
    """A function called through a pointer takes and returns structures by value.

    The members of a structure keep their offsets, which include padding.
    """
    form = "<d3sxh2x4f"
    given = [struct.pack(form, t / 2, b"abc", t, 1, 2, 3, t) for t in range(8)]
    size = len(given[0])
    y = device.put(np.frombuffer(b"".join(given), np.uint8))
    device.launch(module, "structures", [pointer(y)], block=(8, 1, 1))
    for t in range(8):
        got = struct.unpack(form, device.machine.memory.read(y + t * size, size))
        assert got == (t / 2 + t, b"azc", 0, 1, 2, 3, t * t)


def test_printf(device: Device, ptx: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`printf` in a kernel formats like the C library's, and prints in the order of threads."""
    loaded = device.machine.load(ptx)
    f = struct.unpack("<f", struct.pack("<f", 1.1))[0]
    arguments = [int32(2), struct.pack("<f", f), pointer(0)]
    result = device.launch(loaded, "printsifPKc", arguments)
    assert result.findings == ()
    lines = [
        f"{-t}|    7|42  |1234567890123|fedcba9876543210|{f:f}|{f:.3e}|{f * 1e10:g}|"
        f"{('even', 'odd')[t]}|{'ab'[t]}|(nil)|%|    99|002.2\n"
        for t in range(2)
    ]
    assert capfd.readouterr().out == "".join(lines)


@pytest.mark.simulator_only
def test_printf_without_arguments(device: Device, ptx: str) -> None:
    """A machine passes the output of kernels to its `print_out` function."""
    printed: list[bytes] = []
    machine = Machine(device.machine.memory, print_out=printed.append)
    Device(machine).launch(machine.load(ptx), "prints_plainly", [], block=(3, 1, 1))
    assert printed == [b"no arguments\n"] * 3


@pytest.mark.simulator_only
def test_failed_assertions(
    device: Device, module: LoadedModule, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failed assert prints CUDA's message for each failing thread, and stops the kernel."""
    x = np.ones((2, 8), np.int32)
    arguments = [pointer(device.put(x))]
    device.launch(module, "asserts", arguments, block=(4, 2, 1))
    x[0, 6], x[0, 7] = 0, -1
    with pytest.raises(KernelTrap) as caught:
        device.launch(module, "asserts", [pointer(device.put(x))], block=(4, 2, 1))
    error = caught.value
    assert (error.reason, error.thread) == ("assertion failed", (2, 1, 0))
    source = Path(__file__).with_name("functions.cu").read_text().split("\n")
    (line,) = (n for n, text in enumerate(source, 1) if text.endswith("line of the assertion"))
    assert error.line == line
    printed = capfd.readouterr().err.split("\n")
    for text, thread in zip(printed, (2, 3, None), strict=True):
        if thread is None:
            assert text == ""
            continue
        expected = (
            f"functions.cu:{line}: void asserts(const int *): block: [0,0,0], "
            f"thread: [{thread},1,0] "
            'Assertion `x[threadIdx.y * 4 + threadIdx.x] > 0 && "positive"` failed.'
        )
        assert text.endswith(expected)


def test_branch_tables(device: Device, module: LoadedModule) -> None:
    """brx.idx branches each thread to its own target, and the threads reconverge."""
    y = device.put(np.zeros(32, np.int32))
    device.launch(module, "switches", [pointer(y), int32(9)])
    expected = [[100, 1 + 9, 2 * 9][t % 3] for t in range(32)]
    assert device.get(y, np.zeros(32, np.int32)).tolist() == expected


def test_exit_of_some_threads(device: Device, module: LoadedModule) -> None:
    """The PTX instruction `exit` ends only the threads that execute it."""
    y = device.put(np.zeros(32, np.int32))
    device.launch(module, "exits", [pointer(y)])
    assert device.get(y, np.zeros(32, np.int32)).tolist() == [2, 1] * 16


_RECURSION = """.version 9.0
.target sm_90
.address_size 64
.func (.param .b32 out) deep(.param .b32 n);
.func (.param .b32 out) leaf(.param .b32 n);
.global .align 8 .u64 table[2] = {leaf, deep};
.func (.param .b32 out) leaf(.param .b32 n)
{
  .local .align 4 .b8 mine[8192]; .reg .b32 %n;
  ld.param.b32 %n, [n]; st.local.b32 [mine], %n; st.local.b32 [mine + 8188], %n;
  ld.local.b32 %n, [mine + 8188]; st.param.b32 [out], %n; ret;
}
.func (.param .b32 out) deep(.param .b32 n)
{
  .local .align 4 .b8 mine[4096]; .reg .b32 %n, %m; .reg .b64 %p; .reg .pred %more;
  ld.param.b32 %n, [n]; st.local.b32 [mine + 4092], %n;
  add.u32 %m, %n, -1; setp.gt.s32 %more, %m, 0;
  ld.global.u64 %p, [table]; @%more ld.global.u64 %p, [table + 8];
  {
    .param .b32 a; .param .b32 r;
    st.param.b32 [a], %m;
    CALL
    ld.param.b32 %m, [r];
  }
  ld.local.b32 %n, [mine + 4092]; add.u32 %m, %m, %n; st.param.b32 [out], %m; ret;
}
.visible .entry test(.param .u64 y, .param .u32 depth)
{
  .reg .b32 %n; .reg .b64 %y;
  ld.param.u32 %n, [depth]; ld.param.u64 %y, [y];
  {
    .param .b32 a; .param .b32 r;
    st.param.b32 [a], %n; call.uni (r), deep, (a); ld.param.b32 %n, [r];
  }
  st.global.b32 [%y], %n; ret;
}
"""
_THROUGH_A_POINTER = "P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %p, (a), P;"
_DIRECTLY = "@%more call (r), deep, (a); @!%more call (r), leaf, (a);"


def recurse(device: Device, call: str, depths: Sequence[tuple[int, int]]) -> list[int | None]:
    """Launch a recursion of frames of 4 KiB that ends in a call of a function with 8 KiB.

    Args:
        device: The device.
        call: PTX of the call within the recursion.
        depths: For each launch, the depth and the bytes of the stack.

    Returns:
        The sum of the depths, or None if the recursion is too deep for the simulator.
    """
    module = device.machine.load(_RECURSION.replace("CALL", call))
    y = device.put(np.zeros(1, np.int32))
    sums: list[int | None] = []
    for depth, stack in depths:
        one, arguments = (1, 1, 1), [pointer(y), int32(depth)]
        try:
            result = device.machine.launch(
                module, "test", one, one, 0, arguments, stack_bytes=stack
            )
        except UnsupportedCall:
            sums.append(None)
            continue
        assert result.findings == ()
        sums.append(int(device.get(y, np.zeros(1, np.int32))[0]))
    return sums


@pytest.mark.simulator_only
def test_larger_stack_for_a_recursion_through_a_pointer(device: Device) -> None:
    """A recursion through a pointer gets the size of the stack that is set for each launch."""
    depths = [(1, 16 << 10), (20, 128 << 10), (1, 16 << 10)]
    assert recurse(device, _THROUGH_A_POINTER, depths) == [1, 210, 1]


@pytest.mark.simulator_only
def test_last_function_of_a_deep_recursion(device: Device) -> None:
    """A function at the end of a deep recursion has room for its variables, or is unsupported."""
    sums = recurse(device, _DIRECTLY, [(depth, 512 << 10) for depth in range(50, 70, 2)])
    assert sums[0] == 1275
    assert sums[-1] is None


@pytest.mark.simulator_only
def test_questions_keep_the_size_of_the_stack(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about shared memory does not translate a recursion for another stack."""
    translations: list[str] = []

    def counted(module: Module, kernel: str, *how: Any) -> Program:
        translations.append(kernel)
        return prepare(module, kernel, *how)

    monkeypatch.setattr(machine, "prepare", counted)
    text = _RECURSION.replace("CALL", _DIRECTLY).encode()
    content = struct.pack("<HHIQ", 1, 1, 16, len(text)) + text
    image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content
    device = SimulatedDevice(memory, Record(), Assembler(lambda _: {}, lambda _: b""))
    number = device.load(image)
    y = memory.allocate(4)
    launch = LaunchRequest((1, 1, 1), (1, 1, 1), 1024, None, False, stack_bytes=16 << 10)
    for _ in range(2):
        device.launch(number, "test", launch, pointer(y) + int32(1))
        device.check(number, "test", launch)
    assert translations == ["test"]
