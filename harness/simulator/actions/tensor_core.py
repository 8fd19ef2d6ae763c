"""The model of a tensor core's arithmetic, which predicts the results of mma bit for bit.

The model is that of Fasi, Higham, Mikaitis and Pranesh ("Numerical behavior of NVIDIA tensor
cores", PeerJ Computer Science 7:e330, 2021). The parameters for the H100 are those of Khattak and
Mikaitis ("Accurate models of NVIDIA tensor cores", arXiv:2512.07004, 2025).

A tensor core sums a block of products and the accumulator at once:

1. The products are exact.
2. Every term is aligned to the largest exponent among the terms. The term is then cut off, towards
   zero, some bits below the last bit of float32.
3. The sum of the terms is exact.
4. The result is rounded towards zero to float32, or to nearest to float16.

A longer sum is computed block after block, and the accumulator is rounded in between. Sums of
integers are exact, modulo 2^32 or saturated. Sums of float64 are one fma after the other.

benchmarks/tensor_core_probe.cu measures a GPU's results for comparison with the model. On an H200,
mma.sync of f16, bf16, tf32 and e4m3 equals the model bit for bit. The H200 has no instruction for
mma.sync of 8-bit floats. Instead, it executes two f16 instructions, and then adds c. The first
takes the lower pair of every four elements, the second takes the upper pair. For wgmma of 8-bit
floats, the H200 has an instruction. According to the literature, its sum keeps fewer bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.transfers import Array

_NO_EXPONENT = -100000
"""The exponent of zero, which is never the largest."""


@dataclass(frozen=True)
class Model:
    """Parameters of a tensor core's sum of products for one number format.

    Attributes:
        terms: Number of products that are summed at once.
        extra_bits: Bits that are kept below the last bit of a float32 with the largest exponent.
        factor_exponents: The smallest exponent of a factor; every subnormal factor counts with it.
        least_exponent: The smallest exponent that terms are aligned to.
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
"""The model for each format of the factors, on compute capability 9.0.

Those of 8-bit formats hold for wgmma alone.
"""

Block = Callable[..., None]


def multiply_add(library: ctypes.CDLL, model: Model, a: Array, b: Array, c: Array) -> Array:
    """Return a b + c in the dtype of c, with the rounding of a tensor core.

    Args:
        library: The C library with `sim_tensor_block` of tensor.c.
        model: The parameters of the sum.
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
    """Return a b + c in float32 for 8-bit floats, with the rounding of mma.sync.

    The products are summed in two steps of f16, the lower pair of every four elements first. Then c
    is added. The shapes are those of `multiply_add`.
    """
    k = np.arange(a.shape[2])
    order = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
    products = multiply_add(
        library, HOPPER["f16"], a[:, :, order], b[:, order], np.zeros_like(c, np.float32)
    )
    return _canonical(products + c)


def multiply_add_integers(a: Array, b: Array, c: Array, *, saturates: bool) -> Array:
    """Return a b + c for integers: a and b as float64, c and the result as int32.

    Sums wrap modulo 2^32, or are clipped to the range of int32 with `saturates`.
    """
    # float64 is exact here: a sum has at most 2^10 products of 16 bits.
    total = np.matmul(a, b).astype(np.int64) + c
    if saturates:
        total = np.clip(total, -(2**31), 2**31 - 1)
    sums: Array = total.astype(np.int32)
    return sums


def multiply_add_doubles(fma: Callable[..., None], a: Array, b: Array, c: Array) -> Array:
    """Return a b + c for float64: one `fma` after the other, with k ascending.

    The shapes are those of `multiply_add`.
    """
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
    """Round an exact sum to `dtype`: to nearest for float16, towards zero for float32.

    A sum of zero becomes +0.
    """
    # NumPy rounds to nearest. A float32 whose magnitude grew is stepped back towards zero. Adding
    # +0 turns -0 into +0.
    if dtype == np.float16:
        return _canonical(exact.astype(np.float16) + np.float16(0))
    single = exact.astype(np.float32)
    grew = np.isfinite(single) & (np.abs(single.astype(np.float64)) > np.abs(exact))
    return _canonical(np.where(grew, np.nextafter(single, np.float32(0)), single) + np.float32(0))


def _canonical(values: Array) -> Array:
    """Replace every NaN by a GPU's NaN, in which all bits except the sign are set."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    nan = unsigned.type(2 ** (8 * values.dtype.itemsize - 1) - 1)
    bits = np.where(np.isnan(values), nan, values.view(unsigned))
    return bits.view(values.dtype)
