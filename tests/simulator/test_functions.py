"""Device functions: calls, recursion, function pointers, printf and assert."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware.errors import KernelTrap, StackOverflow
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
