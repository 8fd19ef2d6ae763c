"""Findings about work that a library did, and about changed state, on the simulated device."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.device.operator_names import computes, is_library
from harness.evaluate import evaluate
from harness.problems.discovery import discover
from harness.problems.grid import cases_for
from harness.problems.problem import load
from harness.records.render import headline
from harness.records.report import Report
from tests.support import request_for

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias=False):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=bias)

    def forward(self, x):
        return self.conv(x)

def get_inputs():
    return [torch.rand(2, 32, 40)]

def get_init_inputs():
    return [32, 32, 3]
"""

SUBMISSION = '''
import os
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = """
#include <torch/extension.h>

__global__ void copies(const float* from, float* to, long count) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}

// Packed weights lie (kernel_size, in_channels, out_channels); splits of the sum meet in atomics.
__global__ void convolves(const float* x, const float* w, float* y, int ci, int co, int n, int k,
                          int splits, long count) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= count * splits) return;
    int split = i / count, m = n + k - 1;
    long at = i % count;
    int t = at % m, o = at / m % co;
    long b = at / m / co;
    float sum = 0;
    for (int c = split; c < ci; c += splits)
        for (int j = 0; j < k; ++j)
            if (t - j >= 0 && t - j < n)
                sum += x[(b * ci + c) * n + t - j] * w[((long)j * ci + c) * co + o];
    if (splits == 1) y[at] = sum; else atomicAdd(y + at, sum);
}

torch::Tensor copied(torch::Tensor from) {
    auto source = from.contiguous();
    auto to = torch::empty_like(source);
    long count = source.numel();
    copies<<<(count + 255) / 256, 256>>>(source.data_ptr<float>(), to.data_ptr<float>(), count);
    return to;
}

torch::Tensor convolved(torch::Tensor x, torch::Tensor w, int64_t splits) {
    int k = w.size(0), ci = w.size(1), co = w.size(2), n = x.size(2);
    auto y = torch::zeros({x.size(0), co, n + k - 1}, x.options());
    long count = y.numel();
    convolves<<<(count * splits + 127) / 128, 128>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), ci, co, n, k, splits, count);
    return y;
}
"""

extension = load_inline(
    name="integrity",
    cpp_sources="torch::Tensor copied(torch::Tensor from);"
    "torch::Tensor convolved(torch::Tensor x, torch::Tensor w, int64_t splits);",
    cuda_sources=CUDA_SOURCE, functions=["copied", "convolved"],
)

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias=False):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=bias)

    def own(self, x, splits=1):
        y = extension.convolved(x, self.conv.weight.permute(2, 0, 1).contiguous(), splits)
        if self.conv.bias is not None:
            y += self.conv.bias[:, None]
        return y

    def by_operators(self, x):
        w, n = self.conv.weight, x.shape[2]
        y = x.new_zeros(x.shape[0], w.shape[1], n + w.shape[2] - 1)
        for k in range(w.shape[2]):
            for c in range(w.shape[0]):
                y[:, :, k : k + n] += x[:, c : c + 1] * w[c, :, k][None, :, None]
        return y if self.conv.bias is None else y + self.conv.bias[:, None]

    def by_matmul(self, x):
        w, n = self.conv.weight, x.shape[2]
        y = x.new_zeros(x.shape[0], w.shape[1], n + w.shape[2] - 1)
        for k in range(w.shape[2]):
            y[:, :, k : k + n] += w[:, :, k].t() @ x
        return y if self.conv.bias is None else y + self.conv.bias[:, None]

    def forward(self, x):
'''

