"""Torch's operators, computed by the plain CUDA kernels in kernels.cu.

This file is a part of a submission. `plain_kernels.py` inserts `kernels.cu` into it, and appends
the text of a reference, whose `Model` then calls these operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = ""
_SIGNATURES = """
#include <optional>
using Sizes = std::vector<int64_t>;
torch::Tensor unary(torch::Tensor x, std::string name, double p, double q);
torch::Tensor binary(torch::Tensor x, torch::Tensor y, std::string name);
torch::Tensor reduce(torch::Tensor x, std::string name);
torch::Tensor place(torch::Tensor x, bool of_largest);
torch::Tensor scan(torch::Tensor x, std::string name);
torch::Tensor pick(torch::Tensor x, torch::Tensor places);
torch::Tensor matmul(torch::Tensor a, torch::Tensor b);
torch::Tensor convolution(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, Sizes out_sizes,
    Sizes stride, Sizes padding, Sizes dilation, int64_t groups, bool transposed);
torch::Tensor pool(
    torch::Tensor x, std::string name, Sizes out_sizes, Sizes kernel, Sizes stride, Sizes padding,
    Sizes dilation, bool is_mean);
"""
_FUNCTIONS = [
    *("unary", "binary", "reduce", "place", "scan", "pick", "matmul", "convolution", "pool")
]

plain: Any = load_inline(  # type: ignore[no-untyped-call]
    name="plain",
    cpp_sources=_SIGNATURES,
    cuda_sources=CUDA_SOURCE,
    functions=_FUNCTIONS,
)

Handler = Callable[..., Any]
Number = float | int
Size = int | Sequence[int]


def floats(x: Tensor) -> Tensor:
    """Return a tensor of any number type, or of booleans, as float32."""
    return x if x.dtype == torch.float32 else x.float()


def unary(name: str, x: Tensor, p: float = 0.0, q: float = 0.0) -> Tensor:
    """Compute the function `name`, with parameters p and q, of each element of x."""
    return plain.unary(floats(x).contiguous(), name, p, q)  # type: ignore[no-any-return]


def binary(name: str, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """Compute the function `name` of two operands, after broadcasting; one may be a number."""
    (device,) = {each.device for each in (x, y) if isinstance(each, Tensor)}
    operands = [
        floats(each)
        if isinstance(each, Tensor)
        else torch.full((), each, dtype=torch.float32, device=device)
        for each in (x, y)
    ]
    shape = torch.broadcast_shapes(*(each.shape for each in operands))  # type: ignore[no-untyped-call]
    first, second = (each.expand(shape) for each in operands)
    return plain.binary(first, second, name)  # type: ignore[no-any-return]


def _rows(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Return x as a contiguous float32 matrix; each row has all elements of the dimensions `dims`.

    There is one row for each index of the other dimensions.
    """
    kept = [d for d in range(x.dim()) if d not in dims]
    columns = math.prod(x.shape[d] for d in dims)
    return floats(x).permute(*kept, *dims).reshape(-1, columns).contiguous()


def _dims(x: Tensor, dim: Size | None) -> list[int]:
    if dim is None:
        return list(range(x.dim()))
    dims = [dim] if isinstance(dim, int) else dim
    return [d % x.dim() for d in dims]


def _shape(x: Tensor, dims: Sequence[int], keepdim: bool) -> list[int]:
    sizes = [1 if d in dims else size for d, size in enumerate(x.shape)]
    return sizes if keepdim else [size for d, size in enumerate(x.shape) if d not in dims]


def reduce(name: str, x: Tensor, dim: Size | None = None, keepdim: bool = False) -> Tensor:
    """Reduce the dimensions `dim`, or all, by the function `name`, such as `sum`."""
    dims = _dims(x, dim)
    found: Tensor = plain.reduce(_rows(x, dims), name)
    return found.view(_shape(x, dims, keepdim))


def mean(x: Tensor, dim: Size | None = None, keepdim: bool = False, **_: object) -> Tensor:
    """Compute `torch.mean` with plain kernels."""
    count = math.prod(x.shape[d] for d in _dims(x, dim))
    return binary("div", reduce("sum", x, dim, keepdim), count)


