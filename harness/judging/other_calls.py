"""Mistakes in the calls of a reference: operators that are called differently.

A kernel is often the reference with one thing forgotten or misread: a relu, an eps, a stride, the
dimension of a sum. A run of the reference shows which operators the reference calls, with which
arguments. The reference can then run again with one of these calls changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.judging.reference_calls import Call, Called, ChangedCall, Make, by_name, signature

# Functions, each with those that it is mistaken for.
_TAKEN_FOR: Mapping[str, Sequence[str]] = {
    "add": ("sub",),
    "sub": ("add",),
    "mul": ("div",),
    "div": ("mul",),
    "sum": ("mean", "amax"),
    "mean": ("sum", "amax"),
    "amax": ("amin", "sum", "mean"),
    "amin": ("amax",),
    "argmax": ("argmin",),
    "argmin": ("argmax",),
    "var": ("std",),
    "std": ("var",),
    "softmax": ("log_softmax",),
    "log_softmax": ("softmax",),
    "cumsum": ("cumprod",),
    "cumprod": ("cumsum",),
}
# Any of these is mistaken for any other.
_ACTIVATIONS = (
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus"),
    *("sigmoid", "tanh", "hardtanh", "hardsigmoid", "hardswish", "softsign", "abs"),
)
_NORMS = ("batch_norm", "layer_norm", "group_norm", "instance_norm")
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "linear"})
# Functions whose two operands may be exchanged by mistake.
_TURNED = frozenset({"sub", "div", "pow", "matmul", "mm", "bmm"})
_LARGEST = ("amax", "max_pool", "maximum")
# Functions for which -inf stands for a missing number; 0 does for others.
_OF_LARGEST = frozenset({"amax", "softmax", "log_softmax", "logsumexp"})
# Settings of a window with their defaults.
_USUAL = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
# Arguments that are not varied, mostly because they determine shapes.
_NOT_TRIED = frozenset(
    {
        *("dim", "dims", "dim0", "dim1", "axis", "kernel_size", "normalized_shape", "output_size"),
        *("size", "groups", "names", "k", "_stacklevel", "diagonal", "inplace", "return_indices"),
        *("momentum", "dropout_p", "keepdim"),
    }
)
_OF_CHANNELS = "num_groups"
# Values that an eps is mistaken for. A positive number below the second constant counts as an eps.
_EPS = (0.0, 1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
_SMALL = 1e-2
_WORDS: Mapping[str, Sequence[str]] = {
    "reduction": ("mean", "sum"),
    "approximate": ("none", "tanh"),
}
# Operands that a call need not have.
_OPTIONAL = frozenset({"weight", "bias", "attn_mask", "pos_weight"})
_POOLS = {"max": "avg", "avg": "max"}
_OF_POOLS = ("kernel_size", "stride")
# Limits, each with a value that stands for no limit.
_LIMITS = {"min": -torch.inf, "max": torch.inf, "min_val": -1e30, "max_val": 1e30}


def changes(calls: Sequence[Called]) -> Iterator[ChangedCall]:
    """Yield mistaken variants of a reference's operator calls, the most informative first."""
    for ways in (_left_out, _settings, _other_functions, _dimensions, _starts):
        for called in calls:
            yield from ways(called)


def shortened(calls: Sequence[Called]) -> Iterator[ChangedCall]:
    """Yield variants of a reference's calls in which a sum or a maximum lacks its last term."""
    for called in calls:
        yield from _ends(called)


def _change(called: Called, name: str, words: str, make: Make) -> ChangedCall:
    """Return a change of a call; `words` describe the changed result, with {} for the call."""
    where = f"{called.name}{called.where}"
    return ChangedCall(name, f"The output equals the result {words.format(where)}.", called, make)


def _with(called: Called, parameter: str, value: object) -> ChangedCall:
    """Return a change of a call that passes another value for one parameter."""
    was = called.arguments[parameter]
    is_limit, words = parameter in _LIMITS, _operand(parameter)
    return _change(
        called,
        f"{parameter} left out" if is_limit else f"{words} taken as {value}",
        f"without {parameter} in {{}}"
        if is_limit
        else f"with {words} {value} in place of {was} in {{}}",
        lambda call, given: _fitted(called.name, call, given, parameter, value),
    )


def _fitted(
    name: str, call: Call, given: Mapping[str, Any], parameter: str, value: object
) -> Tensor:
    """Return a call's result with another argument, cut to the shape of the right result."""
    changed = {**given, parameter: value}
    if parameter not in _USUAL:
        return call(changed)
    right = call(given)
    if parameter == "padding" and "transpose" not in name:
        # A smaller padding gives a shorter output. Numbers without effect behind the input make it
        # as long again.
        first = next(iter(given))
        more = _of_each_dimension(given["padding"], right.dim() - 2)
        behind = [each for size in reversed(more) for each in (0, 2 * size)]
        nothing = -torch.inf if "max" in name else 0.0
        changed[first] = functional.pad(given[first], behind, value=nothing)
    return call(changed)[tuple(slice(size) for size in right.shape)]