FORWARDS = {
    "library": "return self.conv(x)",
    "decoy": "extension.copied(x); return self.conv(x)",
    "laundered": "return extension.copied(self.conv(x))",
    "elementwise": "return extension.copied(self.by_operators(x))",
    "matmul": "return extension.copied(self.by_matmul(x))",
    "small_only": "return self.own(x) if x.numel() > 2000 else self.conv(x)",
    "host": (
        "weight, bias = self.conv.weight.cpu(), self.conv.bias\n"
        "        bias = None if bias is None else bias.cpu()\n"
        "        y = nn.functional.conv_transpose1d(x.cpu(), weight, bias)\n"
        "        return extension.copied(y.cuda())"
    ),
    "zeroes_input": "y = self.own(x); x.zero_(); return y",
    "scales_weight": "y = self.own(x); self.conv.weight.data.mul_(0.5); return y",
    "patches": "torch.cuda.synchronize = lambda *_: None; return self.own(x)",
    "tf32": "torch.backends.cuda.matmul.allow_tf32 = True; return self.own(x)",
    "stream": "torch.cuda.set_stream(torch.cuda.Stream()); return self.own(x)",
    "thread": "__import__('threading').Timer(60, print).start(); return self.own(x)",
    "by_version": (
        "key = (x.data_ptr(), x._version, self.conv.weight._version)\n"
        "        if getattr(self, 'key', None) != key: self.key, self.kept = key, self.own(x)\n"
        "        return self.kept.clone()"
    ),
    "by_sample": (
        "key = (x.flatten()[0].item(), x.flatten()[-1].item(), self.conv.weight.sum().item())\n"
        "        self.known = getattr(self, 'known', {})\n"
        "        if key not in self.known: self.known[key] = self.own(x)\n"
        "        return self.known[key].clone()"
    ),
    "honest": "os.environ['MAX_JOBS'] = '2'; torch.backends.cudnn.benchmark = True\n"
    "        return self.own(x.contiguous()).to(x.dtype)",
    "constants": (
        "y = self.own(x)\n"
        "        lowest = torch.full(y.shape, -torch.inf).cuda()\n"
        "        return torch.maximum(y, lowest.clone().copy_(torch.full(y.shape, -1e30)))"
    ),
    "prepacks": (
        "w = self.conv.weight\n"
        "        if getattr(self, 'version', None) != w._version:\n"
        "            self.version, self.packed = w._version, w.permute(2, 0, 1).contiguous()\n"
        "        y = extension.convolved(x, self.packed, 1)\n"
        "        return y if self.conv.bias is None else y + self.conv.bias[:, None]"
    ),
    # A tenth of the products, but each of these numbers could hold several of them.
    "packed": (
        "y = self.own(x)\n"
        "        wide = y.double()\n"
        "        for _ in range(x.shape[1] * self.conv.weight.shape[2] // 10): wide = wide * 1.0\n"
        "        return extension.copied(wide.float())"
    ),
    "scaled": "return self.own(x * 0.5) * 2 if self.conv.bias is None else self.own(x)",
    "atomics": "return self.own(x, 3)",
}


class Bench:
    """An evaluator of one submission with different bodies of forward."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problem = folder / "reference.py"
        self._problem.write_text(REFERENCE)

    def report(self, way: str) -> Report:
        """Return the report on a submission with one body of forward.

        It has three cases, one of them the problem's own configuration.
        """
        # All files have one name and differ in the last line only, so the extension is built once.
        path = self._folder / way / "submission.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{SUBMISSION}        {FORWARDS[way]}\n")
        (found,) = discover([path]).submissions
        own, *others = cases_for(load(self._problem), found, seed=11)
        chosen = {own.id, *[case.id for case in others if case.label == "grid"][:2]}
        request = request_for(path, self._problem, *chosen, seed=11)
        return evaluate(request)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return an evaluator for all tests of this file, which share a built extension."""
    return Bench(tmp_path_factory.mktemp("integrity"))


def messages(report: Report, severity: str = "error") -> str:
    """Return all findings of a report with one severity, one per line."""
    found = [f for case in report.cases for f in case.findings if f.severity == severity]
    return "\n".join(f"{f.check}: {f.message}" for f in found)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("library", "own work: none of its own kernels was launched"),
        ("decoy", "elements that have terms, only 0 come from its own kernels"),
        (
            "laundered",
            "ConvTranspose1d (aten::slow_conv_transpose2d) did 100 % of the work",
        ),
        ("elementwise", "own work: torch operators computed 100 % of the products"),
        ("packed", "of the products that the output needs (aten::mul (64-bit))"),
        ("matmul", "mm did "),
        ("small_only", "(aten::slow_conv_transpose2d) did "),
        ("host", "bytes were copied from the host during the call"),
        ("zeroes_input", "state: the input was changed in place"),
        ("scales_weight", "state: conv.weight changed in place"),
        ("patches", "state: replaced torch.cuda.synchronize during forward"),
        ("tf32", "state: changed torch.backends.cuda.matmul.allow_tf32 from False to True"),
        ("stream", "state: changed the current stream"),
        ("thread", "state: left a thread running during forward"),
    ],
)
def test_cheat_is_a_finding(bench: Bench, way: str, message: str) -> None:
    """A cheat fails the submission with a finding that says what the cheat did."""
    report = bench.report(way)
    assert report.verdict == "failed"
    assert message in messages(report)
    # Weights that stay changed make later outputs wrong, and the message names those first.
    assert report.message.startswith(("own work: ", "state: ")) or way == "scales_weight"


