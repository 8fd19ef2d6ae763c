"""A barrier of all blocks that a submission makes itself needs all blocks on the device at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import harness

REFERENCE = """
import torch
from torch import nn

count = 51200


class Model(nn.Module):
    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.rand(count)]


def get_init_inputs():
    return []
"""
SUBMISSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void twice(const float* x, float* y, int n, unsigned* arrived) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float kept[KEPT];
    #pragma unroll
    for (int k = 0; k < KEPT; ++k) kept[k] = x[(i + k) % n];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) {}
    }
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < KEPT; ++k) sum += kept[k];
    if (i < n) y[i] = sum == 12345.678f ? 0.0f : kept[0] + kept[0];
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    auto arrived = torch::zeros({1}, x.options().dtype(torch::kInt));
    twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(),
        reinterpret_cast<unsigned*>(arrived.data_ptr<int>()));
    return y;
}
"""
built = load_inline(
    name="twice", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=CUDA,
    functions=["run"], extra_cuda_cflags=["-DKEPT=%d"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return built.run(x.contiguous())
'''


@pytest.mark.thorough
def test_registers_limit_how_many_blocks_wait_for_each_other(tmp_path: Path) -> None:
    """A kernel of 200 blocks that wait for each other hangs if its registers leave room for fewer.

    With few registers, 8 blocks of 256 threads fit on a multiprocessor. With more than 128
    registers, one block fits, and an H200 has 132 multiprocessors.
    """
    (tmp_path / "double.py").write_text(REFERENCE)
    for name, kept in (("few", 4), ("many", 160)):
        (tmp_path / f"{name}.py").write_text(SUBMISSION.replace("%d", str(kept)))
    options = ("--reference", "double.py", "--grid", "own", "--jobs", "1")
    done = harness("check", "few.py", "many.py", *options, folder=tmp_path)
    assert "few on double: passed: own configuration right" in done.out
    why = "synccheck: the block waits forever: 255 threads wait at many.py:20"
    assert f"many on double: failed: own configuration failed: {why}" in done.out
