"""The CUDA error codes that the simulated device returns."""

from __future__ import annotations

from enum import IntEnum


class CudaError(IntEnum):
    """A `cudaError_t`, with the numbers that CUDA gives its errors."""

    SUCCESS = 0
    INVALID_VALUE = 1
    MEMORY_ALLOCATION = 2
    INVALID_DEVICE_FUNCTION = 98
    INVALID_PTX = 218
    NOT_FOUND = 500
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILURE = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_SUPPORTED = 801
