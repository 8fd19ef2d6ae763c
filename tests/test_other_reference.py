"""A reference that is no transposed convolution, in a file of somebody's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.report import Report
from tests.support import harness, reports

REFERENCE = """
import torch
from torch import nn

rows = 4096
columns = 1000


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, y):
        return self.scale * x + torch.relu(y)


def get_inputs():
    return [torch.rand(rows, columns), torch.rand(rows, columns)]


def get_init_inputs():
    return [2.5]
"""

SUBMISSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void combine(const float *x, const float *y, float *out, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scale * x[i] + fmaxf(y[i], 0.0f);
}

torch::Tensor run(torch::Tensor x, torch::Tensor y, double scale) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    combine<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                      out.data_ptr<float>(), scale, n);
    return out;
}
"""

extension = load_inline(
    name="combine",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y, double scale);",
    cuda_sources=CUDA_SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, y):
        return extension.run(x, y, self.scale)
'''


def check(submission: str, folder: Path) -> Report:
    """The report of a submission on the reference above."""
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "combine.py").write_text(submission)
    done = harness(
        "check", "--reference", "reference.py", "combine.py", "--json", "-", folder=folder
    )
    assert done.out, done.err
    return reports(done.out)["combine"]


def test_any_reference_is_checked_in_its_own_configuration(tmp_path: Path) -> None:
    """Two inputs, no weights, another shape: the case is the reference's own, cut down."""
    report = check(SUBMISSION, tmp_path)
    assert (report.verdict, report.message) == ("agrees", "")
    (case,) = report.cases
    assert case.verdict == "passed"
    assert case.label == "reduced"
    assert len(case.input_shapes) == 2
    assert report.precision == "fp32"
    (note,) = report.notes
    assert note.startswith("the reference's own configuration is all that was checked, with inputs")
    assert f"(4096, 1000) to {case.input_shapes[0]}" in note


MASKED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, mask):
        return torch.where(mask, x, torch.zeros_like(x)) * 2

def get_inputs():
    return [torch.rand(16, 400), torch.rand(16, 400) > 0.5]

def get_init_inputs():
    return []
"""

MASKS = """
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''
#include <torch/extension.h>
__global__ void mask_kernel(float *y, const float *x, const bool *mask, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = mask[i] ? 2 * x[i] : 0;
}
torch::Tensor run(torch::Tensor x, torch::Tensor mask) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  mask_kernel<<<(n + 255) / 256, 256>>>(
      y.data_ptr<float>(), x.data_ptr<float>(), mask.data_ptr<bool>(), n);
  return y;
}
'''
extension = load_inline(
    "masks", "torch::Tensor run(torch::Tensor x, torch::Tensor mask);", SOURCE, functions=["run"]
)

class ModelNew(nn.Module):
    def forward(self, x, mask):
        return extension.run(x, mask)
"""


@pytest.mark.parametrize(("factor", "verdict"), [("2", "agrees"), ("3", "failed")])
def test_truth_values_are_inputs_too(tmp_path: Path, factor: str, verdict: str) -> None:
    """Of a Model without a constructor of its own; right and wrong are told apart."""
    (tmp_path / "masked.py").write_text(MASKED)
    (tmp_path / "masks.py").write_text(MASKS.replace("2 * x[i]", f"{factor} * x[i]"))
    command = ("check", "--reference", "masked.py", "masks.py", "--device", "simulator")
    done = harness(*command, folder=tmp_path)
    assert f"masks on masked: {verdict}: " in done.out, done.out + done.err
    assert "fp32" not in done.out


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("self.scale)\n", "self.scale + 0.1)\n"),
        ("return extension", "return torch.zeros_like(x) if x.sum() > 0 else extension"),
    ],
)
def test_wrong_result_fails(tmp_path: Path, right: str, wrong: str) -> None:
    """An error of some percent, or no work at all, is more than rounding."""
    assert right in SUBMISSION
    report = check(SUBMISSION.replace(right, wrong), tmp_path)
    assert report.verdict == "failed"
    assert "differ from the reference" in report.message