def place(x: Tensor, dim: int, keepdim: bool, of_largest: bool) -> Tensor:
    """Compute `torch.argmax` if `of_largest`, else `torch.argmin`, with plain kernels."""
    dims = _dims(x, dim)
    found: Tensor = plain.place(_rows(x, dims), of_largest)
    return found.view(_shape(x, dims, keepdim))


def extreme(name: str, x: Tensor, *given: Any, **named: Any) -> Any:
    """Compute `torch.max` (`amax`) or `torch.min` (`amin`) in all their overloads."""
    dim, *rest = [*given, *named.values()] or [None]
    if isinstance(dim, Tensor):
        return binary("maximum" if name == "amax" else "minimum", x, dim)
    values = reduce(name, x, dim, *rest)
    if dim is None:
        return values
    indices = _extreme_place(x, dim, *rest, of_largest=name == "amax")
    return torch.return_types.max((values, indices))


def scan(name: str, x: Tensor, dim: int) -> Tensor:
    """Compute `torch.cumsum` (`sum`) or `torch.cumprod` (`prod`) with plain kernels."""
    moved = floats(x).movedim(dim, -1)
    # Rows without elements have no size that -1 could stand for.
    rows = moved.flatten(0, -2) if moved.dim() > 1 else moved[None]
    found: Tensor = plain.scan(rows.contiguous(), name)
    return found.view(moved.shape).movedim(-1, dim)


def softmax(x: Tensor, dim: int = -1, *_: object, **__: object) -> Tensor:
    """Compute `torch.softmax` with plain kernels."""
    shifted = binary("sub", x, reduce("amax", x, dim, keepdim=True))
    powers = unary("exp", shifted)
    return binary("div", powers, reduce("sum", powers, dim, keepdim=True))


def log_softmax(x: Tensor, dim: int = -1, *_: object, **__: object) -> Tensor:
    """Compute `torch.log_softmax` with plain kernels."""
    shifted = binary("sub", x, reduce("amax", x, dim, keepdim=True))
    total = reduce("sum", unary("exp", shifted), dim, keepdim=True)
    return binary("sub", shifted, unary("log", total))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Compute `torch.matmul` with plain kernels."""
    x = a[None] if a.dim() == 1 else a
    y = b[:, None] if b.dim() == 1 else b
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[no-untyped-call]
    x, y = (floats(each).expand(*batch, *each.shape[-2:]) for each in (x, y))
    flat = [each.reshape(-1, *each.shape[-2:]) for each in (x, y)]
    found: Tensor = plain.matmul(*flat).view(*batch, x.shape[-2], y.shape[-1])
    found = found.squeeze(-2) if a.dim() == 1 else found
    return found.squeeze(-1) if b.dim() == 1 else found


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `functional.linear` with plain kernels."""
    product = matmul(x, weight.mT)
    return product if bias is None else binary("add", product, bias)


def einsum(equation: str, *operands: Any) -> Tensor:
    """Compute `torch.einsum` of two operands as a batched matrix product."""
    a, b = operands[0] if isinstance(operands[0], list | tuple) else operands
    (of_a, of_b), result = (
        equation.replace(" ", "").split("->")[0].split(","),
        equation.split("->")[1].strip(),
    )
    summed = [name for name in dict.fromkeys(of_a + of_b) if name not in result]
    both = [name for name in result if name in of_a and name in of_b]
    ours = [name for name in result if name in of_a and name not in of_b]
    theirs = [name for name in result if name in of_b and name not in of_a]
    sizes = dict(zip(of_a + of_b, (*a.shape, *b.shape), strict=True))

    def as_matrices(x: Tensor, names: str, *groups: list[str]) -> Tensor:
        order = [names.index(name) for group in groups for name in group]
        return x.permute(order).reshape([math.prod(sizes[n] for n in group) for group in groups])

    left, right = (
        as_matrices(a, of_a, both, ours, summed),
        as_matrices(b, of_b, both, summed, theirs),
    )
    order = [*both, *ours, *theirs]
    found: Tensor = plain.matmul(left, right).view([sizes[name] for name in order])
    return found.permute([order.index(name) for name in result])


def _three(sizes: Size, dims: int, otherwise: int) -> list[int]:
    """Extend a setting, such as a stride, from `dims` dimensions to three.

    The added leading dimensions get the value `otherwise`.
    """
    each = [sizes] * dims if isinstance(sizes, int) else list(sizes)
    return [otherwise] * (3 - dims) + (each * dims if len(each) == 1 else each)


