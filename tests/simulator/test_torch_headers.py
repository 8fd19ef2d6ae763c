"""PyTorch's CUDA interface on the simulator, as submissions use it from C++ and from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulator.support import answers_of

pytestmark = pytest.mark.simulator_only

SOURCE = Path(__file__).with_name("torch_headers.cu")

SCRIPT = """
import json, sys
from pathlib import Path
import torch
from torch.utils.cpp_extension import load_inline
from harness.compiler.builder import Builder
from harness.compiler.cache import Cache, default_root
from harness.compiler.compiler import Compiler
from harness.compiler.extension import ExtensionLoader
from harness.compiler.flags import Target
from harness.compiler.toolchain import find_toolchain
from harness.simulator.native.library import Libraries
from tests.simulator.connected import Connected

device = Connected(Libraries(*map(Path, sys.argv[1:5])))
toolchain, headers = find_toolchain(), []
compiler = Compiler(toolchain)
builder = Builder(toolchain, Cache(default_root()), Target("simulator"), compiler)

def build(extension):
    entry = builder.build(extension)
    headers.append(entry.notes["headers"])
    return entry.library.read_bytes()

ExtensionLoader(Path(__file__), build).install()
ext = load_inline(
    name="torch_headers",
    cpp_sources='''
std::vector<int64_t> facts();
int64_t current_stream();
std::vector<bool> guards(torch::Tensor x);
bool events();
torch::Tensor workspace();
torch::Tensor sums(torch::Tensor like);
void refused(int64_t threads, bool check);
void failing_call();
void null_pointer(torch::Tensor y);
''',
    cuda_sources=Path(sys.argv[5]).read_text(),
    functions=["facts", "current_stream", "guards", "events", "workspace", "sums", "refused",
               "failing_call", "null_pointer"],
    extra_ldflags=["-lcuda", "-lcudart", "-lcublas", "-L/usr/local/cuda/lib64"],
    extra_cuda_cflags=["-O3", "-rdc=true", "--default-stream", "per-thread", "-cudart=shared"],
)
c = torch.cuda
x = torch.ones(4, device="cuda")
seen = {}

def message(call, *arguments):
    try:
        call(*arguments)
    except torch.AcceleratorError as error:
        return str(error)
    return None

seen["headers"] = headers[-1]
seen["facts"] = ext.facts()
seen["guards"] = ext.guards(x)
seen["events"] = ext.events()
seen["workspace"] = ext.workspace().tolist()
types = (torch.float, torch.half, torch.bfloat16, torch.double)
seen["sums"] = [ext.sums(x.to(t)).item() for t in types]

s = c.Stream(priority=-1)
with c.stream(s):
    seen["stream inside"] = ext.current_stream() == s.cuda_stream == c.current_stream().cuda_stream
with s:
    seen["stream entered"] = ext.current_stream() == s.cuda_stream
seen["stream outside"] = (ext.current_stream(), c.current_stream() == c.default_stream())
a, b = c.Event(enable_timing=True), c.Event(enable_timing=True)
a.record(s); b.record(); s.wait_event(a); s.wait_stream(c.current_stream()); b.synchronize()
seen["python events"] = (a.query(), a.elapsed_time(b) >= 0, a.cuda_event != b.cuda_event)
before = c.memory_allocated()
c.reset_peak_memory_stats()
y = torch.empty(1 << 20, device="cuda")
seen["memory"] = (c.memory_allocated() - before, c.max_memory_allocated() - before)
del y
seen["memory given back"] = c.memory_allocated() - before
with c.device(x.device), c.device_of(x), c.nvtx.range("name"):
    seen["device"] = (c.current_device(), c.get_device_name(x.device), c.mem_get_info()[1])
    c.synchronize(x.device); c.empty_cache()
seen["pinned"] = torch.ones(2).pin_memory().to("cuda", non_blocking=True).tolist()

seen["unread error left"] = message(device.client.raise_unread_error)
seen["failing call"] = message(ext.failing_call)
seen["refused"] = message(ext.refused, 2000, True)
ext.refused(2000, False)
seen["unread error meets torch"] = message(torch.add, x, 1)
ext.refused(2000, False)
seen["unread error"] = message(device.client.raise_unread_error)
seen["unread error read"] = message(device.client.raise_unread_error)
seen["works after refusals"] = (x + 1).tolist()
ext.null_pointer(x)
seen["broken"] = [message(call) for call in (c.synchronize, x.cpu, lambda: x + 1, x.sum, s.query)]
device.recover()
seen["works again"] = (torch.ones(4, device="cuda") * 2).tolist()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return everything that the script recorded, by name."""
    return answers_of(SCRIPT, SOURCE, tmp_path_factory.mktemp("headers"))


@pytest.mark.thorough
def test_context_stream_guard_and_allocator(seen: dict[str, object]) -> None:
    """Torch's CUDA headers for contexts, guards, events and allocators compile and work.

    Linking against CUDA's libraries, such as cublas, succeeds.
    """
    assert seen["facts"] == [132, 9, 32, 1, 0, 1]
    assert seen["guards"] == [True] * 9
    assert seen["events"] is True
    assert seen["workspace"] == [0.0] * 8
    assert seen["sums"] == [45.0] * 4


@pytest.mark.thorough
def test_python_and_cpp_have_the_same_streams(seen: dict[str, object]) -> None:
    """C++ code sees the stream that is current in Python as the current one."""
    assert seen["stream inside"] is seen["stream entered"] is True
    assert seen["stream outside"] == [0, True]
    assert seen["python events"] == [True, True, True]


@pytest.mark.thorough
def test_questions_about_memory_and_device(seen: dict[str, object]) -> None:
    """torch.cuda counts the bytes of live tensors, and keeps their peak.

    It also returns the device's name and memory.
    """
    assert seen["memory"] == [4 << 20, 4 << 20]
    assert seen["memory given back"] == 0
    assert seen["pinned"] == [1.0, 1.0]
    assert seen["device"] == [0, "Simulated sm_90 device", 8 << 30]


@pytest.mark.thorough
def test_refused_launch_says_why(seen: dict[str, object]) -> None:
    """A refused launch raises CUDA's message with the reason.

    If the submission does not check cudaGetLastError(), torch's next kernel raises the error.
    """
    why = "CUDA error: invalid argument (reads: a block of 2000 x 1 x 1; allowed are 1 to "
    for name in ("refused", "unread error meets torch", "unread error"):
        assert str(seen[name]).startswith(why), name
    assert str(seen["unread error"]).endswith("(the submission did not check cudaGetLastError())")
    assert seen["failing call"] == "CUDA error: invalid argument"
    assert seen["unread error left"] is None
    assert seen["unread error read"] is None
    assert seen["works after refusals"] == [2.0] * 4


@pytest.mark.thorough
def test_broken_context_fails_everything(seen: dict[str, object]) -> None:
    """After an illegal access, all of torch's calls raise until the device has recovered."""
    assert seen["broken"] == ["CUDA error: an illegal memory access was encountered"] * 5
    assert seen["works again"] == [2.0] * 4