def _of_each_dimension(sizes: int | Sequence[int], dimensions: int) -> Sequence[int]:
    """Return a window's setting, such as its padding, as one number for each dimension."""
    return [sizes] * dimensions if isinstance(sizes, int) else sizes


def _operand(name: str) -> str:
    """Return the description of an operand in messages, from the name of torch's parameter."""
    return {"input": "the first operand", "self": "the first operand"}.get(
        name, "the second operand" if name in ("other", "mat2") else name
    )


def _left_out(called: Called) -> Iterator[ChangedCall]:
    """Yield changes that leave out a call, or one of its operands."""
    alike = {n: v for n, v in called.tensors.items() if v.shape == called.result.shape}
    for name in alike:
        words = f", with {_operand(name)} in its place" if len(alike) > 1 else ""
        yield _change(
            called,
            f"{called.name} left out",
            f"without {{}}{words}",
            lambda _, given, name=name: given[name].clone(),  # type: ignore[misc]
        )
    # An operand that may be left out has None as its default.
    optional = [
        name
        for name in [*called.tensors][1:]
        if name in _OPTIONAL and signature(called.function).get(name, 0) is None
    ]
    both = [optional] if len(optional) > 1 else []
    for names in (*([name] for name in optional), *both):
        words = " and ".join(names)
        yield _change(
            called,
            f"{words} left out",
            f"without {words} in {{}}",
            lambda call, given, names=names: call(  # type: ignore[misc]
                {**given, **dict.fromkeys(names)}
            ),
        )


def _settings(called: Called) -> Iterator[ChangedCall]:
    """Yield changes of arguments that are not operands, such as an eps or a stride."""
    arguments = called.arguments
    if called.name in ("var", "std") and not {"correction", "unbiased"} & arguments.keys():
        yield _change(
            called,
            "n in place of n - 1",
            "with a division by n in {}",
            lambda call, given: call({**given, "correction": 0}),
        )
    for name, value in arguments.items():
        for other in _values(called, name, value):
            yield _with(called, name, other)
    if called.name == "batch_norm" and arguments.get("training"):
        yield _change(
            called,
            "running statistics",
            "with updated running statistics in place of those of the batch in {}",
            _with_updated_statistics,
        )
    if called.name in _NORMS:
        yield _change(
            called,
            "n - 1 in place of n",
            "with a division by n - 1 in the variance of {}",
            lambda call, given: _with_unbiased_variance(called, call, given),
        )


def _with_updated_statistics(call: Call, given: Mapping[str, Any]) -> Tensor:
    """Return the result of a batch norm that uses its running statistics.

    The running statistics are first updated with the statistics of the batch.
    """
    values, momentum = given["input"], given.get("momentum", 0.1)
    dimensions = [each for each in range(values.dim()) if each != 1]
    batch = {"running_mean": values.mean(dimensions), "running_var": values.var(dimensions)}
    updated = {name: torch.lerp(given[name], each, momentum) for name, each in batch.items()}
    return call({**given, **updated, "training": False})


def _with_unbiased_variance(called: Called, call: Call, given: Mapping[str, Any]) -> Tensor:
    """Return a norm whose variance v is divided by n - 1 instead of n.

    The result follows from the norm with another eps:

        v n / (n - 1) + eps = n / (n - 1) * (v + eps (n - 1) / n)
    """
    values = given[next(iter(given))]
    rows = math.prod(values.shape[:2])
    count = {
        "batch_norm": values.numel() // values.shape[1],
        "instance_norm": values.numel() // rows,
        "group_norm": values[0].numel() // given.get("num_groups", 1),
        "layer_norm": math.prod(given.get("normalized_shape", ())),
    }[called.name]
    factor: float = (count - 1) / count
    changed = {**given, "eps": factor * called.arguments["eps"]}
    return call(changed) - (1.0 - math.sqrt(factor)) * call({**changed, "bias": None})


def _values(called: Called, name: str, value: object) -> Iterator[object]:
    """Yield wrong values that a kernel may use in place of an argument."""
    if name in _USUAL:
        yield from _sizes(value, _USUAL[name])
    elif isinstance(value, bool):
        yield from [not value] if name not in _NOT_TRIED else []
    elif name == "eps" or (isinstance(value, float) and 0 < value < _SMALL):
        yield from (each for each in _EPS if each != value)
    elif name in _LIMITS and isinstance(value, int | float):
        yield _LIMITS[name]
    elif name == _OF_CHANNELS:
        yield from {1, called.result.shape[1]} - {value}
    elif isinstance(value, int | float) and name not in _NOT_TRIED:
        default = signature(called.function).get(name)
        usual = (default,) if isinstance(default, int | float) else ()
        inverse = (1 / value,) if value else ()
        others = dict.fromkeys((*usual, 0.0, 1.0, -value, *inverse))
        yield from (each for each in others if each != value)
    elif isinstance(value, str):
        yield from (each for each in _WORDS.get(name, ()) if each != value)


