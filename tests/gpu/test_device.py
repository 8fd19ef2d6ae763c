"""The device process with a real GPU: it launches kernels, and records which work wrote memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import ROOT, Outcome, harness

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

REFERENCE = ROOT / "tests" / "faults" / "reference"
SUBMISSION = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r'''
{code}
'''
extension = load_inline(
    name="{name}",
    cpp_sources="torch::Tensor doubled(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["doubled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.doubled(x)
"""
PLAIN = """
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (WRITES) y[i] = i < n ? x[i] + x[i] : 0.0f;
}

torch::Tensor doubled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    twice<<<1, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
EVERYTHING = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__constant__ float factor;
__device__ float unit;

__global__ void scale(const float* x, float* y, int n) {
    extern __shared__ float kept[];
    auto grid = cg::this_grid();
    int i = grid.thread_rank();
    kept[threadIdx.x + 20000] = i < n ? x[i] * factor : 0.0f;
    grid.sync();
    if (i < n) y[i] = kept[threadIdx.x + 20000] * unit;
}

__global__ void swap_halves(float* y) {
    auto cluster = cg::this_cluster();
    __shared__ float mine[32];
    mine[threadIdx.x] = y[cluster.block_rank() * 32 + threadIdx.x];
    cluster.sync();
    float theirs = *cluster.map_shared_rank(&mine[threadIdx.x], cluster.block_rank() ^ 1);
    y[cluster.block_rank() * 32 + threadIdx.x] = theirs;
    cluster.sync();
}

void swap(float* y) {
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = 2;
    attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 2, config.blockDim = 32;
    config.attrs = attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, swap_halves, y);
}

torch::Tensor doubled(torch::Tensor x) {
    auto y = torch::empty_like(x);
    float two = 2.0f, one = 1.0f;
    cudaMemcpyToSymbol(factor, &two, sizeof two);
    cudaMemcpyToSymbol(unit, &one, sizeof one);
    int n = x.numel(), bytes = 100 << 10;
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    void* arguments[] = {&from, &to, &n};
    cudaLaunchCooperativeKernel((void*)scale, dim3(2), dim3(32), arguments, bytes, 0);
    swap(to);
    swap(to);
    return y;
}
"""
CODES = {
    "right": PLAIN.replace("WRITES", "i < n"),
    "past_the_end": PLAIN.replace("WRITES", "i <= n"),
    "leaves_gaps": PLAIN.replace("WRITES", "i < n && i % 8 != 3"),
    "everything": EVERYTHING,
    "by_torch": "torch::Tensor doubled(torch::Tensor x) { return x + x; }",
}
LINES = {
    "right": "passed: ",
    "past_the_end": (
        "failed: own configuration failed: memcheck: wrote past the end of an allocation of 256"
    ),
    "leaves_gaps": "failed: own configuration failed: 8 of 64 output elements were never written",
    "everything": "passed: ",
    "by_torch": "failed: own configuration failed: own work: ",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the outcome of `harness check` on the submissions of `CODES`, on the GPU."""
    folder = tmp_path_factory.mktemp("device")
    files: list[Path] = []
    for name, code in CODES.items():
        files.append(folder / f"{name}.py")
        files[-1].write_text(SUBMISSION.replace("{code}", code).replace("{name}", name))
    options = ("--reference", REFERENCE, "--grid", "own", "--device", "cuda")
    return harness("check", *files, *options, folder=folder)


@pytest.mark.parametrize("name", LINES)
def test_the_verdict_is_by_the_device_s_own_record(outcome: Outcome, name: str) -> None:
    """The verdict is based on the launches and writes that the device process has recorded.

    It is not based on what the worker says, because the worker runs the submission.
    """
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert any(line.startswith(f"{name} on double: {LINES[name]}") for line in lines), outcome.out
