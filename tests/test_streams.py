"""Verdicts of `harness check` on submissions that work on several CUDA streams."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import harness

_TEMPLATE = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r'''
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}

__global__ void copied(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

struct Made {
    cudaStream_t one, two, blocking;
    cudaEvent_t event, other;
    Made() {
        cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
        cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
        cudaStreamCreate(&blocking);
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&other, cudaEventDisableTiming);
    }
    void after(cudaStream_t later, cudaStream_t earlier) {
        cudaEventRecord(event, earlier);
        cudaStreamWaitEvent(later, event, 0);
    }
};

{functions}'''
extension = load_inline(
    name="streams",
    cpp_sources="{declarations}",
    cuda_sources=cuda_source,
    functions={names},
)


class ModelNew(nn.Module):
    def __init__(self, which):
        super().__init__()
        self.which = {names}[which]
        self.side = torch.cuda.Stream()

    def forward(self, x):
        function = getattr(extension, self.which)
        if self.which not in {in_python}:
            return function(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = function(x)
            y.record_stream(self.side)
        torch.cuda.current_stream().wait_stream(self.side)
        if self.which == "nobody_waits_for_torch":
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                return y.clone()
        return y
"""
_REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, which):
        super().__init__()

    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.rand(64)]


def get_init_inputs():
    return [{which}]
"""
_FUNCTION = """
torch::Tensor {name}(torch::Tensor input) {
    static Made made;
    auto output = torch::empty_like(input), kept = torch::empty_like(input);
    const float* x = input.data_ptr<float>();
    float *y = output.data_ptr<float>(), *t = kept.data_ptr<float>();
    const int n = input.numel(), half = n / 2;
    const size_t bytes = n * sizeof(float);
    cudaStream_t one = made.one, two = made.two, blocking = made.blocking;
    {body}
    return output;
}
"""

RIGHT = {
    "joined": """
        made.after(one, 0);
        twice<<<1, 64, 0, one>>>(x, y, n);
        made.after(0, one);""",
    "halves": """
        made.after(one, 0), made.after(two, 0);
        twice<<<1, 64, 0, one>>>(x, y, half);
        twice<<<1, 64, 0, two>>>(x + half, y + half, n - half);
        made.after(0, one), made.after(0, two);""",
    "chain": """
        copied<<<1, 64>>>(x, y, n);
        made.after(one, 0);
        copied<<<1, 64, 0, one>>>(y, t, n);
        made.after(two, one);
        twice<<<1, 64, 0, two>>>(t, y, n);
        made.after(0, two);""",
    "host_waits_for_stream": """
        copied<<<1, 64>>>(x, t, n);
        cudaStreamSynchronize(0);
        twice<<<1, 64, 0, one>>>(t, y, n);
        cudaStreamSynchronize(one);""",
    "host_waits_for_event": """
        made.after(one, 0);
        twice<<<1, 64, 0, one>>>(x, y, n);
        cudaEventRecord(made.other, one);
        while (cudaEventQuery(made.other) == cudaErrorNotReady);""",
    "host_waits_for_device": """
        twice<<<1, 64, 0, one>>>(x, y, n);
        cudaDeviceSynchronize();""",
    "blocking": """
        copied<<<1, 64>>>(x, t, n);
        twice<<<1, 64, 0, blocking>>>(t, t, n);
        copied<<<1, 64>>>(t, y, n);
        copied<<<1, 64, 0, blocking>>>(y, t, n);""",
    "copies": """
        made.after(one, 0);
        cudaMemcpyAsync(t, x, bytes, cudaMemcpyDeviceToDevice, one);
        cudaMemsetAsync(y, 0, bytes, one);
        twice<<<1, 64, 0, one>>>(t, y, n);
        made.after(0, one);""",
    "memory_given_back": """
        float *own;
        made.after(one, 0);
        cudaMallocAsync(&own, bytes, one);
        copied<<<1, 64, 0, one>>>(x, own, n);
        {
            c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromExternal(one, 0));
            auto short_lived = torch::empty_like(input);
            copied<<<1, 64, 0, one>>>(own, short_lived.data_ptr<float>(), n);
            twice<<<1, 64, 0, one>>>(short_lived.data_ptr<float>(), y, n);
        }
        cudaFreeAsync(own, one);
        made.after(0, one);""",
    "stream_of_a_call": """
        cudaStream_t own;
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        made.after(own, 0);
        twice<<<1, 64, 0, own>>>(x, y, n);
        made.after(0, own);
        cudaStreamDestroy(own);""",
    "pinned_source": """
        static float* host;
        if (!host) cudaMallocHost(&host, 4);
        host[0] = 1;
        cudaMemcpyAsync(t, host, 4, cudaMemcpyHostToDevice, one);
        cudaStreamSynchronize(one);
        host[0] = 2;
        twice<<<1, 64>>>(x, y, n);""",
    "in_python": "twice<<<1, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x, y, n);",
}
"""Bodies of functions that are right in every order that CUDA allows, by name."""

WRONG = {
    "nobody_waits": """
        made.after(one, 0);
        twice<<<1, 64, 0, one>>>(x, y, n);""",
    "waits_for_what_was_before": """
        made.after(one, 0);
        made.after(0, one);
        twice<<<1, 64, 0, one>>>(x, y, n);""",
    "starts_too_early": """
        copied<<<1, 64>>>(x, t, n);
        twice<<<1, 64, 0, one>>>(t, y, n);
        made.after(0, one);""",
    "streams_do_not_wait": """
        made.after(one, 0), made.after(two, 0);
        copied<<<1, 64, 0, one>>>(x, t, n);
        twice<<<1, 64, 0, two>>>(t, y, n);
        made.after(0, two), made.after(0, one);""",
    "streams_do_not_wait_either": """
        made.after(one, 0), made.after(two, 0);
        copied<<<1, 64, 0, two>>>(x, t, n);
        twice<<<1, 64, 0, one>>>(t, y, n);
        made.after(0, two), made.after(0, one);""",
    "overwritten_too_early": """
        copied<<<1, 64>>>(x, t, n);
        made.after(one, 0);
        twice<<<1, 64, 0, one>>>(t, y, n);
        cudaMemsetAsync(t, 0, bytes, 0);
        made.after(0, one);""",
    "pinned_source_changed": """
        static float* host;
        if (!host) cudaMallocHost(&host, 4);
        host[0] = 1;
        cudaMemcpyAsync(t, host, 4, cudaMemcpyHostToDevice, one);
        host[0] = 2;
        cudaStreamSynchronize(one);
        twice<<<1, 64>>>(x, y, n);""",
    "nobody_waits_for_torch": "",
}
"""Bodies of functions that are right in a lucky order only, by name."""

NOT_AWAITED = {
    "nobody_waits": "twice",
    "waits_for_what_was_before": "twice",
    "nobody_waits_for_torch": "an operator of torch",
}
"""Wrong functions whose result nothing waits for, with the kernel or operator that makes it."""

_IN_PYTHON = ("in_python", "nobody_waits_for_torch")
"""Functions that are called on a stream which Python has made."""


def write(folder: Path, *names: str) -> Path:
    """Write a submission with all functions of `RIGHT` and `WRONG`, and references for `names`.

    The references lie in the folder `references`. A reference's constructor argument says which
    function runs, so that a single build serves all references. Return the submission's path.
    """
    bodies = {**RIGHT, **WRONG}
    functions = (
        _FUNCTION.replace("{name}", each).replace("{body}", body) for each, body in bodies.items()
    )
    fields = {
        "functions": "".join(functions),
        "declarations": " ".join(f"torch::Tensor {each}(torch::Tensor input);" for each in bodies),
        "names": repr(list(bodies)),
        "in_python": repr(_IN_PYTHON),
    }
    text = _TEMPLATE
    for field, value in fields.items():
        text = text.replace(f"{{{field}}}", value)
    (folder / "references").mkdir()
    for name in names:
        which = str(list(bodies).index(name))
        reference = _REFERENCE.replace("{which}", which)
        (folder / "references" / f"{name}.py").write_text(reference)
    path = folder / "streams.py"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the simulator's verdict on each function, with the lines printed below the verdict.

    The key is the function's name.
    """
    return verdicts(tmp_path_factory.mktemp("streams"), "simulator")


