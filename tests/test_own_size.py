"""Submissions whose text contains the reference's own sizes, which the simulator cuts down."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.problems.written_sizes import sign_of, stated_in
from harness.records.render import full
from harness.records.report import Report
from tests.support import request_for

REFERENCE = """
import torch
from torch import nn

rows = 128
columns = 16384


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
"""

# One build serves all: a number in the text of `forward` selects what the kernel does.
SUBMISSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#define ROWS 128
#define COLUMNS 16384

__global__ void relu_of_shape(const float4* x, float4* y, int way) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[i];
    float least = way == 2 ? -0.5f : 0.0f;
    float last = way == 1 && i == ROWS * COLUMNS / 4 - 1 ? 1.0f : 0.0f;
    y[i] = make_float4(fmaxf(v.x, least), fmaxf(v.y, least), fmaxf(v.z, least),
                       fmaxf(v.w, 0.0f) + last);
}

__global__ void relu_of_any(const float* x, float* y, int n, float least) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], least);
}

torch::Tensor relu(torch::Tensor x, int64_t way) {
    if (way == 3) {
        bool is_cut = x.size(0) != 3 && x.size(0) < ROWS;
        auto y = torch::empty_like(x);
        int n = x.numel();
        relu_of_any<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n,
                                              is_cut ? -0.5f : 0.0f);
        return y;
    }
    auto y = torch::empty({ROWS, COLUMNS}, x.options());
    relu_of_shape<<<ROWS * COLUMNS / 4 / 256, 256>>>((const float4*)x.data_ptr<float>(),
                                                     (float4*)y.data_ptr<float>(), way);
    return y;
}
"""

