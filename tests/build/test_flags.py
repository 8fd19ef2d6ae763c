"""The architecture that a submission asks for, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build.flags import Device, Extension, Target, cuda_command
from harness.build.toolchain import find_toolchain
from harness.evaluate import Request, evaluate
from tests.support import REFERENCE

# Compiles for Hopper with its own features only, as wgmma needs it.
SUBMISSION = '''
import os
from torch import nn
from torch.utils.cpp_extension import load_inline

{before}
load_inline(
    name="architecture",
    cpp_sources="",
    cuda_sources="""
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error not compiled for 90a
#endif
__global__ void nothing() {{}}
""",
    extra_cuda_cflags={flags},
    no_implicit_headers=True,
    is_python_module=False,
)

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
'''


@pytest.mark.parametrize(
    ("before", "flags"),
    [
        ("", ["-gencode", "arch=compute_90a,code=sm_90a"]),
        ("os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0;9.0a'", []),
    ],
)
def test_submission_is_compiled_for_what_it_asks(
    tmp_path: Path, before: str, flags: list[str]
) -> None:
    """An architecture is named by nvcc's flags, or in the variable that torch reads."""
    path = tmp_path / "architecture.py"
    path.write_text(SUBMISSION.format(before=before, flags=flags))
    # With no case to run, importing is all that is done.
    problem = REFERENCE / "conv_transpose1d.py"
    report = evaluate(Request(path, problem, "simulator", only=frozenset()))
    assert (report.verdict, report.detail) == ("not run", "")
    assert [build.name for build in report.builds] == ["architecture"]


@pytest.mark.parametrize(
    ("flags", "device", "expected"),
    [
        (("-O3",), "simulator", ["arch=compute_90,code=compute_90"]),
        (("-O3",), "cuda", ["arch=compute_90,code=sm_90"]),
        (("-arch=sm_80",), "simulator", ["arch=compute_80,code=compute_80"]),
        (("-gencode=arch=compute_90a,code=sm_90a",), "cuda", ["arch=compute_90a,code=sm_90a"]),
        # The newest that a device of architecture 90 runs.
        (
            (
                "-gencode=arch=compute_80,code=sm_80",
                "-gencode=arch=compute_90a,code=sm_90a",
                "-gencode=arch=compute_100a,code=sm_100a",
            ),
            "simulator",
            ["arch=compute_90a,code=compute_90a"],
        ),
    ],
)
def test_architecture_flags(flags: tuple[str, ...], device: Device, expected: list[str]) -> None:
    """A GPU's build keeps the submission's own flags; the simulator's is for one architecture."""
    extension = Extension("x", (("x.cu", ""),), cuda_flags=flags)
    command = cuda_command(extension, find_toolchain(), Target(device), "x.cu", light=True)
    assert [
        word.removeprefix("-gencode=") for word in command if word.startswith("-gencode=")
    ] == expected
