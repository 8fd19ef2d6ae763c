"""Torch's operators by name, in three groups: they move values, add values, or form products.

An operator that is not listed here may do anything, for instance a matrix product. It is therefore
treated like a call of a CUDA library.
"""

from __future__ import annotations

import re

# Operators that sum products, as libraries do, by name without namespace and underscores. Operators
# that are in none of the lists below are treated like these.
_LIBRARY = re.compile(
    r"conv|attention|rnn|lstm|gru|sparse|linear|embedding_bag|einsum|tensordot|fft|cudnn"
    r"|linalg(?!_vector_norm)|miopen|mkldnn|cublas|cdist|grid_sampler|interpol|upsample_(linear|bi|tri)|avg_pool"
    r"|matmul|(^|add|ba|b|s|addb|scaled_|int_|grouped_|chain_|sspadd)mm($|_)|(^|add)mv$"
    r"|(^|v)dot$|^inner$"
)
# Operators that move or make values, and neither add nor multiply.
_MOVING = """
    arange as_strided cat channel_shuffle clone constant_pad_nd copy copy_from diag diag_embed
    efficientzerotensor empty empty_strided expand eye fill flip full gather im2col index
    index_copy index_fill index_put index_put_impl index_select masked_select narrow_copy
    native_channel_shuffle nonzero nonzero_static
    ones pad permute pixel_shuffle pixel_unshuffle put random randperm range
    reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d resize roll rot90 scatter
    select_scatter set slice_scatter split stack take to_copy tril tril_indices triu
    triu_indices unfold uniform upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_nearest_exact1d upsample_nearest_exact2d upsample_nearest_exact3d view
    view_as_complex view_as_real zero zeros
"""
# Operators that add, compare or choose values, and form no product.
_ADDING = """
    abs adaptive_max_pool2d adaptive_max_pool3d add all amax amin aminmax any argmax argmin
    assert_async bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min
    col2im count_nonzero cummax_helper cummin_helper cumsum eq equal floor frexp
    functional_assert_async ge gt index_add is_set_to isfinite isinf isnan isneginf isposinf le
    local_scalar_dense logical_and logical_not logical_or lt masked_fill masked_scatter max
    max_pool2d_with_indices
    max_pool3d_with_indices max_unpool2d max_unpool3d maximum min minimum ne neg relu round rsub
    scatter_add sgn sign sort sub sum trunc unique unique2 unique_consecutive unique_dim
    unique_dim_consecutive where
"""
# Operators that form at most a few products for each element of their arguments or results.
_MULTIPLYING = """
    acos acosh add_relu addcdiv addcmul addr angle asin asinh atan atan2 atanh batch_norm
    bernoulli binary_cross_entropy bincount bitwise_left_shift bitwise_right_shift bucketize
    cauchy celu complex
    conj_physical copysign cos cosh cross cummax cummin cumprod deg2rad dequantize diff digamma
    dist div divide dropout elu erf erfc erfinv exp exp2 expm1 exponential
    fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine_cachemask
    fill_diagonal float_power floor_divide fmax fmin fmod frac fused_dropout gcd gelu geometric
    ger glu group_norm hardshrink hardsigmoid hardswish hardtanh heaviside histc huber_loss
    hypot i0 ilshift imag index_reduce irshift isclose isin kron kthvalue l1_loss layer_norm lcm
    ldexp leaky_relu lerp lgamma linalg_vector_norm linspace log log10 log1p log2 log_normal
    log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logical_xor logit logspace
    logsumexp lshift masked_softmax mean median mish mode mse_loss mul multinomial multiply
    nan_to_num nanmedian nansum native_batch_norm native_batch_norm_legit native_dropout
    native_group_norm native_layer_norm nextafter nll_loss2d_forward nll_loss_forward norm normal
    normal_functional outer poisson polar pow prelu prelu_kernel prod quantize_per_channel
    quantize_per_tensor rad2deg rand
    rand_like randint randn randn_like real reciprocal remainder renorm rrelu_with_noise rshift
    rsqrt scatter_reduce searchsorted segment_reduce selu sigmoid signbit silu sin sinc sinh
    smooth_l1_loss softmax softplus softshrink sqrt square std std_mean tan tanh tanhshrink
    threshold topk trace true_divide vander var var_mean weight_norm_interface xlogy
"""
_LOOKING_UP = frozenset(("gather", "index", "index_select", "take"))
_MOVING_NAMES = frozenset(_MOVING.split())
_KNOWN = frozenset(f"{_MOVING} {_ADDING} {_MULTIPLYING}".split())

SCALED, JOINED, COMPLEX = " (scaled)", " (joined)", " (complex)"
TRUNCATED, NEGATED = " (truncated)", " (negated)"
WIDE, INT32 = " (64-bit)", " (int32)"
"""Marks that the device appends to an operator's name in the record.

- `SCALED`: the call also multiplies by a number.
- `JOINED`: the call adds or multiplies the moved values into those that are already there.
- `TRUNCATED`, `NEGATED`: a copy of floating-point numbers as integers, or with the other sign.
- `COMPLEX`: the call is on complex numbers, whose elements count four times.
- `WIDE`: the call's results are 64-bit integers or float64.
- `INT32`: the call's results are 32-bit integers.
"""
_MARKS = (SCALED, JOINED, TRUNCATED, NEGATED)
# How many products of two numbers of five bits one element holds.
_HELD_BY = {WIDE: 6, INT32: 3}


def is_known(name: str) -> bool:
    """Return whether this module lists an operator of that name, in any of its groups."""
    return plain_name(name) in _KNOWN or is_summing(name)


def is_summing(name: str) -> bool:
    """Return whether an operator's name says that it sums products, as matrix products do."""
    return bool(_LIBRARY.search(plain_name(name)))


def is_library(name: str) -> bool:
    """Return whether an operator sums products, as libraries do, or is not listed here."""
    return is_summing(name) or plain_name(name) not in _KNOWN


def computes(name: str) -> bool:
    """Return whether a listed operator computes values, but does not sum products as libraries do.

    Operators that only move values do not compute. Operators that add or select values do, because
    products can be made from sums and selections.
    """
    return not is_library(name) and (name.endswith(_MARKS) or plain_name(name) not in _MOVING_NAMES)


def looks_up(name: str) -> bool:
    """Return whether an operator looks up values by index, as `gather` does."""
    return plain_name(name) in _LOOKING_UP


def held_by(name: str) -> int:
    """Return how many products of few bits one element of an operator's results may hold.

    >>> held_by("aten::addcmul"), held_by("aten::mul (64-bit) (scaled)")
    (1, 6)
    """
    return next((held for mark, held in _HELD_BY.items() if mark in name), 1)


def plain_name(name: str) -> str:
    """Return the base name of an operator: without namespace, outer underscores and marks.

    The marks are `SCALED` and the others that this module defines. The prefix `foreach_` and the
    suffix `_backward` are removed, too.

    >>> plain_name("aten::_foreach_mul_ (scaled)")
    'mul'
    """
    for mark in (*_MARKS, COMPLEX, *_HELD_BY):
        name = name.removesuffix(mark)
    own = name.rpartition("::")[2].strip("_")
    return own.removeprefix("foreach_").removesuffix("_backward")
