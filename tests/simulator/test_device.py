"""The simulated `cuda` device that a CPU-only build of torch gets in a worker.

The tests run scripts in a separate process, because a device cannot be removed from a process.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import build_libraries
from harness.system import interpreter
from tests.simulator.support import runtime_first

pytestmark = pytest.mark.simulator_only

Script = Callable[[str], str]

# Runs a script for each line of its input. Prints the script's output, or its traceback.
SERVER = """
import contextlib, gc, io, json, sys, traceback
from pathlib import Path
import torch
from harness.simulator.native.library import Libraries
from tests.simulator.connected import Connected

device = Connected(Libraries(*map(Path, sys.argv[1:5])))
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(json.loads(line), {"torch": torch, "device": device})
        except Exception:
            print(traceback.format_exc())
    gc.collect()
    print(json.dumps(out.getvalue()), flush=True)
"""


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    """Yield a function that runs Python code in a process with a `cuda` device.

    The function returns what the code printed. In the code, the variable `device` is the
    `Connected` of the process.
    """
    libraries = build_libraries(Cache(default_root()), find_toolchain())
    python = interpreter.command("harness")[0]
    with subprocess.Popen(
        [python, "-c", SERVER, *map(str, asdict(libraries).values())],
        env={**interpreter.environment(), **runtime_first(libraries)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        told, heard = server.stdin, server.stdout

        def run_script(code: str) -> str:
            print(json.dumps(code), file=told, flush=True)
            return str(json.loads(heard.readline())).strip()

        yield run_script


def test_tensors_move_there_and_back(script: Script) -> None:
    """`.cuda()`, `.to()`, `device=` and `.cpu()` keep values and report the right device."""
    out = script("""
x = torch.arange(6.0).reshape(2, 3)
y = x.cuda()
z = torch.tensor([1.5], device="cuda:0")
print(y.is_cuda, y.device, y.cpu().equal(x), y.to("cpu", torch.float64).sum().item(), z.item())
""")
    assert out == "True cuda:0 True 15.0 1.5"


def test_modules_run_on_it(script: Script) -> None:
    """nn.ConvTranspose1d on the simulated device gives the results of the CPU."""
    out = script("""
torch.manual_seed(0)
layer = torch.nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, groups=2)
x = torch.randn(2, 4, 9)
expected = layer(x)
actual = layer.cuda()(x.cuda())
print(actual.is_cuda, torch.allclose(actual.cpu(), expected, atol=1e-6))
""")
    assert out == "True True"


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        ("Conv1d(6, 6, 3, groups=6)", (2, 6, 9)),
        ("Conv2d(6, 12, 3, stride=2, padding=1, groups=6, bias=False)", (2, 6, 9, 8)),
        ("Conv3d(6, 6, (3, 2, 1), dilation=2, groups=6)", (2, 6, 9, 8, 7)),
        ("LSTM(6, 5, 2, bidirectional=True)", (3, 2, 6)),
        ("GRU(6, 5)", (3, 2, 6)),
        ("GRUCell(6, 5, bias=False)", (3, 6)),
    ],
)
def test_what_torch_has_for_a_gpu_alone_runs_on_it(
    script: Script, module: str, shape: tuple[int, ...]
) -> None:
    """Modules for which torch uses GPU-only operators give the results of the CPU."""
    out = script(f"""
layer = torch.nn.{module}
x = torch.randn({shape})
pairs = zip(
    torch.utils._pytree.tree_leaves(layer(x)),
    torch.utils._pytree.tree_leaves(layer.cuda()(x.cuda())),
    strict=True,
)
print([torch.allclose(a, b.cpu(), atol=1e-6) for a, b in pairs])
""")
    assert set(out.strip("[]").split(", ")) == {"True"}


def test_views_share_memory(script: Script) -> None:
    """A write to a slice, transpose, view or unfolded view changes the tensor on the device."""
    out = script("""
x = torch.zeros(4, 6, device="cuda")
x[1:3, 2] = 1
x.t()[5].fill_(2)
x.view(-1)[0] = 3
x.unfold(1, 2, 2)[0, 1, 0] = 4
print(x.cpu().tolist())
""")
    assert out == str(
        [
            [3.0, 0.0, 4.0, 0.0, 0.0, 2.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 2.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 2.0],
            [0.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        ]
    )


def test_results_go_where_out_says(script: Script) -> None:
    """The argument `out=` behaves on the simulated device as on the CPU.

    The result has the dtype and strides of `out`. It is in the memory of `out`, or in new memory if
    `out` must grow.
    """
    out = script("""
