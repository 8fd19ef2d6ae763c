"""Findings of the simulated device, such as races and deadlocks, with their lines in reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.problems.discovery import discover
from harness.problems.grid import case_again
from harness.problems.problem import load
from harness.records.report import Report
from tests.support import harness, reports, request_for

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, mode):
        super().__init__()

    def forward(self, x):
        return x.flatten().flip(0).view_as(x)

def get_inputs():
    return [torch.rand(2, 2, 64)]

def get_init_inputs():
    return [MODE]
"""

SUBMISSION = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = """
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

__global__ void flip(const float* x, float* y, int n, int mode) {
    __shared__ float room[256];
    int t = threadIdx.x;
    room[t] = x[t];  // store
    if (mode != 1) __syncthreads();
    if (mode == 2) {
        if (t < 100) asm volatile("bar.sync 1;");  // first
        else asm volatile("bar.sync 2;");  // second
    }
    y[t] = room[n - 1 - t];  // load
}

torch::Tensor run(torch::Tensor x, int64_t mode) {
    auto y = torch::empty_like(x);
    float* leaked = nullptr;
    if (mode == 3) cudaMalloc(&leaked, 1000);
    int threads = mode == 4 || mode == 5 || mode == 8 ? 2048 : x.numel();
    float* target = mode == 6 ? nullptr : y.data_ptr<float>();
    flip<<<1, threads>>>(x.data_ptr<float>(), target, x.numel(), mode);  // launch
    if (mode == 4) return y;
    if (mode == 8) {
        cudaError_t error = cudaGetLastError();
        TORCH_CHECK(error == cudaSuccess, "the launch has failed: ", cudaGetErrorString(error));
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (mode == 7) {
        cudaLaunchAttribute pair = {};
        pair.id = cudaLaunchAttributeClusterDimension;
        pair.val.clusterDim = {2, 1, 1};
        cudaLaunchConfig_t config = {dim3(2), dim3(32), 0, nullptr, &pair, 1};
        (void)cudaLaunchKernelEx(&config, flip, x.data_ptr<float>(), target, 32, mode);
    }
    return y;
}
"""

extension = load_inline(
    name="flip", cpp_sources="torch::Tensor run(torch::Tensor x, int64_t mode);",
    cuda_sources=CUDA_SOURCE, functions=["run"],
)

