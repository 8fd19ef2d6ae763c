"""Entry points of the CUDA driver that host code gets from cudaGetDriverEntryPoint."""

import ctypes

import pytest

from harness.compiler.cache import Cache, default_root
from harness.compiler.toolchain import find_toolchain
from harness.simulator.actions.tensor_map import TensorMap
from harness.simulator.native.library import build_libraries

pytestmark = pytest.mark.simulator_only

FLOAT16, SWIZZLE_128B = 6, 3


@pytest.fixture(scope="module")
def runtime() -> ctypes.CDLL:
    libraries = build_libraries(Cache(default_root()), find_toolchain())
    return ctypes.CDLL(str(libraries.runtime))


@pytest.mark.parametrize("by_version", [False, True])
def test_tensor_maps_are_encoded_through_the_driver(runtime: ctypes.CDLL, by_version: bool) -> None:
    """The cuTensorMapEncodeTiled from cudaGetDriverEntryPoint encodes only valid tensor maps."""
    found, status = ctypes.c_void_p(), ctypes.c_int(-1)
    name, flags = b"cuTensorMapEncodeTiled", ctypes.c_ulonglong(0)
    if by_version:
        error = runtime.cudaGetDriverEntryPointByVersion(
            name, ctypes.byref(found), 12000, flags, ctypes.byref(status)
        )
    else:
        error = runtime.cudaGetDriverEntryPoint(
            name, ctypes.byref(found), flags, ctypes.byref(status)
        )
    assert (error, status.value) == (0, 0)
    u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    encode = ctypes.CFUNCTYPE(
        ctypes.c_int, pointer, u32, u32, pointer, *(pointer,) * 4, *(u32,) * 4
    )(found.value or 0)
    raw = (ctypes.c_uint8 * 192)()
    start = ctypes.addressof(raw) + -ctypes.addressof(raw) % 64
    dims, strides, box, steps = (
        (u64 * 3)(100, 30, 4),
        (u64 * 2)(208, 6400),
        (u32 * 3)(64, 8, 2),
        (u32 * 3)(1, 1, 2),
    )
    swizzle = SWIZZLE_128B
    arguments = (start, FLOAT16, 3, 1 << 32, dims, strides, box, steps, 0, swizzle, 0, 0)
    assert encode(*arguments) == 0
    tensor = TensorMap.decode(ctypes.string_at(start, 128))
    assert tensor is not None
    assert (tensor.address, tensor.dims, tensor.strides) == (1 << 32, (100, 30, 4), (2, 208, 6400))
    assert (tensor.counts, tensor.steps, tensor.swizzle) == ((64, 8, 1), (1, 1, 2), 3)
    assert encode(start, 99, *arguments[2:]) == 1
