"""Tests of the error bounds that `trace` propagates through the operators of a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.judging.oracle import CLASSES, PrecisionClass
from harness.problems.rounding.expected import Propagated
from harness.problems.rounding.propagate import trace
from harness.problems.rounding.tracked import NoRuleError
from tests.support import thorough_but

FP32, TF32, FP16, BF16 = CLASSES
Function = Callable[..., Tensor]

ROWS, COLUMNS = 7, 193

ELEMENTWISE: dict[str, Function] = {
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "selu": functional.selu,
    "elu": functional.elu,
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "mish": functional.mish,
    "hardtanh": functional.hardtanh,
    "square_root": lambda x: (x * x + 0.1).sqrt(),
    "logarithm": lambda x: torch.log(x.abs() + 0.1),
    "quotient": lambda x: x / (2.0 + x.cos()),
    "power": lambda x: x.abs().pow(1.7) - x**3,
    "steps": lambda x: torch.where(x.floor() > 0, x, -x) + x.sign(),
    "arc_sine": lambda x: torch.asin(0.9 * x.cos()),
    "arc_cosine": lambda x: torch.acos(0.9 * x.cos()),
    "arc_tangent": torch.atan,
    "tangent": lambda x: torch.tan(x / 100),
    "angle": lambda x: torch.atan2(x, x.flip(0)),
    "hyperbolic": lambda x: torch.sinh(x / 9) + torch.cosh(x / 9),
    "area_sine": torch.asinh,
    "area_cosine": lambda x: torch.acosh(1 + x.abs()),
    "area_tangent": lambda x: torch.atanh(0.9 * x.cos()),
    "inverse_error": lambda x: torch.erfinv(0.9 * x.cos()),
    "logarithm_of_gamma": torch.lgamma,
    "digamma": lambda x: torch.digamma(x.abs() + 0.1),
    "hypotenuse": lambda x: torch.hypot(x, x.flip(0)),
    "sign": lambda x: torch.copysign(x, x.flip(0) + 0.3),
    "remainder": lambda x: torch.remainder(x, 0.7),
    "fmod": lambda x: torch.fmod(x, 1.0),
    "whole_quotient": lambda x: torch.div(x, 0.7, rounding_mode="floor"),
    "decimals": lambda x: torch.round(x, decimals=2),
    "random_slope": functional.rrelu,
}
REDUCING: dict[str, Function] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(1).values,
    "min": lambda x: x.amin(0),
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: functional.group_norm(x[None], ROWS),
    "instance_norm": lambda x: functional.instance_norm(x[None]),
    "rms_norm": lambda x: x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt(),
    "normalised": lambda x: functional.normalize(x, dim=1),
    "norm": lambda x: x / torch.norm(x, p="fro"),
    "sum_of_absolutes": lambda x: x / x.abs().mean(1, keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "cumsum_reverse": lambda x: x.flip(1).cumsum(1).flip(1),
    "cumprod": lambda x: (1 + x / 100).cumprod(1),
    "product": lambda x: (1 + x / 100).prod(1),
    "variance": lambda x: x.var(1),
    "deviation": lambda x: x.std(1, correction=0),
    "average_pool": lambda x: functional.avg_pool1d(x[None], 5, 2, 1),
    "max_pool": lambda x: functional.max_pool1d(x[None], 5, 2, 1, 2),
    "mse": lambda x: functional.mse_loss(x, x.flip(0)),
    "huber": lambda x: functional.smooth_l1_loss(x, x.flip(0)),
    "hinge": lambda x: torch.clamp(1 - x * x.flip(0).sign(), min=0).mean(),
    "cosine": lambda x: 1 - functional.cosine_similarity(x, x.flip(0)).mean(),
    "triplet": lambda x: functional.triplet_margin_loss(x, x.flip(0), x.flip(1)),
    "entropy": lambda x: functional.cross_entropy(x, torch.arange(ROWS)),
    "divergence": lambda x: functional.kl_div(
        torch.log_softmax(x, 1), torch.softmax(x.flip(0), 1), reduction="batchmean"
    ),
    "sorted": lambda x: x.sort(1).values.cumsum(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cubic_norm": lambda x: x / x.norm(p=3, dim=1, keepdim=True),
    "distances": lambda x: torch.cdist(x, x.flip(0)),
    "distances_by_products": lambda x: torch.cdist(x[:, :60].T, x[:, 60:120].T),
    "sums_of_differences": lambda x: torch.cdist(x, x.flip(0), p=1),
    "largest_differences": lambda x: functional.pdist(x, float("inf")),
    "distances_of_rows": functional.pdist,
    "searched": lambda x: torch.searchsorted(x.sort(1).values / 3, x.flip(0) / 3),
}
PRODUCTS: dict[str, Function] = {
    "matmul": lambda x: x @ x.T,
    "linear": lambda x: functional.linear(x, x.flip(0), x[:, 0]),
    "bmm": lambda x: torch.bmm(x.view(ROWS, 1, -1), x.view(ROWS, -1, 1)),
    "conv1d": lambda x: functional.conv1d(x[None], x[:, :21].reshape(3, 7, 7), padding=2, stride=2),
    "conv_transpose1d": lambda x: functional.conv_transpose1d(
        x[None], x[:, :21].reshape(7, 3, 7), stride=3, dilation=2
    ),
    "attention": lambda x: functional.scaled_dot_product_attention(
        x[None, None], x.flip(0)[None, None], x[None, None]
    ),
    "chain": lambda x: torch.softmax(torch.relu(x @ x.T) @ x, 1),
    "causal": lambda x: functional.scaled_dot_product_attention(
        x[None, None], x.flip(0)[None, None], x[None, None], is_causal=True
    ),
    "bilinear": lambda x: functional.bilinear(x[:, :9], x[:, 9:16], x[:, :63].view(7, 9, 7)),
    "sum_of_products": lambda x: torch.addbmm(x[:, :ROWS], x.T[:, :, None], x.T[:, None]),
}
FOURIER: dict[str, Function] = {
    "transform": lambda x: torch.fft.fft(x).real,
    "transform_of_two": lambda x: torch.fft.fft2(x, norm="ortho").imag,
    "spectrum": lambda x: torch.fft.rfft(x, norm="forward").abs(),
    "phase": lambda x: torch.fft.rfft(x.abs() + 1)[:, 0].angle(),
    "and_back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2.0, n=COLUMNS),
    "convolved": lambda x: torch.fft.irfft(
        torch.fft.rfft(x, n=400) * torch.fft.rfft(x.flip(0), n=400).conj(), n=400
    ),
    "turned": lambda x: torch.view_as_real(
        torch.view_as_complex(x[:, :64].flatten().view(ROWS, 32, 2))
        * torch.polar(torch.ones(32, dtype=x.dtype), torch.arange(32, dtype=x.dtype) / 9)
    ),
    "quotient_of_complex": lambda x: (torch.complex(x, x.flip(0)) / torch.complex(x, x + 9)).real,
    "mixed": lambda x: torch.einsum("bi,io->bo", torch.fft.rfft(x), torch.fft.rfft(x).T).imag,
    "exponential": lambda x: torch.exp(-1j * torch.fft.rfft(x / 999)).imag,
}


def masked(x: Tensor) -> Tensor:
    """Return a copy of x with two in-place writes: to masked elements, and to two columns."""
    y = x.clone()
    y[x * x > 0.2**2] = 0.3
    y[:, 1:3] = y[:, 3:5] / 3
    return y


def laid_otherwise(x: Tensor) -> Tensor:
    """Pool an image in the memory format channels_last, after an in-place change of its shape."""
    image = (x / 3).t_().unsqueeze_(0)[:, :, :, None].contiguous(memory_format=torch.channels_last)
    return functional.adaptive_avg_pool2d(image, 1) * 3


PLACES = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS) * 37 % ROWS // 2
MOVING: dict[str, Function] = {
    "circular": lambda x: functional.pad(x[None] / 3, (5, 9), mode="circular"),
    "reflected": lambda x: functional.pad(x[None] / 3, (5, 9), mode="reflect"),
    "masked": masked,
    "filled": lambda x: x.masked_fill(x * x > 0.2**2, 0.3),
    "laid_otherwise": laid_otherwise,
    "threshold": lambda x: functional.threshold(x, 0.1, 0.2),
    "between": lambda x: (x / 3).clamp(0.1, 0.2),
    "bordered": lambda x: functional.pad(x / 3, (1, 2), value=0.1),
    "full": lambda x: torch.lerp(x, x.flip(0), 0.3) + x.new_full((), 0.7),
    "scatter": lambda x: (x / 3).scatter(0, PLACES[:1], x[:1] / 7),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(0, PLACES, x / 3),
    "index_add": lambda x: torch.zeros_like(x).index_add(0, PLACES[:, 1], x / 3),
    "index_put": lambda x: (x / 3).index_put((torch.tensor([1, 4]),), x[:2] / 7),
    "fold": lambda x: functional.fold(
        functional.unfold(x[None, :, :144].view(1, ROWS, 12, 12), 3, padding=1), 12, 3, padding=1
    ),
    "unpool": lambda x: functional.max_unpool1d(
        *functional.max_pool1d(x[None], 3, return_indices=True), [3]
    ),
    "interpolated": lambda x: functional.interpolate(
        x[None, :, :144].view(1, ROWS, 12, 12), scale_factor=2, mode="bilinear"
    ),
    "interpolated_by_corners": lambda x: functional.interpolate(
        x[None] / 3, size=401, mode="linear", align_corners=True
    ),
    "sampled": lambda x: functional.grid_sample(
        x[None, :, :144].view(1, ROWS, 12, 12),
        (x[None, :, :98] / 3).cos().view(1, ROWS, 49, 2),
        align_corners=False,
    ),
    "sampled_by_border": lambda x: functional.grid_sample(
        x[None, :, :144].view(1, ROWS, 12, 12) / 3,
        x[None, :, :98].view(1, ROWS, 49, 2),
        padding_mode="border",
        align_corners=True,
    ),
    "one_hot": lambda x: functional.one_hot(PLACES, 4) * x[..., None] / 3,
    "diagonal": lambda x: (x[:, :ROWS] / 3).clone().fill_diagonal_(0.1),
    "triangle": lambda x: (x @ x.T)[tuple(torch.tril_indices(ROWS, ROWS, -1))],
    "bags": lambda x: functional.embedding_bag(PLACES[:, :5], x / 3, mode="mean"),
    "weighted_bags": lambda x: functional.embedding_bag(
        PLACES[:, :5], x / 3, mode="sum", per_sample_weights=x[:, :5]
    ),
    "scatter_mean": lambda x: torch.zeros_like(x).scatter_reduce(0, PLACES, x / 3, "mean"),
    "scatter_largest": lambda x: torch.zeros_like(x).scatter_reduce(0, PLACES, x / 3, "amax"),
    "index_mean": lambda x: (x / 3).index_reduce(0, PLACES[:, 1], x / 7, "mean"),
    "median": lambda x: (x / 3).median(1).values,
    "third": lambda x: (x / 3).kthvalue(3, 1).values,
}
# Rounding of stored values may decide which element is largest, so `unpool` is left out.
STORED = [name for name in MOVING if name != "unpool"]
EVERY = {**ELEMENTWISE, **REDUCING, **PRODUCTS, **FOURIER, **MOVING}
DRAWS: dict[str, Callable[[torch.Generator], Tensor]] = {
    "uniform": lambda g: torch.rand(ROWS, COLUMNS, generator=g),
    "normal": lambda g: torch.randn(ROWS, COLUMNS, generator=g),
    "large": lambda g: 30 * torch.randn(ROWS, COLUMNS, generator=g),
    "ties": lambda g: torch.randint(-2, 3, (ROWS, COLUMNS), generator=g).float() / 2,
}


def expected(function: Function, x: Tensor) -> Propagated:
    """Return the value and error bounds of a function of x, traced in float64.

    The bounds are for inputs stored as float32.
    """
    return Propagated(trace(function, [x.double()]), [x.double()], torch.float32)


def share(output: Tensor, right: Propagated, precision: PrecisionClass) -> float:
    """Return the largest error of an output divided by the error bound of a precision class."""
    error = (output.double() - right.value.double()).abs()
    bound = right.bound(precision)
    return float(torch.where(error > 0, error / bound, 0.0).max())


def to_tf32(x: Tensor) -> Tensor:
    """Clear the 13 bits of each float32 number that TF32 does not have."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("draw", thorough_but({"normal"}, DRAWS))
