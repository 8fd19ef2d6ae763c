"""The simulator with a CUDA build of torch, on machines with and without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import REFERENCE, ROOT, SUBMISSIONS, harness

pytestmark = pytest.mark.skipif(
    torch.version.cuda is None, reason="this torch was not built for CUDA"
)

DOUBLE = ROOT / "tests" / "faults" / "reference" / "double.py"

GRAPHS = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
__global__ void twice(float *y, const float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
torch::Tensor run(torch::Tensor x) {
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  auto y = torch::empty_like(x);
  twice<<<(x.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return y;
}
"""
EXTENSION = load_inline(
    "graphs", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return EXTENSION.run(x)
'''


@pytest.mark.thorough
def test_kernels_are_simulated(tmp_path: Path) -> None:
    """The simulator runs a submission's kernels, even if torch was built for CUDA."""
    reference = REFERENCE / "conv_transpose1d.py"
    command = ("check", SUBMISSIONS / "flat_index.py", "--reference", reference)
    done = harness(*command, "--device", "simulator", folder=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert "flat_index on conv_transpose1d: passed: " in done.out
    assert "fp32" in done.out


@pytest.mark.thorough
def test_what_only_the_real_runtime_has_is_unsupported(tmp_path: Path) -> None:
    """A CUDA runtime call that the simulator lacks gives `unsupported`, with the call's name.

    A torch built without CUDA gives the same verdict.
    """
    (tmp_path / "graphs.py").write_text(GRAPHS)
    command = ("check", "graphs.py", "--reference", DOUBLE, "--device", "simulator")
    done = harness(*command, folder=tmp_path)
    assert done.status == 1
    assert (
        "graphs on double: unsupported: the harness's device does not support cudaGraphCreate()"
        in done.out
    )
