"""Work of a submission that is divided between torch and its own kernels.

The references are files of a user.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.render import headline
from tests.test_other_reference import REFERENCE, SUBMISSION, check_on

LAYERS = """
import torch
from torch import nn

batch, features, left, right = 8, 24, 16, 48


class Model(nn.Module):
    def __init__(self, features, left, right):
        super().__init__()
        self.left = nn.Linear(features, left)
        self.right = nn.Linear(features, right)

    def forward(self, x):
        return torch.cat([self.left(x), self.right(x)], 1)


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, left, right]
"""

OWN_LAYER = '''
import torch
from torch import nn
from torch.nn import functional
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
__global__ void layer(const float *x, const float *w, const float *b, float *y, int n, int from,
                      int to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = b[i % to];
    for (int k = 0; k < from; ++k) sum += x[i / to * from + k] * w[i % to * from + k];
    y[i] = sum;
}

torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    int n = y.numel();
    layer<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                    y.data_ptr<float>(), n, x.size(1), w.size(0));
    return y;
}
"""

extension = load_inline(
    name="layer",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=CUDA_SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features, left, right):
        super().__init__()
        self.left = nn.Linear(features, left)
        self.right = nn.Linear(features, right)

    def forward(self, x):
        own = extension.run(x, self.left.weight, self.left.bias)
        return torch.cat([own, self.right(x)], 1)
'''

BOTH = """
        weight = torch.cat([self.left.weight, self.right.weight])
        bias = torch.cat([self.left.bias, self.right.bias])
        own = extension.run(x[:1], self.left.weight, self.left.bias)
        return functional.linear(x, weight, bias) + 0.0 * own.sum()
"""


@pytest.mark.thorough
def test_layer_that_is_left_to_torch_is_so_in_every_size(tmp_path: Path) -> None:
    """A submission that computes one of two linear layers, and leaves the other to torch, passes.

    The submission passes in every case, even where its own layer is the smaller one. A note gives
    the share of the work that torch did.
    """
    report = check_on(LAYERS, OWN_LAYER, tmp_path)
    assert report.verdict == "passed", headline(report)
    assert {case.verdict for case in report.cases} == {"passed"}
    assert report.own_work == pytest.approx(16 / (16 + 48))
    assert "left to torch: Linear (aten::addmm), 75.0% of the work" in report.notes
    both = OWN_LAYER[: OWN_LAYER.index("        own = extension")] + BOTH[1:]
    report = check_on(LAYERS, both, tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "which is all that the reference does" in report.message


@pytest.mark.thorough
def test_sizes_that_fall_back_to_torch_are_declined(tmp_path: Path) -> None:
    """A case in which the submission only calls torch is declined.

    The outputs in the declined case must be right nevertheless. A submission that only calls torch
    at the reference's own sizes fails.
    """
    reference = REFERENCE.replace("self.scale * x + torch.relu(y)", "torch.relu(x)")
    reference = reference.replace("forward(self, x, y)", "forward(self, x)")
    reference = reference.replace("torch.rand(rows, columns), ", "", 1)
    submission = SUBMISSION.replace("forward(self, x, y)", "forward(self, x)")
    submission = submission.replace("scale * x[i] + fmaxf(y[i], 0.0f)", "fmaxf(x[i], 0.0f)")
    own = "return extension.run(x, x, self.scale)"
    submission = submission.replace("return extension.run(x, y, self.scale)", own)
    fallback = f"if x.size(1) % 4:\n            return {{}}\n        {own}"
    report = check_on(
        reference, submission.replace(own, fallback.format("torch.relu(x)")), tmp_path
    )
    assert report.verdict == "passed", headline(report)
    assert report.own_configuration == "passed"
    verdicts = {(bool(case.input_shapes[0][1] % 4), case.verdict) for case in report.cases}
    assert verdicts == {(False, "passed"), (True, "declined")}
    declined = next(case for case in report.cases if case.verdict == "declined")
    assert declined.message.startswith("falls back to torch: torch ran aten::relu")
    assert any("falls back to torch" in note for note in report.notes)
    wrong = check_on(reference, submission.replace(own, fallback.format("x.abs()")), tmp_path)
    assert wrong.verdict == "failed"
    always = fallback.format("torch.relu(x)").replace("% 4", "> 0")
    report = check_on(reference, submission.replace(own, always), tmp_path, "--grid", "own")
    assert report.verdict == "failed"
    assert "own work: " in report.message


STEPS = """
import torch
from torch import nn

steps, batch, features = 400, 2, 8


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(2 * features, features) for _ in range(2)])

    def forward(self, x):
        states = [torch.zeros_like(x[0]) for _ in self.cells]
        for step in range(x.size(0)):
            below = x[step]
            for number, cell in enumerate(self.cells):
                states[number] = torch.tanh(cell(torch.cat([below, states[number]], 1)))
                below = states[number]
        return below


def get_inputs():
    return [torch.rand(steps, batch, features)]


def get_init_inputs():
    return [features]
"""

LOOP = """
class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(2 * features, features) for _ in range(2)])

    def forward(self, x):
        states = [torch.zeros_like(x[0]) for _ in self.cells]
        for step in range(x.size(0)):
            below = x[step]
            for number, cell in enumerate(self.cells):
                both = torch.cat([below, states[number]], 1)
                below = states[number] = extension.run(both, cell.weight, cell.bias)
        return below
"""


@pytest.mark.thorough
def test_loop_of_many_launches_may_have_a_small_output(tmp_path: Path) -> None:
    """A submission with a small output may launch kernels in a loop over many steps.

    The addresses in these launches do not count as numbers that the host computed.
    """
    tanh = OWN_LAYER.replace("y[i] = sum;", "y[i] = tanhf(sum);")
    loop = tanh[: tanh.index("class ModelNew")] + LOOP[1:]
    report = check_on(STEPS, loop, tmp_path, "--grid", "own")
    assert report.verdict == "passed", headline(report)
    assert report.cases[0].input_shapes[0][0] >= 128