@pytest.mark.parametrize("name", EVERY)
def test_float32_is_never_beyond_the_bound(name: str, draw: str) -> None:
    """Results of torch's own float32 kernels are within the fp32 error bound, for every function.

    An infinite bound is satisfied by any result.
    """
    for seed in range(8):
        x = DRAWS[draw](torch.Generator().manual_seed(seed))
        with torch.no_grad():
            assert share(EVERY[name](x), expected(EVERY[name], x), FP32) <= 1.0, seed


def test_bound_of_a_product_counts_the_factors_of_one_element() -> None:
    """The fp32 bound of a product of 8 factors allows 8 roundings, whatever the tensor's size."""
    x = 1.0 + torch.rand(1024, 8, generator=torch.Generator().manual_seed(1))
    right = expected(lambda x: x.prod(1), x)
    assert bool((right.bound(FP32) < 10 * 2.0**-24 * right.value).all())


@pytest.mark.parametrize(
    "name",
    [
        *(ELEMENTWISE | PRODUCTS | FOURIER),
        *STORED,
        *("softmax", "mean", "rms_norm", "cumsum", "logcumsumexp", "cubic_norm", "distances"),
    ],
)
def test_lower_precisions_are_within_theirs(name: str) -> None:
    """Results stored in bfloat16 (float16) are within the bound of the class bf16 (fp16)."""
    function = EVERY[name]
    for seed in range(8):
        x = DRAWS["uniform"](torch.Generator().manual_seed(seed))
        right = expected(function, x)
        for stored, precision in ((torch.bfloat16, BF16), (torch.float16, FP16)):
            rounded = x.to(stored).float()
            assert share(function(rounded).to(stored), right, precision) <= 1.0, (seed, stored)