def test_work_of_a_library_is_none_of_its_own(bench: Bench) -> None:
    """If a library computes the output, the submission's share of the work is 0.

    Too little arithmetic in the submission's kernels is reported as well.
    """
    report = bench.report("laundered")
    assert report.own_work == 0
    assert "did only 0 floating-point operations" in messages(report)


def test_constants_of_the_host_are_no_answers(bench: Bench) -> None:
    """A tensor of one repeated number that is made on the host is not an output from the host."""
    assert bench.report("constants").verdict == "passed"


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["by_version", "by_sample"])
def test_remembered_output_is_wrong(bench: Bench, way: str) -> None:
    """A submission fails if it returns the output of an earlier call for new values.

    The submission `by_version` recognises values by their version counter, which some changes do
    not increase. The submission `by_sample` compares a few numbers, and later gets values that are
    nearly equal.
    """
    report = bench.report(way)
    assert report.verdict == "failed"
    assert any(case.wrong_runs for case in report.cases)


def test_honest_habits_are_fine(bench: Bench) -> None:
    """Harmless settings are reported, and the submission passes.

    Adding a bias or casting in torch does not lower the submission's share of the work.
    """
    report = bench.report("honest")
    assert report.verdict == "passed"
    assert report.own_work == 1.0
    assert "torch.backends.cudnn.benchmark" in messages(report, "warning")
    assert "MAX_JOBS" in messages(report, "info")
    assert "own kernels" not in headline(report)


@pytest.mark.thorough
def test_weights_packed_once_are_followed(bench: Bench) -> None:
    """A submission may keep packed weights if it packs again when the version counter changes."""
    assert bench.report("prepacks").verdict == "passed"


def test_small_share_of_torch_is_told(bench: Bench) -> None:
    """A submission that leaves a small share of the work to torch passes; the headline says so."""
    report = bench.report("scaled")
    assert report.verdict == "passed"
    assert report.own_work is not None
    assert 0.9 < report.own_work < 1
    assert f"{report.own_work:.1%} of the work by its own kernels" in headline(report)


@pytest.mark.thorough
def test_sums_in_any_order_are_nondeterministic(bench: Bench) -> None:
    """Sums by atomics, which depend on the order of blocks, pass and are reported."""
    report = bench.report("atomics")
    assert report.verdict == "passed"
    assert not report.is_deterministic
    assert "nondeterministic" in headline(report)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "_scaled_mm", "slow_conv_transpose2d"])
def test_products_summed_are_a_librarys(name: str) -> None:
    """Operators that sum products, and their in-place variants, count as a library's work."""
    assert is_library(f"aten::{name}")
    assert is_library(f"aten::{name}_")


def test_names_that_only_look_like_it() -> None:
    """Sums and norms count as computing, but not as a library's work.

    Operators that only move numbers, such as `copy_`, do not count as computing.
    """
    assert not any(is_library(f"aten::{name}") for name in ("add_", "sum", "unfold", "norm"))
    assert not any(computes(f"aten::{name}") for name in ("copy_", "cat (complex)", "_to_copy"))
    assert all(computes(f"aten::{name}") for name in ("mul", "addcmul_", "exp", "sum", "where"))
    assert all(computes(f"aten::{name}") for name in ("copy (scaled)", "abs (complex)", "norm"))
    assert computes("aten::linalg_vector_norm")


def test_operator_that_is_not_known_is_a_librarys() -> None:
    """An operator of torch with an unknown name counts as a library's.

    Matrix products have many names, and each release of torch adds new ones.
    """
    assert is_library("aten::_weight_int8pack_mm")
    assert is_library("aten::_transformer_encoder_layer_fwd")
    assert is_library("aten::an_operator_to_come")
