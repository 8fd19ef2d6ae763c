"""The worker's classification of exceptions about missing headers, functions or modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compiler.extension import ExtensionBuildError
from harness.worker.inside.faults import describe

SUBMISSION = Path("absent.py")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "kernel.py:3:10: fatal error: cublas_v2.h: No such file or directory\n"
            "compilation terminated.",
            "cublas_v2.h is not available: of CUDA's libraries, the harness has only the runtime",
        ),
        (
            "In file included from a.cu:1:\n/usr/include/b.h:4:10: fatal error: cudnn.h: No such "
            "file or directory",
            "cudnn.h is not available: of CUDA's libraries, the harness has only the runtime",
        ),
        (
            'kernel.py(12): error: identifier "cublasSgemm" is undefined',
            "the harness's device does not support cublasSgemm",
        ),
        (
            "kernel.py:9:3: error: ‘cufftPlan1d’ was not declared in this scope",  # noqa: RUF001
            "the harness's device does not support cufftPlan1d",
        ),
        ('kernel.py(12): error: identifier "scalar_type" is undefined', None),
        ("kernel.py:3:10: fatal error: mine.h: No such file or directory", None),
    ],
)
def test_library_that_is_not_here_is_unsupported(output: str, message: str | None) -> None:
    """A build error about a missing CUDA library is `unsupported`; others stay build errors."""
    fault = describe(ExtensionBuildError("kernel", output), SUBMISSION)
    if message is None:
        assert fault.kind == "build"
    else:
        assert (fault.kind, fault.message) == ("unsupported", message)


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (ImportError("a.so: undefined symbol: cudaGraphLaunch"), "cudaGraphLaunch()"),
        (OSError("a.so: undefined symbol: cublasSgemm_v2"), "cublasSgemm_v2()"),
        (
            ImportError("a.so: undefined symbol: _ZN2at4cuda24getCurrentCUDABlasHandleEb"),
            "at::cuda::getCurrentCUDABlasHandle(bool)",
        ),
        (RuntimeError("Tried to instantiate dummy base class CUDAGraph"), "torch.cuda.CUDAGraph"),
        (
            RuntimeError("Cannot get CUDA generator without ATen_cuda library. PyTorch splits"),
            "a CUDA generator for torch",
        ),
        (
            AttributeError("module 'torch._C' has no attribute '_cuda_sleep'"),
            "torch._C._cuda_sleep()",
        ),
    ],
)
def test_call_that_is_not_here_is_unsupported(error: Exception, missing: str) -> None:
    """An exception about a missing CUDA function is `unsupported`, and names the function."""
    fault = describe(error, SUBMISSION)
    assert (fault.kind, fault.message) == (
        "unsupported",
        f"the harness's device does not support {missing}",
    )


@pytest.mark.parametrize(
    "error",
    [ImportError("No module named 'triton'"), RuntimeError("undefined symbol: x"), OSError("full")],
)
def test_other_errors_stay_exceptions(error: Exception) -> None:
    """Other errors with similar messages are classified as exceptions of the submission."""
    assert describe(error, SUBMISSION).kind == "exception"