@pytest.mark.parametrize("name", ["matmul", "linear", "bmm", "conv1d", "conv_transpose1d"])
def test_tf32_is_told_apart_from_float32(name: str) -> None:
    """A matrix product or convolution of operands cut to TF32 is within the tf32 bound only.

    The result exceeds the fp32 bound.
    """
    x = DRAWS["normal"](torch.Generator().manual_seed(1))
    right = expected(PRODUCTS[name], x)
    output = PRODUCTS[name](to_tf32(x))
    assert share(output, right, TF32) <= 1.0 < share(output, right, FP32)


def in_parts(x: Tensor) -> Tensor:
    """Return the sum of each row, computed from 16 partial sums as threads of a kernel would."""
    padded = functional.pad(x, (0, -x.shape[1] % 16))
    return padded.view(x.shape[0], -1, 16).cumsum(1)[:, -1].cumsum(1)[:, -1:]


def one_pass_norm(x: Tensor) -> Tensor:
    """Compute a layer norm in one pass: from the sum of x and the sum of its squares."""
    mean = in_parts(x) / x.shape[1]
    variance = in_parts(x * x) / x.shape[1] - mean * mean
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def online_softmax(x: Tensor) -> Tensor:
    """Compute a softmax in one pass, with a running maximum and a sum that is rescaled."""
    largest = torch.full((x.shape[0], 1), -torch.inf)
    total = torch.zeros(x.shape[0], 1)
    for column in x.T[:, :, None]:
        above = torch.maximum(largest, column)
        total = total * torch.exp(largest - above) + torch.exp(column - above)
        largest = above
    return torch.exp(x - largest) / total