class ModelNew(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        return extension.run(x, self.mode)
'''


def place(text: str) -> str:
    """Return `FILE:LINE` of the submission's only line that ends with this text."""
    lines = SUBMISSION.split("\n")
    (number,) = (n for n, line in enumerate(lines, 1) if line.endswith(text))
    return f"flip.py:{number}"


RIGHT, RACE, DEADLOCK, LEAK, UNREAD, REFUSED, NULL, CLUSTER, READ = range(9)
# The leak comes last: leaks are looked for at the end, and a broken context would have none.
ORDER = (RACE, DEADLOCK, UNREAD, REFUSED, NULL, CLUSTER, READ, LEAK)


def write(folder: Path, mode: int) -> tuple[Path, Path]:
    """Write the submission, and a reference whose constructor argument is the mode.

    The mode selects the mistake that the kernel makes. Return the paths of submission and
    reference.
    """
    submission, reference = folder / "flip.py", folder / f"reference_{mode}.py"
    submission.write_text(SUBMISSION)
    reference.write_text(REFERENCE.replace("MODE", str(mode)))
    return submission, reference


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the submission and its references."""
    return tmp_path_factory.mktemp("flip")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    """Return the submission's report, with one case for each mode (mistake) of the kernel."""
    submission, reference = write(folder, RIGHT)
    problem = load(reference)
    (found,) = discover([submission]).submissions
    asked = request_for(submission, reference)
    cases = tuple(
        case_again(
            problem, found, str(mode), "grid", {"mode": mode}, problem.input_shapes, {}, seed=1
        )
        for mode in ORDER
    )
    return evaluate(replace(asked, cases=(*asked.cases, *cases)))


@pytest.mark.thorough
def test_correct_kernel_has_no_findings(report: Report) -> None:
    """The kernel passes without findings in the mode that keeps its barrier."""
    own, *_ = report.cases
    assert own.verdict == "passed"
    assert own.findings == ()


@pytest.mark.thorough
def test_correct_kernel_has_none_in_another_order(folder: Path) -> None:
    """A right kernel passes when `--schedule` changes the order of blocks and warps.

    The output names the option.
    """
    submission, reference = write(folder, RIGHT)
    options = ("--reference", reference, "--grid", "own", "--json", "-", "--schedule", "3")
    done = harness("check", submission, *options, folder=folder)
    assert done.status == 0, done.err
    (case,) = reports(done.out)["flip"].cases
    assert case.findings == ()
    assert "run with --schedule 3" in done.err


def test_race_fails_a_case_whose_output_is_right(report: Report) -> None:
    """A race fails its case even if the simulator's order of execution gives the right numbers."""
    case = report.case(str(RACE))
    assert case.verdict == "failed"
    assert case.wrong_runs == ()
    assert case.message.startswith(
        f"racecheck: 4-byte store at {place('// store')} races with the load at {place('// load')} "
        "by thread ("
    )
    assert (
        "no barrier between them in flip, the first access by block (0,0,0) thread" in case.message
    )


def test_deadlock_is_told_with_both_lines(report: Report) -> None:
    """A deadlock is reported as a finding with the lines of both barriers.

    The launch fails, and the submission raises the error that CUDA returned. The message gives the
    finding nevertheless.
    """
    case = report.case(str(DEADLOCK))
    assert case.verdict == "failed"
    assert case.message.startswith("synccheck: the block waits forever: 100 threads wait at")
    for text in ("// first", "// second"):
        assert place(text) in case.message
    assert "unspecified launch failure" in case.detail


TOO_LARGE = (
    "CUDA error: invalid argument (flip: a block of 2048 x 1 x 1; "
    "allowed are 1 to 1024 x 1024 x 64)"
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (UNREAD, f"{TOO_LARGE} (the submission did not check cudaGetLastError())"),
        (REFUSED, TOO_LARGE),
    ],
)
def test_refused_launch_is_an_error(report: Report, mode: int, message: str) -> None:
    """A launch with too many threads is an error, even if the submission ignores the launch error.

    The message has CUDA's text for the error, and the reason.
    """
    case = report.case(str(mode))
    assert case.verdict == "error"
    assert case.message.startswith(f"AcceleratorError: {message}")
    assert ("(flip.py:" in case.message) is (mode == REFUSED)


@pytest.mark.thorough
def test_refused_launch_is_no_refusal_of_the_submission(report: Report) -> None:
    """If a submission raises after a failed launch, its case is an error, and not declined."""
    case = report.case(str(READ))
    assert case.verdict == "error"
    expected = "RuntimeError: the launch has failed: invalid argument (flip.py:"
    assert case.message.startswith(expected)


def test_illegal_access_is_told_by_its_finding(report: Report) -> None:
    """A store through a null pointer is reported as a finding with the store's line.

    The launch fails as on a GPU, and the submission raises the error that CUDA returned.
    """
    case = report.case(str(NULL))
    assert case.verdict == "failed"
    assert case.message.startswith("memcheck: 4-byte store through a null pointer: 0x0 in flip at ")
    assert place("// load") in case.message
    assert "an illegal memory access was encountered" in case.detail


@pytest.mark.thorough
def test_cluster_is_unsupported(report: Report) -> None:
    """A launch with thread block clusters is `unsupported`, even if its error is ignored."""
    case = report.case(str(CLUSTER))
    assert case.verdict == "unsupported"
    assert case.message == "the harness's device does not support clusters of more than one block"


@pytest.mark.thorough
def test_leak_is_a_note(report: Report) -> None:
    """Memory from cudaMalloc that is never freed gives a note and no failure.

    Tensors do not count as leaks.
    """
    assert report.case(str(LEAK)).verdict == "passed"
    *_, note = report.notes
    told = re.fullmatch(r"(\d+) allocations of cudaMalloc were never freed, (\d+) bytes", note)
    assert told, note
    assert int(told[2]) == 1000 * int(told[1]) > 0


def test_profile_counts_and_prints(folder: Path) -> None:
    """`harness profile` prints tables with a row for each kernel, and writes the counts as JSON."""
    submission, reference = write(folder, RIGHT)
    options = ("--reference", reference, "--json", "counts.json", "--readable", folder)
    done = harness("profile", submission, *options, folder=folder)
    assert done.status == 0, done.err
    assert "flip on reference_0: ModelNew(mode=0) on input (2, 2, 64)" in done.out
    for words in ("divergent branches", "sectors/request", "registers", "occupancy"):
        assert words in done.out
    data = json.loads((folder / "counts.json").read_text())
    (kernel,) = data["kernels"]
    assert data["schema"] == 3
    counted = sum(line["warp_instructions"] for line in kernel["counters"]["lines"])
    assert counted == sum(kernel["counters"]["warp_instructions"].values())
    assert kernel["counters"]["thread_instructions"]["load global"] == 256
    assert kernel["resources"]["shared_bytes"] == 1024
    assert kernel["occupancy"]["fraction"] == 1.0


@pytest.mark.thorough
def test_profile_of_what_fails_says_why(folder: Path) -> None:
    """`harness profile` gives status 1 and the finding if a kernel deadlocks or has a race."""
    for mode, message in (
        (DEADLOCK, "synccheck: the block waits forever"),
        (RACE, "racecheck: 4-byte store"),
    ):
        submission, reference = write(folder, mode)
        done = harness("profile", submission, "--reference", reference, folder=folder)
        assert done.status == 1
        assert message in done.out
    assert harness("profile", "absent.py", folder=folder).status == 2