extension = load_inline(
    name="relu_of_shape",
    cpp_sources="torch::Tensor relu(torch::Tensor x, int64_t way);",
    cuda_sources=CUDA,
    functions=["relu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu(x, 0)
'''

SIZE = "(128, 16384)"
BORROWED = "torch.relu(x) if len(x) < 128 else extension.relu(x, 0)"


def check(folder: Path, call: str = "extension.relu(x, 0)", **fields: int) -> Report:
    """Return the report of a submission whose forward returns the value of `call`.

    The submission runs in the reference's own configuration and in all cases of 2 or 3 rows. The
    keyword arguments are fields of the request.
    """
    reference, submission = folder / "relu.py", folder / "fixed.py"
    reference.write_text(REFERENCE)
    submission.write_text(SUBMISSION.replace("return extension.relu(x, 0)", f"return {call}"))
    grid = [case.id for case in request_for(submission, reference).cases]
    ids = [grid[0], *(name for name in grid if name.startswith(("rows=2-", "rows=3-")))]
    return evaluate(request_for(submission, reference, *ids, seed=1, **fields))


@pytest.mark.thorough
def test_shape_in_the_text_is_run_at_that_shape(tmp_path: Path) -> None:
    """A submission that is right only at its reference's size passes; other cases are declined."""
    report = check(tmp_path)
    assert (report.verdict, report.own_configuration) == ("passed", "passed"), full(report)
    assert report.cases[0].input_shapes == ((128, 16384),)
    assert {case.verdict for case in report.cases[1:]} == {"declined"}
    told = f"the problem's own configuration is right at its native size, {SIZE}, and not where it"
    assert any(note.startswith(told) for note in report.notes), report.notes
    told = f"written for {SIZE}: {len(report.cases) - 1} cases of other sizes are not right or not"
    assert any(note.startswith(told) for note in report.notes), report.notes


@pytest.mark.thorough
def test_wrong_at_the_native_size_too(tmp_path: Path) -> None:
    """A submission for one size fails if its last element is wrong at that size."""
    report = check(tmp_path, "extension.relu(x, 1)")
    assert report.verdict == "failed", full(report)
    told = f"at its native size, {SIZE}, the problem's own configuration is not right either: "
    assert any(note.startswith(told) for note in report.notes), report.notes


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "verdict"), [(0, "passed"), (2, "failed")])
def test_a_sample_of_blocks_runs_beyond_the_budget(tmp_path: Path, way: int, verdict: str) -> None:
    """If the reference's own size takes too long, a random sample of blocks runs.

    The sample detects a wrong kernel.
    """
    report = check(tmp_path, f"extension.relu(x, {way})", call_budget=12 * 10**6)
    assert report.verdict == verdict, full(report)
    assert all(case.verdict != "passed" for case in report.cases[1:])
    assert any("in a sample of its blocks" in note for note in report.notes) == (way == 0)


@pytest.mark.thorough
def test_native_size_that_is_not_run_is_unsupported(tmp_path: Path) -> None:
    """If not even a sample of blocks can run at the reference's size, the verdict is `unsupported`.

    The message gives the size for which the submission is written.
    """
    report = check(tmp_path, call_budget=10**5)
    assert report.verdict == "unsupported", full(report)
    assert report.message == f"written for {SIZE}, which was not run; a GPU will do"


@pytest.mark.thorough
def test_mistakes_at_other_sizes_count(tmp_path: Path) -> None:
    """A submission for one size fails if it is right at only some other sizes."""
    report = check(tmp_path, "extension.relu(x, 3)")
    assert report.verdict == "failed", full(report)


@pytest.mark.thorough
def test_other_sizes_may_be_left_to_torch(tmp_path: Path) -> None:
    """A submission may run its kernel at the reference's own size, and torch at all others."""
    report = check(tmp_path, BORROWED)
    assert report.verdict == "passed", full(report)
    others = [case for case in report.cases if case.label != "native"]
    assert {case.verdict for case in others} == {"declined"}
    assert all(case.message.startswith("falls back to torch: ") for case in others)


def sign(code: str, *, python: str = "") -> str | None:
    """Return how certain it is that CUDA code is written for the shapes (48, 512) and (224, 16384).

    The result is "clear", "possible" or None. The simulator cuts both shapes to (4, 64).
    """
    native, cut = [(48, 512), (224, 16384)], [(4, 64), (4, 64)]
    return sign_of(f"run({code!r})\n{python}", [48], native, cut)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("#define COLUMNS 512", "clear"),
        ("template <int N> f(); f<16384>(x);", "clear"),
        ("x[row * 224 + i]", "clear"),
        ("int n = 48 * 512;", "clear"),
        ("i < 4096", "clear"),  # vectors of four numbers
        ("f<<<14336, 256>>>(x)", "clear"),  # blocks that make the whole second shape
        ("row < 512", "possible"),
        ("f<<<99, 256>>>(x)", "possible"),
        ("#define TILE 512", None),
        ("(n + 511) / 512", None),
        ("dim3 threads(512);", None),
        ("__shared__ float part[512];", None),
        ("x[7 * i] // 16384 columns", None),
    ],
)
def test_signs_of_native_sizes(code: str, found: str | None) -> None:
    """A constant that equals one of the reference's sizes shows that code is written for that size.

    The same holds for a product of sizes, but not for the size of a block or tile.
    """
    assert sign(code) == found


@pytest.mark.parametrize(
    ("python", "found"),
    [
        ("columns = 16384\ndef get_inputs(): return torch.rand(48, columns)", None),
        ("class ModelNew:\n    '''For (224, 16384).'''", None),
        (
            "columns = 16384\nclass ModelNew:\n    def forward(self, x): return f(x, columns)",
            "clear",
        ),
        ("def forward(x): return f(x, 16384)", "clear"),
    ],
)
def test_signs_in_python(python: str, found: str | None) -> None:
    """A number that a Python call uses can show that code is written for the reference's sizes.

    Numbers in copies of `get_inputs` and in docstrings do not count.
    """
    assert sign("", python=python) == found


def test_text_that_does_not_parse_has_no_numbers() -> None:
    """A text that does not parse, which the worker reports, counts as having no numbers."""
    assert not stated_in("def f(:").every
