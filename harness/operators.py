"""What torch's operators do, by their names: move numbers, add them, or form products."""

from __future__ import annotations

import re

# Operators of libraries that sum products, by the name without namespace and underscores.
_LIBRARY = re.compile(
    r"conv|attention|rnn|lstm|gru|sparse|linear|embedding_bag|einsum|tensordot|linalg|fft|cudnn"
    r"|miopen|mkldnn|cublas|cdist|grid_sampler|interpol|upsample_(linear|bi|tri)|avg_pool"
    r"|matmul|(^|add|ba|b|s|addb|scaled_|int_|grouped_|chain_|sspadd)mm($|_)|(^|add)mv$"
    r"|(^|v)dot$|^inner$"
)
_MOVING = """
    arange as_strided cat channel_shuffle clone constant_pad_nd copy copy_from diag diag_embed empty
    expand eye fill flip full gather im2col index index_copy index_fill index_put index_select
    linspace masked_fill masked_scatter masked_select nonzero normal ones pad permute pixel_shuffle
    pixel_unshuffle put random randperm reflection_pad1d repeat repeat_interleave replication_pad1d
    resize roll rot90 scatter select_scatter set slice_scatter sort split stack take to_copy tril
    triu unfold uniform unique upsample_nearest1d upsample_nearest2d view where zero zeros
"""
# They join values or look at them, and form no product.
_ADDING = """
    abs add all amax amin aminmax any argmax argmin bitwise_and bitwise_not bitwise_or bitwise_xor
    ceil clamp clamp_max clamp_min col2im count_nonzero cumsum eq equal floor frexp ge gt index_add
    isfinite isinf isnan isneginf isposinf le local_scalar_dense logical_and logical_not logical_or
    lt max maximum min minimum ne neg norm relu round rsub scatter_add sgn sign sub sum trunc
"""
_FORMING_NONE = frozenset(f"{_MOVING} {_ADDING}".split())

SCALED = " (scaled)"
"""What the simulated device adds to the name of a call that also multiplies by a number."""


def is_library(name: str) -> bool:
    """Whether an operator's schema is one that sums products, as libraries do."""
    return bool(_LIBRARY.search(_plain(name)))


def multiplies(name: str) -> bool:
    """Whether another operator forms products; one that is not known does."""
    if is_library(name):
        return False
    return name.endswith(SCALED) or _plain(name) not in _FORMING_NONE


def _plain(name: str) -> str:
    return name.removesuffix(SCALED).rpartition("::")[2].strip("_")
