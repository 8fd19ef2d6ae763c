"""A right kernel that is slow on the simulator: which cases are left out, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.problems.discovery import discover
from harness.problems.grid import OWN, cases_for
from harness.problems.problem import load
from harness.records.report import Report, Verdict
from tests.support import REFERENCE, ROOT, harness, request_for

SCANS = ROOT / "tests" / "slow" / "scans_the_input.py"
BURNS_WHERE_WRONG = ROOT / "tests" / "slow" / "burns_where_wrong.py"
PROBLEM = REFERENCE / "conv_transpose1d.py"
LONG = "k3-s1-b1x1x65539-to1"
INSTEAD = "k3-s1-b1x1x259-to256"


def check(*ids: str, call_budget: int) -> Report:
    """Return the report of a slow kernel on the reference's own sizes and the cases `ids`.

    The budget is the number of thread-instructions that one call may take.
    """
    (submission,) = discover([SCANS]).submissions
    own = {case.id for case in cases_for(load(PROBLEM), submission) if case.label in OWN}
    return evaluate(request_for(SCANS, PROBLEM, *own, *ids, call_budget=call_budget))


@pytest.mark.thorough
def test_case_beyond_the_budget_is_left_out_with_a_note() -> None:
    """A case beyond `--call-budget` is left out with a note, and a smaller case is run instead.

    The kernel scans 65,541 inputs for as many outputs.
    """
    (submission,) = discover([SCANS]).submissions
    others = [case.id for case in cases_for(load(PROBLEM), submission) if case.label not in OWN]
    assert {LONG, INSTEAD} <= set(others)
    # A submission passes if at most one case in ten is left out.
    short = [name for name in others if name not in (LONG, INSTEAD)][:9]
    report = check(*short, LONG, INSTEAD, call_budget=10**9)
    assert report.verdict == "passed"
    assert report.case(LONG).verdict == "not run"
    assert report.case(INSTEAD).verdict == "passed"
    assert any(
        note.startswith(f"{LONG}: not run: more than 1.") and "--call-budget" in note
        for note in report.notes
    )


@pytest.mark.thorough
def test_who_leaves_out_much_does_not_pass() -> None:
    """A kernel does not pass if more than one case in ten is left out because it is slow.

    Otherwise a wrong kernel would only have to be slow where it is wrong.
    """
    report = check(LONG, call_budget=10**6)
    assert report.verdict == "unsupported"
    assert report.own_configuration == "passed"
    assert report.message.startswith("the simulator is too slow for it: not run: more than ")


IN_16_BITS = "const unsigned short index = blockIdx.x * blockDim.x + threadIdx.x;"
IN_15_BITS = "const int index = (blockIdx.x * blockDim.x + threadIdx.x) & 0x7fff;"
HALF = "with inputs of (1, 1, 32770): "


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("index", "verdict", "message"),
    [
        (IN_16_BITS, "unsupported", "times the work that inputs of (1, 1, 32770) take"),
        (IN_15_BITS, "failed", HALF),
    ],
    ids=["16 bits", "15 bits"],
)
def test_loop_that_hides_a_mistake_is_told(
    tmp_path: Path, index: str, verdict: Verdict, message: str
) -> None:
    """A case beyond the budget is not left out if half of its size takes a small part of it.

    The kernel is wrong for more than 65,536 outputs, and loops in vain there. With an index of 15
    bits, it is wrong at half the size too, and fails.
    """
    path = tmp_path / BURNS_WHERE_WRONG.name
    text = BURNS_WHERE_WRONG.read_text()
    assert IN_16_BITS in text
    path.write_text(text.replace(IN_16_BITS, index))
    report = evaluate(request_for(path, PROBLEM, LONG, call_budget=2 * 10**8))
    case = report.case(LONG)
    assert case.verdict == verdict, case.message
    assert message in case.message


SQUARE = """
import torch
from torch import nn

N = 256


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
"""
BURNS = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void burn(const float* a, float* out) {
    float sum = 0.0f;
    for (int i = 0; i < 1000000; ++i) sum += a[i % 256];
    out[threadIdx.x] = sum;
}

__global__ void put(const float* right, float* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = right[i];
}

void run(torch::Tensor a, torch::Tensor out, bool burns) {
    if (burns) burn<<<1, 256>>>(a.data_ptr<float>(), out.data_ptr<float>());
    else put<<<1, 256>>>(a.data_ptr<float>(), out.data_ptr<float>(), out.numel());
}
"""
built = load_inline(
    name="burns", cpp_sources="void run(torch::Tensor a, torch::Tensor out, bool burns);",
    cuda_sources=CUDA, functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        right = a if a.shape[0] > 16 else (a.cpu() @ b.cpu()).cuda()
        built.run(right, out, a.shape[0] > 16)
        return out
'''


@pytest.mark.thorough
def test_budget_does_not_lead_to_a_size_at_which_the_host_may_do_the_work(tmp_path: Path) -> None:
    """A submission that is too slow at all but tiny sizes is not run at these.

    It could use up the budget on purpose, and do the work of the tiny sizes on the host.
    """
    (tmp_path / "square.py").write_text(SQUARE)
    (tmp_path / "burns.py").write_text(BURNS)
    options = ("--reference", "square.py", "--call-budget", "0.01", "--grid", "own")
    done = harness("check", "burns.py", *options, folder=tmp_path)
    assert "burns on square: not run: not run: more than " in done.out
    assert done.status == 1