def _sizes(value: object, usual: int) -> Iterator[object]:
    """Yield wrong values that a kernel may use in place of a window's setting, such as a stride."""
    if isinstance(value, int):
        yield from [usual] if value != usual else []
    elif isinstance(value, list | tuple) and value:
        ignored = (usual,) * len(value)
        yield from dict.fromkeys(
            each for each in (ignored, tuple(value)[::-1]) if each != tuple(value)
        )


def _other_functions(called: Called) -> Iterator[ChangedCall]:
    """Yield changes that call another function, or that exchange or transpose operands."""
    first = next(iter(called.arguments))
    for other in _TAKEN_FOR.get(called.name, ()):
        function = _beside(called.function, other)
        if function:
            yield _change(
                called,
                f"{other} in place of {called.name}",
                f"with {other} in place of {{}}",
                lambda _, given, function=function: by_name(function, called.given, given),  # type: ignore[misc]
            )
    for other in _ACTIVATIONS if called.name in _ACTIVATIONS else ():
        function = getattr(functional, other, None) or getattr(torch, other)
        if other != called.name:
            yield _change(
                called,
                f"{other} in place of {called.name}",
                f"with {other} in place of {{}}",
                lambda _, given, function=function: function(given[first]),  # type: ignore[misc]
            )
    kind, _, dimensions = called.name.partition("_pool")
    if dimensions in ("1d", "2d", "3d") and kind in _POOLS:
        function = getattr(functional, f"{_POOLS[kind]}_pool{dimensions}")
        yield _change(
            called,
            f"{_POOLS[kind]} in place of {kind}",
            f"with {function.__name__} in place of {{}}",
            lambda _, given: function(
                given[first], *(given.get(each) for each in _OF_POOLS), given.get("padding", 0)
            ),
        )
    names = [*called.tensors]
    if called.name in _TURNED and len(names) > 1:
        second = names[1]
        yield _change(
            called,
            "operands swapped",
            "with the operands of {} swapped",
            lambda call, given: call({**given, first: given[second], second: given[first]}),
        )
    for name in names[:2] if called.name in _PRODUCTS else []:
        yield _change(
            called,
            "operand transposed",
            f"with {_operand(name)} of {{}} transposed",
            lambda call, given, name=name: call({**given, name: given[name].mT}),  # type: ignore[misc]
        )


def _beside(function: Any, other: str) -> Any:
    """Return the function named `other` from the namespace of `function`; None if it is missing.

    If `function` works in place, the result is the in-place variant of `other`.
    """
    name = function.__name__
    in_place = "_" if name.endswith("_") and not name.startswith("_") else ""
    for place in (Tensor, functional, torch):
        if getattr(place, name, None) is function:
            return getattr(place, other + in_place, None)
    return getattr(Tensor, other, None)


def _dimensions(called: Called) -> Iterator[ChangedCall]:
    """Yield changes that pass another dimension as `dim`."""
    dim, tensors = called.arguments.get("dim"), [*called.tensors.values()]
    if not isinstance(dim, int) or isinstance(dim, bool) or not tensors:
        return
    dimensions = tensors[0].dim()
    for other in range(dimensions):
        if other != dim % dimensions:
            yield _with(called, "dim", other)


def _starts(called: Called) -> Iterator[ChangedCall]:
    """Yield changes in which a maximum starts from 0, or includes zeros of the padding."""
    if not any(name in called.name for name in _LARGEST):
        return
    yield _change(
        called,
        "the maximum starts from 0",
        "with 0 in place of negative values after {}",
        lambda call, given: call(given).clamp_min(0.0),
    )
    padding = called.arguments.get("padding")
    if padding and "adaptive" not in called.name:
        more = _of_each_dimension(padding, called.result.dim() - 2)
        around = [size for size in reversed(more) for _ in range(2)]
        first = next(iter(called.arguments))
        yield _change(
            called,
            "0 in the padding",
            "with zeros around the input of {}",
            lambda call, given: call(
                {**given, first: functional.pad(given[first], around), "padding": 0}
            ),
        )


def _ends(called: Called) -> Iterator[ChangedCall]:
    """Yield changes that leave out the last term of a sum or a maximum."""
    name, value = next(iter(called.tensors.items()), ("", None))
    if value is None or not value.dim() or not value.is_floating_point():
        return
    dim = -1 if called.name in _PRODUCTS else called.arguments.get("dim")
    nothing = -torch.inf if called.name in _OF_LARGEST else 0.0
    for each in [dim] if isinstance(dim, int) else dim if isinstance(dim, list | tuple) else []:
        yield _change(
            called,
            "the last term missing",
            f"without the last index of {_operand(name)} along dimension {each} in {{}}",
            lambda call, given, each=each: call(  # type: ignore[misc]
                {**given, name: _without_last(given[name], each, nothing)}
            ),
        )


def _without_last(values: Tensor, dim: int, nothing: float) -> Tensor:
    kept = values.narrow(dim, 0, values.shape[dim] - 1)
    last = torch.full_like(values.narrow(dim, 0, 1), nothing)
    return torch.cat([kept, last], dim)
