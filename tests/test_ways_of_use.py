"""Ways in which submissions use torch and their reference, as torch and KernelBench allow them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records.report import Report
from tests.test_other_reference import check_on

REFERENCE = """
import torch
from torch import nn

batch_size = 16
dim = 100


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
"""

BUILD = '''
import ctypes
import os
import torch
from torch import nn
from torch.utils.cpp_extension import load, load_inline

KERNEL = """
#include <torch/extension.h>

__global__ void kernel(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = VALUE;
}

torch::Tensor NAME(torch::Tensor x) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}

extern "C" void launch(const float *x, float *out, int n) {
    kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}
"""


def build(function, value, **options):
    return load_inline(
        name="relu",
        cpp_sources=f"torch::Tensor {function}(torch::Tensor x);",
        cuda_sources=KERNEL.replace("NAME", function).replace("VALUE", value),
        **{"functions": [function], **options},
    )
'''

MODEL = """

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
"""


def check(built: str, forward: str, folder: Path, *options: str) -> Report:
    """Write a submission, check it with these options, and return the report.

    Args:
        built: The text that builds the submission's extensions.
        forward: The body of its forward method.
        folder: The folder to write it to.
        *options: Further options of `harness check`.
    """
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    return check_on(REFERENCE, BUILD + built + MODEL + lines, folder, *options)


OWN = ("--grid", "own")

TWICE = """
first = build("relu", "fmaxf(x[i], 0.0f)")
second = build("copy", "SECOND")
"""

LIBRARY = """
path = build("relu", "fmaxf(x[i], 0.0f)", functions=None, is_python_module=False)
library = ctypes.CDLL(path)
library.launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
"""

BESIDE = """
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc", "build")
os.makedirs(folder, exist_ok=True)
relu = build("relu", "fmaxf(x[i], 0.0f)", build_directory=folder).relu
assert os.path.isfile(os.path.join(folder, "relu.so"))
"""

WRITTEN = """
folder = os.path.dirname(os.path.abspath(__file__))
source = os.path.join(folder, "written.cu")
with open(source, "w") as file:
    file.write(KERNEL.replace("NAME", "relu").replace("VALUE", "fmaxf(x[i], 0.0f)"))
    file.write("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\\"relu\\", &relu); }")
relu = load(name="written", sources=source, build_directory=folder).relu
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("second", "verdict"), [("x[i]", "passed"), ("x[i] + 1.0f", "failed")])
def test_two_extensions_of_one_name_are_two(tmp_path: Path, second: str, verdict: str) -> None:
    """Two extensions with the same name are kept apart: each has its own functions and kernels."""
    built = TWICE.replace("SECOND", second)
    report = check(built, "return second.copy(first.relu(x))", tmp_path, *OWN)
    assert report.verdict == verdict, report.message
    assert [build.name for build in report.builds] == ["relu", "relu_v1"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("size", "verdict"), [("x.numel()", "passed"), ("x.numel() - 1", "failed")]
)
def test_library_is_opened_by_ctypes(tmp_path: Path, size: str, verdict: str) -> None:
    """`load_inline` with `is_python_module=False` returns a library's path, which ctypes opens."""
    call = f"library.launch(x.data_ptr(), out.data_ptr(), {size})"
    forward = f"out = torch.empty_like(x)\n{call}\nreturn out"
    report = check(LIBRARY, forward, tmp_path, *OWN)
    assert report.verdict == verdict, report.message


@pytest.mark.thorough
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("built", [BESIDE, WRITTEN], ids=["build directory", "source"])
def test_submission_writes_beside_its_file(tmp_path: Path, built: str) -> None:
    """Files that a submission writes beside its own exist only in the sandbox.

    The real folder stays as it is.
    """
    report = check(built, "return relu(x)", tmp_path, *OWN)
    assert report.verdict == "passed", report.message
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"combine.py", "reference.py"}


NOTE = (
    "the file does not define {}: it gets the reference's values, because KernelBench executes "
    "both files in one namespace"
)
RELU = "relu = build('relu', 'fmaxf(x[i], 0.0f)').relu\n"
READS = {
    "forward": ("", "assert x.shape == (batch_size, dim)"),
    "import": ("SHAPE = (batch_size, dim)\n", "assert x.shape == SHAPE"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("place", READS)
def test_constants_of_the_reference_are_shared(tmp_path: Path, place: str) -> None:
    """A submission can read the constants in the reference's file, which have each case's values.

    A note says that the submission reads them.
    """
    built, reads = READS[place]
    report = check(RELU + built, f"{reads}\nreturn relu(x)", tmp_path)
    assert (report.verdict, report.message) == ("passed", "")
    assert {case.verdict for case in report.cases} == {"passed"}
    assert NOTE.format("batch_size, dim") in report.notes


def test_only_constants_of_the_reference_are_shared(tmp_path: Path) -> None:
    """A submission cannot use the reference's classes, only its constants."""
    report = check(RELU, "return relu(Model()(x))", tmp_path, *OWN)
    assert report.verdict == "error"
    assert "NameError: name 'Model' is not defined" in report.message
    assert not any("does not define" in note for note in report.notes)
