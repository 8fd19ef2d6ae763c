"""The CUDA releases of the driver and of torch, which decide what a machine's GPU can run."""

from __future__ import annotations

import ctypes

import torch

from harness.compiler.toolchain import CudaOfGpu


def cuda_here() -> CudaOfGpu | None:
    """Return the CUDA releases of this machine's driver and torch; None if torch sees no GPU."""
    return cuda_of_gpu() if torch.cuda.is_available() else None


def cuda_of_gpu() -> CudaOfGpu:
    """Return the newest CUDA release of the driver, and the release that torch was built for.

    The function calls cuDriverGetVersion, which needs no CUDA context
    (https://docs.nvidia.com/cuda/cuda-driver-api). If a CUDA compatibility package replaces the
    driver library, the function returns the release that the package supports.
    """
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    major, minor = (torch.version.cuda or "0.0").split(".")[:2]
    return CudaOfGpu(
        driver=(version.value // 1000, version.value % 1000 // 10), torch=(int(major), int(minor))
    )