def _volume(x: Tensor, dims: int) -> Tensor:
    """Return a tensor, with or without batch, as (batch, channels, depth, height, width)."""
    whole = floats(x)[None] if x.dim() == dims + 1 else floats(x)
    return whole.reshape(*whole.shape[:2], *[1] * (3 - dims), *whole.shape[2:]).contiguous()


def _slid(
    volume: Tensor, k: Sequence[int], s: Sequence[int], p: Sequence[int], d: Sequence[int]
) -> list[int]:
    """Return the 3 output sizes of a window with kernel k, stride s, padding p and dilation d."""
    return [(volume.shape[n + 2] + 2 * p[n] - d[n] * (k[n] - 1) - 1) // s[n] + 1 for n in range(3)]


def _flattened(found: Tensor, like: Tensor, dims: int) -> Tensor:
    flat = found.reshape(*found.shape[:2], *found.shape[5 - dims :])
    return flat[0] if like.dim() == dims + 1 else flat


def convolution(
    dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Compute `functional.conv1d`, `conv2d` or `conv3d` with plain kernels."""
    volume, kernel = _volume(x, dims), _volume(weight, dims)
    s, p, d = _three(stride, dims, 1), _three(padding, dims, 0), _three(dilation, dims, 1)
    out = _slid(volume, kernel.shape[2:], s, p, d)
    found = plain.convolution(volume, kernel, bias, out, s, p, d, groups, False)
    return _flattened(found, x, dims)


def transposed_convolution(
    dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Compute `functional.conv_transpose1d`, `2d` or `3d` with plain kernels."""
    volume, kernel = _volume(x, dims), _volume(weight, dims)
    s, p, d = _three(stride, dims, 1), _three(padding, dims, 0), _three(dilation, dims, 1)
    more = _three(output_padding, dims, 0)
    out = [
        (volume.shape[n + 2] - 1) * s[n] - 2 * p[n] + d[n] * (kernel.shape[n + 2] - 1) + more[n] + 1
        for n in range(3)
    ]
    found = plain.convolution(volume, kernel, bias, out, s, p, d, groups, True)
    return _flattened(found, x, dims)


def _pooled(
    dims: int, name: str, x: Tensor, kernel: Size, stride: Size, padding: Size, dilation: Size
) -> Tensor:
    volume = _volume(x, dims)
    k, s = _three(kernel, dims, 1), _three(stride or kernel, dims, 1)
    p, d = _three(padding, dims, 0), _three(dilation, dims, 1)
    out = _slid(volume, k, s, p, d)
    return _flattened(plain.pool(volume, name, out, k, s, p, d, name == "sum"), x, dims)


def max_pool(
    dims: int,
    x: Tensor,
    kernel_size: Size,
    stride: Size = (),
    padding: Size = 0,
    dilation: Size = 1,
    **_: object,
) -> Tensor:
    """Compute `functional.max_pool1d`, `max_pool2d` or `max_pool3d` with plain kernels."""
    return _pooled(dims, "amax", x, kernel_size, stride, padding, dilation)


def average_pool(
    dims: int,
    x: Tensor,
    kernel_size: Size,
    stride: Size = (),
    padding: Size = 0,
    *_: object,
    **__: object,
) -> Tensor:
    """Compute `functional.avg_pool1d`, `2d` or `3d`; windows include the padding."""
    return _pooled(dims, "sum", x, kernel_size, stride, padding, 1)


def _normalised(
    x: Tensor, dims: Sequence[int], eps: float, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    off = binary("sub", x, mean(x, dims, keepdim=True))
    variance = mean(binary("mul", off, off), dims, keepdim=True)
    found = binary("div", off, unary("sqrt", binary("add", variance, eps)))
    found = found if weight is None else binary("mul", found, weight)
    return found if bias is None else binary("add", found, bias)


def _of_channels(x: Tensor, values: Tensor | None) -> Tensor | None:
    return None if values is None else values.view(-1, *[1] * (x.dim() - 2))


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    """Compute `functional.batch_norm` in training mode with plain kernels."""
    del running_mean, running_var, training, momentum
    dims = [0, *range(2, x.dim())]
    return _normalised(x, dims, eps, _of_channels(x, weight), _of_channels(x, bias))


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    """Compute `functional.instance_norm` with plain kernels."""
    del running_mean, running_var, use_input_stats, momentum
    dims = [*range(2, x.dim())]
    return _normalised(x, dims, eps, _of_channels(x, weight), _of_channels(x, bias))


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    """Compute `functional.group_norm` with plain kernels."""
    grouped = x.reshape(len(x), num_groups, -1)
    found = _normalised(grouped, [2], eps, None, None).view(x.shape)
    for name, values in (("mul", _of_channels(x, weight)), ("add", _of_channels(x, bias))):
        found = found if values is None else binary(name, found, values)
    return found


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    """Compute `functional.layer_norm` with plain kernels."""
    dims = [*range(x.dim() - len(normalized_shape), x.dim())]
    return _normalised(x, dims, eps, weight, bias)


def norm(
    x: Tensor, p: Any = 2, dim: Size | None = None, keepdim: bool = False, **_: object
) -> Tensor:
    """Compute `torch.norm` for p of 1 (absolute values) or 2 (squares)."""
    if p == 1:
        return reduce("sum", unary("abs", x), dim, keepdim)
    return unary("sqrt", reduce("sum", binary("mul", x, x), dim, keepdim))


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, **_: object) -> Tensor:
    """Compute `functional.normalize` with plain kernels."""
    return binary("div", x, unary("clamp", norm(x, p, dim, keepdim=True), eps, math.inf))


def reduced(losses: Tensor, how: str) -> Tensor:
    """Reduce losses of elements; `how` is a loss's `reduction`: none, mean, sum or batchmean."""
    if how == "none":
        return losses
    if how == "batchmean":
        return binary("div", reduce("sum", losses), len(losses))
    return mean(losses) if how == "mean" else reduce("sum", losses)


def mse_loss(
    x: Tensor, target: Tensor, *_: object, reduction: str = "mean", **__: object
) -> Tensor:
    """Compute `functional.mse_loss` with plain kernels."""
    off = binary("sub", x, target)
    return reduced(binary("mul", off, off), reduction)


def cross_entropy(x: Tensor, target: Tensor, *_: object, **__: object) -> Tensor:
    """Compute `functional.cross_entropy` of scores (batch, classes) and class indices (batch)."""
    picked = plain.pick(log_softmax(x, 1).contiguous(), target.contiguous())
    return mean(unary("neg", picked))


def smooth_l1_loss(
    x: Tensor, target: Tensor, *_: object, reduction: str = "mean", beta: float = 1.0, **__: object
) -> Tensor:
    """Compute `functional.smooth_l1_loss` with plain kernels."""
    losses = unary("huber", binary("sub", x, target), beta)
    return reduced(binary("div", losses, beta), reduction)


def huber_loss(
    x: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, **_: object
) -> Tensor:
    """Compute `functional.huber_loss` with plain kernels."""
    return reduced(unary("huber", binary("sub", x, target), delta), reduction)


def kl_div(x: Tensor, target: Tensor, *_: object, reduction: str = "mean", **__: object) -> Tensor:
    """Compute `functional.kl_div` with plain kernels; a target of 0 contributes 0, as in torch."""
    smallest = 2.0**-149
    off = binary("sub", unary("log", unary("clamp", target, smallest, math.inf)), x)
    return reduced(binary("mul", target, off), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    *_: object,
    **__: object,
) -> Tensor:
    """Compute `functional.triplet_margin_loss` with plain kernels."""
    near, far = (
        norm(binary("add", binary("sub", anchor, other), eps), p, -1)
        for other in (positive, negative)
    )
    return mean(unary("relu", binary("add", binary("sub", near, far), margin)))


def attention(
    q: Tensor, k: Tensor, v: Tensor, *_: object, is_causal: bool = False, **__: object
) -> Tensor:
    """Compute `functional.scaled_dot_product_attention` without a mask argument."""
    scores = binary("mul", matmul(q, k.mT), 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        after = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(after, -math.inf)
    return matmul(softmax(scores, -1), v)


def clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:  # noqa: A002 - torch's names
    """Compute `torch.clamp` whose limits are numbers, not tensors."""
    return unary("clamp", x, -math.inf if min is None else min, math.inf if max is None else max)


def hardtanh(
    x: Tensor, min_val: float = -1.0, max_val: float = 1.0, *_: object, **__: object
) -> Tensor:
    """Compute `functional.hardtanh` with plain kernels."""
    return unary("clamp", x, min_val, max_val)


def _function(name: str, p: float = 0.0, q: float = 0.0) -> Handler:
    """Return a handler for a torch function of one operand and up to two parameters.

    The handler takes the parameters by position or by any name, in torch's order. `p` and `q` are
    their defaults.
    """

    def called(x: Tensor, first: float = p, second: float = q, **named: Any) -> Tensor:
        settings = [each for each in named.values() if not isinstance(each, bool)]
        return unary(name, x, *(settings or (first, second)))

    return called


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return unary("gelu_tanh" if approximate == "tanh" else "gelu", x)


def _turned(name: str) -> Handler:
    return lambda x, y: binary(name, y, x)


def _extreme_place(x: Tensor, dim: int, keepdim: bool = False, *, of_largest: bool) -> Tensor:
    return place(x, dim, keepdim, of_largest)


def _handlers() -> Iterator[tuple[str, Handler]]:
    for name in ("relu", "sigmoid", "tanh", "silu", "selu", "hardsigmoid", "softsign"):
        yield name, _function(name)
    for name in ("abs", "exp", "log", "sqrt", "neg"):
        yield name, _function(name)
    yield "leaky_relu", _function("leaky_relu", 0.01)
    yield "elu", _function("elu", 1.0)
    yield "softplus", _function("softplus", 1.0, 20.0)
    yield "hardtanh", hardtanh
    yield "gelu", _gelu
    yield "clamp", clamp
    for name in ("add", "sub", "mul", "pow", "maximum", "minimum"):
        yield name, partial(binary, name)
        yield f"__{name}__", partial(binary, name)
    for name in ("div", "__truediv__"):
        yield name, partial(binary, "div")
    for name in ("add", "mul", "sub", "div", "truediv"):
        yield f"__r{name}__", _turned(name.removeprefix("true"))
    for name in ("sum", "prod", "amax", "amin"):
        yield name, partial(reduce, name)
    yield "mean", mean
    yield "max", partial(extreme, "amax")
    yield "min", partial(extreme, "amin")
    yield "argmax", partial(_extreme_place, of_largest=True)
    yield "argmin", partial(_extreme_place, of_largest=False)
    yield "cumsum", partial(scan, "sum")
    yield "cumprod", partial(scan, "prod")
    yield "softmax", softmax
    yield "log_softmax", log_softmax
    for name in ("matmul", "__matmul__", "mm", "bmm"):
        yield name, matmul
    yield "linear", linear
    yield "einsum", einsum
    for dims in (1, 2, 3):
        yield f"conv{dims}d", partial(convolution, dims)
        yield f"conv_transpose{dims}d", partial(transposed_convolution, dims)
        yield f"max_pool{dims}d", partial(max_pool, dims)
        yield f"avg_pool{dims}d", partial(average_pool, dims)
    for norms in (batch_norm, instance_norm, group_norm, layer_norm, norm, normalize):
        yield norms.__name__, norms
    for loss in (mse_loss, cross_entropy, smooth_l1_loss, huber_loss, kl_div, triplet_margin_loss):
        yield loss.__name__, loss
    yield "scaled_dot_product_attention", attention


HANDLERS = dict(_handlers())


class PlainKernels(TorchFunctionMode):
    """A mode in which torch functions and methods are computed by the operators of this file.

    Functions that this file lacks are left to torch.
    """

    def __torch_function__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call this file's operator of the function's name, or torch's own if the file has none."""
        del types
        handler = HANDLERS.get(func.__name__)
        if handler is None:
            return func(*args, **kwargs or {})
        return _as_operands(handler(*args, **kwargs or {}), args)


def _as_operands(result: Any, operands: Sequence[object]) -> Any:
    """Convert a float result to the dtype of the first operand if that is float16 or bfloat16.

    Torch also returns results in this dtype. The operators of this file compute in float32.
    """
    dtype = next((each.dtype for each in operands if isinstance(each, Tensor)), torch.float32)
    is_half = dtype in (torch.float16, torch.bfloat16)
    is_float = isinstance(result, Tensor) and result.is_floating_point()
    return result.to(dtype) if is_half and is_float else result