def results(place):
    x = torch.arange(6.0, device=place).reshape(2, 3)
    whole = torch.zeros(3, 4, device=place)
    torch.add(x, 1, out=whole[1:, :3])
    torch.mm(x.t(), x, out=whole.t()[1:, :])
    values, indices = torch.empty(3, device=place), torch.empty(3, dtype=torch.long, device=place)
    torch.max(x, 0, out=(values, indices))
    small = torch.empty(0, device=place)
    torch.cat([x, x], out=small)
    double = torch.empty(2, dtype=torch.float64, device=place)
    torch.sum(x, 1, out=double)
    try:
        torch.add(x, 0.5, out=torch.empty(2, 3, dtype=torch.long, device=place))
    except RuntimeError as error:
        why = str(error)
    return [each.tolist() for each in (whole, values, indices, small, double)], "cast" in why

print(results("cuda") == results("cpu"), results("cuda")[1])
""")
    assert out == "True True"


def test_fresh_memory_is_poisoned(script: Script) -> None:
    """`torch.empty` on the device gives NaNs, and its elements count as unwritten until written.

    If the tensor is copied or converted, the same elements of the result count as unwritten.
    """
    out = script("""
x = torch.empty(3, 4, device="cuda")
print(x.cpu().isnan().all().item(), (device.writers(x) == 0).sum().item())
x[1] = 0
print((device.writers(x) == 0).sum(1).tolist())
y = x.clone()
print((device.writers(y) == 0).sum(1).tolist())
print((device.writers(torch.zeros(3, device="cuda")) == 0).sum().item())
print((device.writers(x.double()) == 0).sum(1).tolist())
""")
    assert out.splitlines() == ["True 12", "[4, 0, 4]", "[4, 0, 4]", "0", "[4, 0, 4]"]


def test_torch_cuda_answers(script: Script) -> None:
    """torch.cuda returns the simulated device's properties, such as capability (9, 0)."""
    out = script("""
c = torch.cuda
p = c.get_device_properties(0)
c.synchronize(); c.empty_cache(); c.manual_seed_all(3)
with c.device(0):
    print(c.is_available(), c.device_count(), c.current_device(), c.get_device_capability())
print(p.major, p.minor, p.multi_processor_count, p.warp_size, p.total_memory > 0)
""")
    assert out.splitlines() == ["True 1 0 (9, 0)", "9 0 132 32 True"]


def test_streams_and_events(script: Script) -> None:
    """A torch stream is the current one only inside `with torch.cuda.stream(...)`.

    Two recorded events give an elapsed time of at least 0.
    """
    out = script("""
c = torch.cuda
s = c.Stream()
with c.stream(s):
    inside = c.current_stream() == s
    torch.zeros(1, device="cuda").record_stream(s)
print(inside, c.current_stream() == c.default_stream(), c.current_stream() == s)
a, b = c.Event(enable_timing=True), c.Event(enable_timing=True)
a.record(); b.record(s); b.synchronize(); s.wait_event(a); s.wait_stream(c.current_stream())
print(a.elapsed_time(b) >= 0, a.query())
""")
    assert out.splitlines() == ["True True False", "True True"]


def test_second_device_does_not_exist(script: Script) -> None:
    """Selecting `cuda:1` fails with CUDA's error `invalid device ordinal`."""
    out = script("""
try:
    torch.cuda.set_device(1)
except RuntimeError as error:
    print(error)
""")
    assert out == "CUDA error: invalid device ordinal"


def test_more_memory_than_there_is(script: Script) -> None:
    """Allocating more than the device's memory raises torch.OutOfMemoryError."""
    out = script("""
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError as error:
    print(str(error).split(".")[0])
""")
    assert out == "CUDA out of memory"


@pytest.mark.thorough
def test_freed_memory_is_given_back(script: Script) -> None:
    """Tensors that together exceed the device's memory can be allocated one after another."""
    out = script("""
before = torch.cuda.memory_allocated()
for _ in range(3):
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_allocated() - before)
""")
    assert out == "0"