def verdicts(folder: Path, device: str) -> dict[str, str]:
    """Return the verdict on each function, with the lines printed below the verdict.

    The key is the function's name.
    """
    path = write(folder, *RIGHT, *WRONG)
    options = ("--reference", "references", "--grid", "own", "--device", device)
    outcome = harness("check", path.name, *options, folder=folder)
    found: dict[str, str] = {}
    name = ""
    for line in outcome.out.splitlines():
        if match := re.match(r"streams on (\w+): (.*)", line):
            name, line = match.groups()
        found[name] = found.get(name, "") + " ".join(line.split()) + "\n"
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIGHT)
def test_what_waits_for_one_another_is_right(lines: dict[str, str], name: str) -> None:
    """Work on several streams passes if it is ordered by events, blocking streams or the host.

    The host orders it by waiting for a stream, an event or the device.
    """
    assert lines[name].startswith("passed"), lines[name]


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_wait_is_wrong(lines: dict[str, str], name: str) -> None:
    """A submission fails if work on one stream should wait for other work but does not.

    CUDA allows an order of the work that gives wrong numbers, though most GPUs never show it.
    """
    assert lines[name].startswith("failed"), lines[name]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOT_AWAITED)
def test_work_that_nobody_waits_for_is_named(lines: dict[str, str], name: str) -> None:
    """The message names the kernel or operator whose work the caller's stream does not wait for."""
    expected = f"{NOT_AWAITED[name]}: runs on a stream that the caller's stream does not wait for"
    assert f"own configuration failed: racecheck: {expected}" in lines[name].split("\n")[0]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOT_AWAITED)
def test_what_follows_from_work_that_nobody_waits_for_is_counted(
    lines: dict[str, str], name: str
) -> None:
    """If nothing waits for a kernel, the wrong outputs that result are counted but not listed."""
    assert re.search(r"\nthis also explains \d+ wrong outputs?\b.*, not listed here\n", lines[name])
    for consequence in ("never written", "none of its own kernels", "differ from", "diagnosis: "):
        assert consequence not in lines[name]