def by_products(x: Tensor, y: Tensor) -> Tensor:
    """Compute Euclidean distances of rows from their squares and a matrix product."""
    squares = x.square().sum(1)[:, None] + y.square().sum(1) - 2 * x @ y.T
    return squares.clamp_min(0).sqrt()


def by_matrix(x: Tensor) -> Tensor:
    """Compute a Fourier transform by its definition, as two products of float32 matrices."""
    turns = torch.outer(torch.arange(COLUMNS), torch.arange(COLUMNS)) % COLUMNS
    angles = turns * (2 * torch.pi / COLUMNS)
    return torch.complex(x @ angles.cos(), -(x @ angles.sin()))


def nearest(x: Tensor, grid: Tensor) -> Tensor:
    """Sample x at the grid's points, each from its nearest element."""
    return functional.grid_sample(x, grid, mode="nearest", align_corners=False)


DIRECTLY = "donot_use_mm_for_euclid_dist"
OTHER_WAYS: list[tuple[str, Function]] = [
    ("sum", lambda x: in_parts(x)[:, 0]),
    ("sum", lambda x: x.cumsum(1)[:, -1]),
    ("sum", lambda x: x.flip(1).cumsum(1)[:, -1]),
    ("layer_norm", one_pass_norm),
    ("softmax", online_softmax),
    ("softmax", lambda x: torch.exp(x) / in_parts(torch.exp(x))),
    ("matmul", lambda x: (x[:, None] * x[None]).cumsum(2)[:, :, -1]),
    ("softplus", lambda x: torch.log(1 + torch.exp(x))),
    ("silu", lambda x: x / (1 + torch.exp(-x))),
    ("tanh", lambda x: 1 - 2 / (torch.exp(2 * x) + 1)),
    ("elu", lambda x: torch.where(x > 0, x, torch.exp(x) - 1)),
    ("logsumexp", lambda x: torch.log(in_parts(torch.exp(x)))[:, 0]),
    ("logcumsumexp", lambda x: x.exp().cumsum(1).log()),
    ("distances", lambda x: (x[:, None] - x.flip(0)).square().sum(2).sqrt()),
    ("distances", lambda x: by_products(x, x.flip(0))),
    ("distances_by_products", lambda x: torch.cdist(x[:, :60].T, x[:, 60:120].T, 2, DIRECTLY)),
    ("remainder", lambda x: x - 0.7 * torch.floor(x / 0.7)),
    ("fmod", lambda x: x - x.trunc()),
    ("tangent", lambda x: torch.sin(x / 100) / torch.cos(x / 100)),
    ("area_cosine", lambda x: torch.log(1 + x.abs() + ((1 + x.abs()) ** 2 - 1).sqrt())),
    ("area_tangent", lambda x: 0.5 * torch.log((1 + 0.9 * x.cos()) / (1 - 0.9 * x.cos()))),
    ("arc_cosine", lambda x: torch.pi / 2 - torch.asin(0.9 * x.cos())),
    ("hypotenuse", lambda x: (x * x + x.flip(0) ** 2).sqrt()),
    ("transform", lambda x: by_matrix(x).real),
    ("spectrum", lambda x: by_matrix(x)[:, : COLUMNS // 2 + 1].abs() / COLUMNS),
    ("one_hot", lambda x: torch.where(PLACES[..., None] == torch.arange(4), x[..., None] / 3, 0)),
    ("bilinear", lambda x: ((x[:, :9] @ x[:, :63].view(7, 9, 7)) * x[:, 9:16]).sum(2).T),
    ("sum_of_products", lambda x: x[:, :ROWS] + x @ x.T),
]


@pytest.mark.parametrize(("name", "way"), OTHER_WAYS)
@pytest.mark.parametrize("draw", thorough_but({"normal"}, ["uniform", "normal", "ties"]))
def test_other_ways_of_computing_it_are_right(name: str, way: Function, draw: str) -> None:
    """Float32 results of other correct algorithms for a function are within its fp32 bound.

    The algorithms sum in other orders, in one pass or two, or use a naive formula.
    """
    for seed in range(8):
        x = DRAWS[draw](torch.Generator().manual_seed(seed))
        assert share(way(x), expected(EVERY[name], x), FP32) <= 1.0, seed


WRONG: list[tuple[str, Function]] = [
    ("relu", lambda x: x),
    ("leaky_relu", torch.relu),
    ("elu", lambda x: x),
    ("gelu", lambda x: functional.gelu(x, approximate="tanh")),
    ("hardtanh", lambda x: x),
    ("sum", lambda x: x[:, :-1].sum(1)),
    ("sum", lambda x: x[:, :192].sum(1)),
    ("softmax", lambda x: torch.exp(x) / torch.exp(x[:, :-1]).sum(1, keepdim=True)),
    ("log_softmax", lambda x: x - x.logsumexp(0)),
    ("layer_norm", lambda x: functional.layer_norm(x, x.shape[1:], eps=2e-4)),
    ("layer_norm", lambda x: (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1e-5).sqrt()),
    ("rms_norm", lambda x: x / (x.square().sum(1, keepdim=True) / 192 + 1e-5).sqrt()),
    ("norm", lambda x: x / (2 * torch.norm(x, p="fro"))),
    ("cumsum", lambda x: torch.cat([x[:, :96].cumsum(1), x[:, 96:].cumsum(1)], 1)),
    ("matmul", lambda x: x[:, :-1] @ x[:, :-1].T),
    ("attention", lambda x: x.mean(0).expand(1, 1, ROWS, -1)),
    ("hinge", lambda x: (1 - x * x.flip(0).sign()).mean()),
    ("triplet", lambda x: functional.triplet_margin_loss(x, x.flip(0), x.flip(1), margin=0.9)),
    ("variance", lambda x: x.var(1, correction=0)),
    ("max_pool", lambda x: functional.max_pool1d(x[None], 5, 2, 1, 1)[..., :93]),
    ("average_pool", lambda x: functional.avg_pool1d(x[None], 5, 2, 1, count_include_pad=False)),
    ("circular", lambda x: functional.pad(x[None] / 3, (5, 9), mode="reflect")),
    ("interpolated_by_corners", lambda x: functional.interpolate(x[None] / 3, 401, mode="linear")),
    ("scatter_add", lambda x: torch.zeros_like(x).scatter(0, PLACES, x / 3)),
    ("arc_sine", lambda x: 0.9 * x.cos()),
    ("arc_cosine", lambda x: torch.asin(0.9 * x.cos())),
    ("arc_tangent", torch.tanh),
    ("tangent", lambda x: torch.sin(x / 100)),
    ("angle", lambda x: torch.atan(x / x.flip(0))),
    ("hyperbolic", lambda x: torch.sinh(x / 9)),
    ("area_cosine", lambda x: torch.asinh(x)),
    ("area_tangent", lambda x: 0.9 * x.cos()),
    ("inverse_error", lambda x: 0.9 * x.cos()),
    ("logarithm_of_gamma", lambda x: torch.lgamma(x + 1)),
    ("digamma", lambda x: (x.abs() + 0.1).log()),
    ("hypotenuse", lambda x: x.abs() + x.flip(0).abs()),
    ("sign", torch.abs),
    ("remainder", lambda x: torch.fmod(x, 0.7)),
    ("fmod", lambda x: torch.remainder(x, 1.0)),
    ("whole_quotient", lambda x: torch.div(x, 0.7, rounding_mode="trunc")),
    ("decimals", lambda x: torch.round(x, decimals=1)),
    ("random_slope", lambda x: functional.leaky_relu(x, 0.2)),
    ("logcumsumexp", lambda x: x.exp().cumsum(1)),
    ("cubic_norm", lambda x: x / x.norm(dim=1, keepdim=True)),
    ("distances", lambda x: torch.cdist(x, x.flip(0)).square()),
    ("distances_by_products", lambda x: torch.cdist(x[:-1, :60].T, x[:-1, 60:120].T)),
    ("sums_of_differences", lambda x: torch.cdist(x[:, :-1], x.flip(0)[:, :-1], p=1)),
    ("largest_differences", lambda x: functional.pdist(x[:, :-1] / 2, float("inf"))),
    ("distances_of_rows", lambda x: functional.pdist(x[:, :180])),
    ("causal", lambda x: functional.scaled_dot_product_attention(x, x.flip(0), x)[None, None]),
    ("bilinear", lambda x: functional.bilinear(x[:, :9], x[:, 9:16], x[:, :63].view(7, 9, 7)) / 2),
    ("sum_of_products", lambda x: x[:, :ROWS] + x[:, :-1] @ x[:, :-1].T),
    ("transform", lambda x: torch.fft.fft(x).imag),
    ("transform_of_two", lambda x: torch.fft.fft2(x).imag),
    ("spectrum", lambda x: torch.fft.rfft(x).abs()),
    ("and_back", lambda x: x),
    (
        "convolved",
        lambda x: torch.fft.irfft(torch.fft.rfft(x, 400) * torch.fft.rfft(x.flip(0), 400)),
    ),
    ("turned", lambda x: x[:, :64].reshape(ROWS, 32, 2)),
    ("sampled", lambda x: EVERY["sampled"](x.clone().index_fill_(1, torch.tensor(143), 0.0))),
    ("one_hot", lambda x: functional.one_hot(PLACES, 4) * x[..., None]),
    ("diagonal", lambda x: x[:, :ROWS] / 3),
    ("triangle", lambda x: (x @ x.T)[tuple(torch.triu_indices(ROWS, ROWS, 1))] + 9),
    ("bags", lambda x: functional.embedding_bag(PLACES[:, :4], x / 3, mode="mean")),
    ("weighted_bags", lambda x: functional.embedding_bag(PLACES[:, :5], x / 3, mode="sum")),
    ("scatter_mean", lambda x: torch.zeros_like(x).scatter_add(0, PLACES, x / 3)),
    ("scatter_largest", lambda x: torch.zeros_like(x).scatter(0, PLACES, x / 3)),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_mistakes_are_beyond_every_bound(name: str, wrong: Function) -> None:
    """Results of a wrong function exceed the fp32 bound, and at least one of two looser bounds.

    The looser bounds are those of the classes bf16 and tf32. A result of another shape counts as
    wrong, too. The inputs have both signs.
    """
    x = DRAWS["normal"](torch.Generator().manual_seed(3))
    output, right = wrong(x), expected(EVERY[name], x)
    if output.shape == right.value.shape:
        assert share(output, right, BF16) > 1.0 or share(output, right, TF32) > 1.0
        assert share(output, right, FP32) > 1.0
    else:
        assert output.shape[-1] != right.value.shape[-1]


@pytest.mark.parametrize("name", ["sum", "cumsum", "matmul", "linear", "conv1d", "max_pool", "min"])
def test_small_integers_are_exact(name: str) -> None:
    """The fp32 bound is zero for integer inputs whose sums float32 holds exactly."""
    x = torch.randint(-7, 8, (ROWS, COLUMNS), generator=torch.Generator().manual_seed(0)).float()
    right = expected(EVERY[name], x)
    assert not bool(right.bound(FP32).any())
    assert torch.equal(EVERY[name](x).double(), right.value)


def test_transforms_are_granted_the_looser_classes() -> None:
    """The tf32 bound of a convolution of small integers is above 0, although the fp32 bound is 0.

    The tf32 bound allows the error of Winograd's algorithm or a Fourier transform.
    """
    x = torch.randint(-7, 8, (2, 3, 9, 9), generator=torch.Generator().manual_seed(0)).float()
    right = expected(lambda x: functional.conv2d(x, x[:1]), x)
    near = float(right.value.abs().max())
    assert not bool(right.bound(FP32).any())
    assert 0.0 < float(right.bound(TF32).max()) < near * 2.0**-10


def test_logarithm_of_a_sum_errs_by_no_more_than_its_terms() -> None:
    """The bf16 bound of logsumexp is small even if rounding changes each exponential by a lot.

    The exponents are normal numbers times 1000, and rounding changes many of them by more than 1.
    """
    x = DRAWS["normal"](torch.Generator().manual_seed(0))
    right = expected(lambda x: torch.logsumexp(1000 * x, 1), x)
    stored = torch.logsumexp((1000 * x.bfloat16()).float(), 1).bfloat16()
    assert 0.0 < share(stored.float(), right, BF16) <= 1.0
    assert float(right.bound(BF16).max()) < 2000 * float(x.abs().max()) * 2.0**-6


@pytest.mark.parametrize("name", EVERY)
def test_value_is_the_functions_own(name: str) -> None:
    """A traced function has the value of the original, even if the function writes in place."""
    x = DRAWS["normal"](torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        right = EVERY[name](x.clone())
    traced = expected(EVERY[name], x)
    assert torch.allclose(traced.value.to(right), right, rtol=1e-12, atol=1e-12)
    assert traced.is_of(right)


def test_what_torch_takes_to_pieces_otherwise_is_not_the_function() -> None:
    """`is_of` is false if the traced value of a function differs from the function's output.

    Tracing uses torch's decompositions of operators, which may be wrong. Before torch 2.15, the
    decomposition of `multilabel_margin_loss` counts classes after the first -1.
    """
    classes = torch.tensor([0, 1, 2, -1, -1]).expand(ROWS, 5)
    x = DRAWS["normal"](torch.Generator().manual_seed(0))[:, :5].double()

    def loss(x: Tensor) -> Tensor:
        return functional.multilabel_margin_loss(x, classes)

    traced = expected(loss, x)
    assert traced.is_of(loss(x)) == torch.allclose(traced.value, loss(x))
    assert expected(torch.relu, x).is_of(x.relu())
    assert not expected(torch.relu, x).is_of(x)
    assert not expected(torch.relu, x).is_of(x[:1].relu())


def test_shares_and_deviations_are_bounded_whatever_rounding_did_before() -> None:
    """The bound of a softmax is about 1, and that of a layer norm of n numbers is below 8 sqrt(n).

    No error of the operands makes the bounds larger, because the values of these functions are
    limited themselves.
    """
    x = DRAWS["large"](torch.Generator().manual_seed(0))
    shares = expected(lambda x: torch.softmax(1000 * x, 1), x)
    assert float(shares.bound(BF16).max()) < 1.1
    differences = expected(
        lambda x: functional.layer_norm((x + 1e4) - 1e4, x.shape[1:], eps=0.1), x
    )
    assert float(differences.bound(FP32).max()) < 8.0 * COLUMNS**0.5


def test_what_a_mask_hides_leaves_the_rest_bounded() -> None:
    """Attention with a mask of minus infinity has a finite bound for every element."""
    x = DRAWS["normal"](torch.Generator().manual_seed(0))
    right = expected(PRODUCTS["causal"], x)
    assert all(float(right.bound(each).max()) < 1.0 for each in (FP32, TF32, FP16))


def test_mean_that_each_term_moves_is_right() -> None:
    """Welford's running mean of small integers is inexact, but within the fp32 bound."""
    x = torch.tensor([7.0, -5.0, 0.0, -5.0, -6.0, -1.0, 10.0])
    running = torch.zeros(())
    for number, value in enumerate(x, start=1):
        running = running + (value - running) / number
    assert float(running) != float(x.mean()) == 0.0
    assert 0.0 < share(running, expected(lambda each: each.mean(0), x), FP32) <= 1.0


def test_gates_never_overflow() -> None:
    """The bounds of an LSTM's output stay below 4, because its sigmoids are at most 1.

    The test includes operators in place, because torch writes the LSTM's gates over their operands.
    """
    torch.manual_seed(0)
    layers = nn.LSTM(COLUMNS, 5, num_layers=2, bidirectional=True).double()
    x = DRAWS["large"](torch.Generator().manual_seed(0))[None]
    right = expected(lambda x: layers(x)[0], x)
    assert 0.0 < float(right.bound(FP32).max()) < float(right.bound(BF16).max()) < 4.0


def test_integers_that_are_added_at_places_are_exact() -> None:
    """The fp32 bound of a scatter_add of small integers is zero.

    For other numbers, the bound of each element grows with the number of terms added to the
    element.
    """
    x = torch.randint(-7, 8, (4, 6), generator=torch.Generator().manual_seed(0)).float()
    places = torch.tensor([[0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 1], [1] * 6, [1] * 6])

    def added(x: Tensor) -> Tensor:
        return torch.zeros(2, 6, dtype=x.dtype).scatter_add(0, places, x)

    assert not bool(expected(added, x).bound(FP32).any())
    rest = expected(added, x / 3).bound(FP32) / expected(added, x.abs() / 3).value
    assert float(rest[1].max()) > 1.02 * float(rest[0, 0])


def test_index_is_certain_where_its_operands_are() -> None:
    """The argmax of exact operands is the index of the first maximum, with a bound of 0.

    If operands are rounded, the bound includes the index of every element that may be the maximum.
    """
    x = torch.tensor([[0.0, 1.0, 1.0, 0.5], [0.25, 3.0, 1.0, 3.0 - 2.0**-9]])
    exact = expected(lambda x: x.argmax(1), x)
    assert exact.value.tolist() == [1, 1]
    assert exact.dtype == torch.int64
    assert not bool(exact.bound(FP32).any())
    assert exact.bound(BF16).floor().tolist() == [1, 2]


def test_factors_that_overflow_on_the_way_accuse_nobody() -> None:
    """A product with a factor of 0, whose other factors may overflow, has an infinite bound.

    The product is 0 in one order of multiplication and NaN in another.
    """
    x = torch.tensor([[1e30, 1e30, 0.0], [1e3, 1e3, 0.0]])
    assert expected(lambda x: x.prod(1), x).bound(FP32).isinf().tolist() == [True, False]


def test_truth_values_that_rounding_decides_are_counted() -> None:
    """The bound of a count of true comparisons is how many of them rounding may decide."""
    x = torch.tensor([[0.1, 0.2, 0.7], [0.1, 0.3, 0.9]])
    near = expected(lambda x: (x * x > 0.2**2).sum(1), x)
    assert near.bound(FP32).floor().tolist() == [1.0, 0.0]


def test_decision_by_rounding_allows_both_outcomes() -> None:
    """The bound of a `where` includes both branches if rounding may decide the comparison."""
    x = torch.full((1, 100), 0.1)
    limit = float(x.double().sum())
    right = expected(lambda x: torch.where(x.sum(1) > limit, 5.0, -5.0), x)
    assert right.bound(FP32).item() >= 10.0
    far = expected(lambda x: torch.where(x.sum(1) > limit + 1, 5.0, -5.0), x)
    assert far.bound(FP32).item() == 0.0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: torch.special.bessel_j0(x), "bessel_j0"),
        (lambda x: x * float(x.sum() > 0), "depend on the numbers"),
        (functional.dropout, "bernoulli"),
        (lambda x: torch.linalg.inv(x[:3, :3]), "linalg_inv_ex"),
        (lambda x: torch.fft.fft(x).log().real, "log"),
        (lambda x: nearest(x.view(1, 1, 3, 4), x.view(1, 2, 3, 2)), "grid_sampler with nearest"),
        (lambda x: x.scatter_reduce(0, (x * 3).long(), x, "amax"), "scatter_reduce"),
        (lambda x: x.as_strided((2, 2), (1, 1)).mT.as_strided((2,), (2,)), "as_strided of a view"),
    ],
)
def test_what_has_no_rule_is_named(function: Function, name: str) -> None:
    """Tracing an operator that has no rule raises a NoRuleError with the operator's name."""
    with pytest.raises(NoRuleError, match=name):
        expected(function, torch.rand(3, 4))


def test_traces_of_threads_that_end_do_not_crash() -> None:
    """A function can be traced in one thread after another has traced one and ended.

    With some releases of torch that are built for CUDA, and without a GPU, the process crashed.
    """
    program = (
        "import threading, torch\n"
        "from harness.problems.rounding.propagate import trace\n"
        "for _ in range(2):\n"
        "    thread = threading.Thread(target=trace, args=(torch.relu, [torch.ones(3)]))\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "print('no crash')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "no crash\n", done.stderr
