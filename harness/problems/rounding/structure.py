"""Operators that move elements: an error goes where its value goes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from harness.problems.rounding.tracked import NoRuleError, Rounding, Tracked, number, rule

_MOVING = """
    view _unsafe_view reshape permute transpose t expand slice select squeeze unsqueeze clone alias
    detach cat stack split split_with_sizes unbind flip roll tril triu repeat as_strided diagonal
    unfold lift_fresh_copy lift_fresh slice_scatter select_scatter diag_embed narrow movedim
    view_copy expand_copy permute_copy pixel_shuffle im2col _reshape_alias diagonal_copy
"""
_MAKING = "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty"


@rule(*_MOVING.split())
def moved(rounding: Rounding, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The same elements elsewhere."""
    del rounding
    values = operator(*_part(args, "value"), **_part(kwargs, "value"))
    if all(each.error is None for each in _tracked((args, kwargs))):
        return tree_map(lambda value: Tracked(value), values)
    errors = operator(*_part(args, "bound"), **_part(kwargs, "bound"))
    if isinstance(values, Tensor):
        return Tracked(values, errors)
    return [Tracked(value, error) for value, error in zip(values, errors, strict=True)]


@rule("constant_pad_nd")
def padded(rounding: Rounding, operator: Any, x: Tracked, pad: Any, value: float = 0) -> Tracked:
    """A border of one number."""
    del rounding
    border = number(value)
    error = operator(x.bound, pad, float(border.bound))
    return Tracked(operator(x.value, pad, value), error if bool(error.any()) else None)


@rule("gather", "index_select", "index", "embedding", "take_along_dim")
def picked(rounding: Rounding, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """By an index that is certain."""
    del rounding
    for each in _tracked((args[1:], kwargs)):
        if not each.value.is_floating_point() and each.error is not None:
            raise NoRuleError(
                f"{operator.overloadpacket.__name__} with an index that rounding decides"
            )
    errors = [_index_or_bound(each) for each in args]
    values = operator(*_part(args, "value"), **_part(kwargs, "value"))
    source = args[0]
    if source.error is None:
        return Tracked(values)
    return Tracked(values, operator(*errors, **_part(kwargs, "value")))


@rule("_to_copy")
def converted(rounding: Rounding, operator: Any, x: Tracked, **kwargs: Any) -> Tracked:
    """To another type; between floating-point types nothing is lost that is not counted."""
    del rounding
    value = operator(x.value, **kwargs)
    if value.dtype is torch.float32:
        value = value.double()
    if x.error is not None and x.value.is_floating_point() and not value.is_floating_point():
        return Tracked(value, x.error.ceil() + 1.0)
    return Tracked(value, x.error)


@rule("copy")
def replaced(rounding: Rounding, operator: Any, target: Tracked, source: Tracked) -> Tracked:
    """What is written over."""
    del rounding, operator
    error = None if source.error is None else source.error.expand(target.value.shape)
    return Tracked(source.value.expand(target.value.shape), error)


@rule(*_MAKING.split())
def made(rounding: Rounding, operator: Any, x: Tracked, *args: Any, **kwargs: Any) -> Tracked:
    """A constant of its shape."""
    del rounding
    return Tracked(operator(x.value, *args, **kwargs))


def _tracked(values: Any) -> list[Tracked]:
    found: list[Tracked] = []
    tree_map(lambda each: found.append(each) if isinstance(each, Tracked) else None, values)
    return found


def _part(values: Any, name: str) -> Any:
    return tree_map(lambda x: getattr(x, name) if isinstance(x, Tracked) else x, values)


def _index_or_bound(argument: Any) -> Any:
    def part(each: Any) -> Any:
        if not isinstance(each, Tracked):
            return each
        return each.bound if each.value.is_floating_point() else each.value

    return tree_map(part, argument)
