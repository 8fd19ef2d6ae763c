"""How a tensor core multiplies and adds: the model of its arithmetic, in one place.

The model is that of Fasi, Higham, Mikaitis and Pranesh ("Numerical behavior of NVIDIA tensor
cores", PeerJ Computer Science 7:e330, 2021) with the parameters for the H100 that Khattak and
Mikaitis give ("Accurate models of NVIDIA tensor cores", arXiv:2512.07004, 2025). A block of
products and the accumulator are summed at once: the products are exact, every term is aligned to
the largest exponent among them and cut off (towards zero) some bits below the last bit of
float32, the sum is exact, and the result is rounded towards zero to float32, or to nearest to
float16. A longer sum is one block after the other, the accumulator rounded in between. Integers
are exact, modulo 2^32 or saturated; float64 is one fma after the other.

benchmarks/tensor_core_probe.cu measures on a GPU what the model predicts: on an H200, mma.sync of
f16, bf16, tf32 and e4m3 is so bit for bit. That of 8-bit floats is no instruction of its own there
but two of f16, of the lower and then the upper pair of every four elements, and an addition of c.
That wgmma has its own for them, with fewer bits, is from the literature.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.transfers import Array

_NO_EXPONENT = -100000


@dataclass(frozen=True)
class Model:
    """Parameters of the sum.

    Args:
        terms: products that are summed at once.
        extra_bits: bits that are kept below the last bit of a float32 of the largest exponent.
        least_exponent: the smallest exponent that terms are aligned to.
        factor_exponents: the smallest exponent of a factor; subnormal ones have that one.
    """

    terms: int
    extra_bits: int
    factor_exponents: int
    least_exponent: int = -133


HOPPER: Mapping[str, Model] = MappingProxyType(
    {
        "f16": Model(16, 2, -14),
        "bf16": Model(16, 2, -126),
        "tf32": Model(8, 2, -126),
        "e4m3": Model(32, -10, -6),
        "e5m2": Model(32, -10, -14),
    }
)
"""The model for each format of the factors, on compute capability 9.0 (of 8 bits, in wgmma)."""

Block = Callable[..., None]


def multiply_add(library: ctypes.CDLL, model: Model, a: Array, b: Array, c: Array) -> Array:
    """The products of matrices, and c: float32 or float16 as c is.

    Args:
        library: has `sim_tensor_block` of tensor.c.
        model: how sums are made.
        a: float64, (count, m, k).
        b: float64, (count, k, n).
        c: float32 or float16, (count, m, n).
    """
    count, m, k = a.shape
    n = b.shape[2]
    columns = np.ascontiguousarray(b.swapaxes(1, 2))
    for start in range(0, k, model.terms):
        stop = min(start + model.terms, k)
        x = np.ascontiguousarray(a[:, :, start:stop])
        y = np.ascontiguousarray(columns[:, :, start:stop])
        z = np.ascontiguousarray(c, np.float64)
        exact = np.empty((count, m, n))
        arrays = (
            x,
            _exponents(x, model.factor_exponents),
            y,
            _exponents(y, model.factor_exponents),
            z,
            _exponents(z, -126),
            exact,
        )
        library.sim_tensor_block(
            *(ctypes.c_uint64(size) for size in (count, m, n, stop - start)),
            ctypes.c_int64(23 + model.extra_bits),
            ctypes.c_int64(model.least_exponent),
            *(ctypes.c_void_p(array.ctypes.data) for array in arrays),
        )
        c = _rounded(exact, c.dtype)
    return c


def multiply_add_bytes(library: ctypes.CDLL, a: Array, b: Array, c: Array) -> Array:
    """The same for 8-bit floats in mma.sync: products in two steps of f16, then c is added."""
    k = np.arange(a.shape[2])
    order = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
    products = multiply_add(
        library, HOPPER["f16"], a[:, :, order], b[:, order], np.zeros_like(c, np.float32)
    )
    return _canonical(products + c)


def multiply_add_integers(a: Array, b: Array, c: Array, *, saturates: bool) -> Array:
    """The same for integers given as float64, c and the result int32."""
    # Sums of at most 2^10 products of 16 bits are exact in float64.
    total = np.matmul(a, b).astype(np.int64) + c
    if saturates:
        total = np.clip(total, -(2**31), 2**31 - 1)
    sums: Array = total.astype(np.int32)
    return sums


def multiply_add_doubles(fma: Callable[..., None], a: Array, b: Array, c: Array) -> Array:
    """The same for float64: one fma after the other, k ascending."""
    for step in range(a.shape[2]):
        out = np.empty(c.shape)
        x, y = np.broadcast_arrays(a[:, :, step, None], b[:, None, step, :])
        fma(np.ascontiguousarray(x), np.ascontiguousarray(y), c, out)
        c = out
    return c


def _exponents(values: Array, least: int) -> Array:
    exponents = np.frexp(values)[1].astype(np.int32) - 1
    return np.where(values == 0, _NO_EXPONENT, np.maximum(exponents, least)).astype(np.int32)


def _rounded(exact: Array, dtype: np.dtype[np.generic]) -> Array:
    """To float16 to nearest, to float32 towards zero; a sum that vanishes is +0."""
    if dtype == np.float16:
        return _canonical(exact.astype(np.float16) + np.float16(0))
    single = exact.astype(np.float32)
    grew = np.isfinite(single) & (np.abs(single.astype(np.float64)) > np.abs(exact))
    return _canonical(np.where(grew, np.nextafter(single, np.float32(0)), single) + np.float32(0))


def _canonical(values: Array) -> Array:
    """The same with every NaN as the hardware's: all bits but the sign's are set."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    nan = unsigned.type(2 ** (8 * values.dtype.itemsize - 1) - 1)
    bits = np.where(np.isnan(values), nan, values.view(unsigned))
    return bits.view(values.dtype)
