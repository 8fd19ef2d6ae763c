"""Error-bound rules of operators that move, pick or write elements; errors move with values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from harness.problems.rounding.elementwise import select_where
from harness.problems.rounding.tracked import (
    NoRuleError,
    RoundingErrors,
    Tracked,
    bound_monotone,
    complex_rule,
    constant,
    is_whole,
    require_exact,
    rule,
)

_MOVING = """
    view _unsafe_view reshape permute transpose t expand slice select squeeze unsqueeze clone alias
    detach cat stack split split_with_sizes unbind flip roll tril triu repeat diagonal
    unfold lift_fresh_copy lift_fresh slice_scatter select_scatter diag_embed narrow movedim
    view_copy expand_copy permute_copy pixel_shuffle im2col _reshape_alias diagonal_copy
"""
_MAKING = "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty"


@rule(*_MOVING.split())
@complex_rule(*_MOVING.split(), "neg")
def moved(rounding: RoundingErrors, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Bound the error of an operator that moves elements, by moving the errors in the same way.

    If the first operand is the only tensor, its `Tracked.terms` are moved in the same way.
    """
    del rounding
    values = operator(*_part(args, "value"), **_part(kwargs, "value"))
    known = _tracked((args, kwargs))
    # A bias is often added to a view of a sum, so the view still has the sum's terms.
    if len(known) == 1 and known[0] is args[0] and known[0].terms and isinstance(values, Tensor):
        rest = partial(_moved, operator, args[1:], kwargs)
        error = None if known[0].error is None else rest(known[0].error)
        return Tracked(values, error, known[0].terms.moved(rest, known[0].value.shape))
    if all(each.error is None for each in known):
        return tree_map(lambda value: Tracked(value), values)
    errors = operator(*_part(args, "bound"), **_part(kwargs, "bound"))
    if isinstance(values, Tensor):
        return Tracked(values, errors)
    return [Tracked(value, error) for value, error in zip(values, errors, strict=True)]


def _moved(operator: Any, args: Any, kwargs: Any, values: Tensor) -> Tensor:
    result: Tensor = operator(values, *args, **kwargs)
    return result


@rule("as_strided")
def as_strided(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    size: Any,
    stride: Any,
    storage_offset: int | None = None,
) -> Tracked:
    """Bound the error of `as_strided`, which addresses elements by their positions in memory.

    These positions are known only for a contiguous tensor at the start of its storage. The errors
    of such a tensor can be laid out in the same way.

    Raises:
        NoRuleError: The operand is not contiguous, or not at the start of its storage.
    """
    if not x.value.is_contiguous() or x.value.storage_offset():
        raise NoRuleError("as_strided of a view")
    where = (size, stride, storage_offset)
    bound = x.bound.clone(memory_format=torch.contiguous_format)
    del rounding
    value, error = operator(x.value, *where), operator(bound, *where)
    return Tracked(value, None if x.error is None else error)


@rule("constant_pad_nd")
def constant_pad(
    rounding: RoundingErrors, operator: Any, x: Tracked, pad: Any, value: float = 0
) -> Tracked:
    """Bound the error of padding with one number, which is rounded when it is stored."""
    border = rounding.held(value)
    error = operator(x.bound, pad, float(border.bound))
    return Tracked(operator(x.value, pad, value), error if bool(error.any()) else None)


@rule("gather", "index_select", "index", "embedding", "take_along_dim")
def index(rounding: RoundingErrors, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Bound the error of a lookup by an index.

    Raises:
        NoRuleError: The index depends on rounding.
    """
    del rounding
    for each in _tracked((args[1:], kwargs)):
        if not each.value.is_floating_point() and each.error is not None:
            raise NoRuleError(
                f"{operator.overloadpacket.__name__} with an index that depends on rounding"
            )
    errors = [_index_or_bound(each) for each in args]
    values = operator(*_part(args, "value"), **_part(kwargs, "value"))
    source = args[0]
    if source.error is None:
        return Tracked(values)
    return Tracked(values, operator(*errors, **_part(kwargs, "value")))


@rule("index_put", "scatter")
def index_put(
    rounding: RoundingErrors, operator: Any, x: Tracked, where: Any, *what: Any, **kwargs: Any
) -> Tracked:
    """Bound the error of writing elements at given positions.

    Where one number is written through a mask, elements of the mask may be uncertain. The result at
    an uncertain element may be the old or the new number. A call that adds to the old elements is
    left to `scatter_add`.

    Raises:
        NoRuleError: An index other than such a mask depends on rounding.
    """
    if kwargs or (len(what) > 1 and what[-1] is True):
        return scatter_add(rounding, operator, x, where, *what, **kwargs)
    if operator.overloadpacket.__name__ == "index_put" and len(where) == 1:
        # x[mask] = number is a `where`, of which the condition may be uncertain.
        mask, source = where[0], what[0]
        if mask.value.dtype is torch.bool and source.value.numel() == 1:
            shape = (*mask.value.shape, *(1,) * (x.value.dim() - mask.value.dim()))
            error = None if mask.error is None else mask.error.view(shape)
            one = moved(rounding, torch.ops.aten.view.default, source, [])
            chosen = Tracked(mask.value.view(shape), error)
            return select_where(rounding, torch.ops.aten.where.self, chosen, one, x)
    _see_certain(operator, where, what)
    places, *numbers = _part((where, *what), "value")
    value = operator(x.value, places, *numbers)
    if all(each.error is None for each in _tracked((x, what))):
        return Tracked(value)
    bounds = [_index_or_bound(rounding.held(x)) if _is_number(x) else x for x in what]
    return Tracked(value, operator(x.bound, places, *map(_index_or_bound, bounds)))


@rule("scatter_add")
def scatter_add(
    rounding: RoundingErrors, operator: Any, x: Tracked, where: Any, *what: Any, **kwargs: Any
) -> Tracked:
    """Bound the error of the sum of an element and all numbers that are added at its position.

    The sum may be computed in any order.

    Raises:
        NoRuleError: The operator reduces by something other than a sum, or an index depends on
            rounding.
    """
    if kwargs:
        raise NoRuleError(f"{operator.overloadpacket.__name__} with a reduction")
    _see_certain(operator, where, what)

    def joined(part: Callable[[Tracked], Tensor]) -> Tensor:
        def of(each: Any) -> Any:
            if not isinstance(each, Tracked):
                return each
            return part(each) if each.value.is_floating_point() else each.value

        result: Tensor = operator(*tree_map(of, (x, where, *what)))
        return result

    value = joined(lambda each: each.value)
    if not value.is_floating_point():
        return Tracked(value)
    most = joined(lambda each: each.most)
    if is_whole(most, *(each for each in _tracked((x, what)) if each.value.is_floating_point())):
        return Tracked(value)
    terms = joined(lambda each: torch.ones_like(each.value)) - 1
    return rounding.summed(value, joined(lambda each: each.bound), most, terms)


@rule("scatter_reduce", "index_reduce")
def scatter_reduce(
    rounding: RoundingErrors,
    operator: Any,
    x: Tracked,
    dim: int,
    index: Tracked,
    source: Tracked,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tracked:
    """Bound the error of a sum, mean or extreme of all elements that an index sends to one place.

    A sum may be computed in any order.

    Raises:
        NoRuleError: The operator multiplies the elements, or the index depends on rounding.
    """
    _see_certain(operator, index)

    def joined(kept: Tensor, added: Tensor, how: str = reduce) -> Tensor:
        result: Tensor = operator(kept, dim, index.value, added, how, include_self=include_self)
        return result

    value = joined(x.value, source.value)
    if reduce in ("amax", "amin"):
        return bound_monotone(joined, x, source)
    if reduce not in ("sum", "mean"):
        raise NoRuleError(f"{operator.overloadpacket.__name__} of products")
    spread = joined(x.bound, source.bound)
    none, ones = torch.zeros_like(x.value), torch.ones_like(source.value)
    is_of_rows = operator.overloadpacket.__name__ == "index_reduce"
    counting = none.index_add if is_of_rows else none.scatter_add
    # One more for the element that was there before.
    counted = counting(dim, index.value, ones) + 1.0
    total = rounding.summed(value, spread, joined(x.most, source.most), counted)
    return total if reduce == "sum" else rounding.rounded(value, total.error, units=3.0)


@rule("_embedding_bag_forward_only", "_embedding_bag")
def embedding_bag(
    rounding: RoundingErrors,
    operator: Any,
    weight: Tracked,
    indices: Tracked,
    offsets: Tracked,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Tracked | None = None,
    *rest: Any,
) -> Any:
    """Bound the error of an embedding bag: sums, weighted sums, means or maxima of rows.

    Raises:
        NoRuleError: An index or an offset depends on rounding.
    """
    _see_certain(operator, (indices, offsets))

    def bag(rows: Tensor, by: Tensor | None) -> Any:
        places = indices.value, offsets.value
        return operator(rows, *places, by_frequency, mode, sparse, by, *rest)

    by = None if factors is None else factors.value
    value, *others = bag(weight.value, by)
    known = [Tracked(each) for each in others]
    if mode == 2:
        return bound_monotone(lambda rows: bag(rows, None)[0], weight), *known
    # The errors of rows and factors, as those of a product: |a'| |b'| - |a| |b|.
    most = bag(weight.most, None if factors is None else factors.most)[0]
    exact = bag(weight.value.abs(), None if by is None else by.abs())[0]
    total = rounding.summed(value, most - exact, most, float(indices.value.numel()))
    if mode == 1:
        total = rounding.rounded(value, total.error, units=3.0)
    return total, *known


def _see_certain(operator: Any, *values: Any) -> None:
    """Check that no integer among some arguments, such as an index, depends on rounding.

    Raises:
        NoRuleError: An integer argument has an error.
    """
    require_exact(operator, *(x for x in _tracked(values) if not x.value.is_floating_point()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@rule("_to_copy")
@complex_rule("_to_copy")
def to_copy(rounding: RoundingErrors, operator: Any, x: Tracked, **kwargs: Any) -> Tracked:
    """Bound the error of a conversion to another dtype.

    A conversion between floating-point types adds no error: the error of storing a number is
    counted where the number is computed. A conversion to an integer adds 1 to the error, after
    rounding the error up.

    Raises:
        NoRuleError: The conversion drops imaginary parts.
    """
    del rounding
    value = operator(x.value, **kwargs)
    if x.value.is_complex() and not value.is_complex():
        raise NoRuleError("an operator that drops imaginary parts")
    if value.is_complex():
        value = value.to(torch.complex128)
    # The exact value stays float64. Rounding to float32 is part of the error.
    if value.dtype is torch.float32:
        value = value.double()
    if x.error is not None and x.value.is_floating_point() and not value.is_floating_point():
        return Tracked(value, x.error.ceil() + 1.0)
    return Tracked(value, x.error)


@rule("copy")
@complex_rule("copy")
def copy(rounding: RoundingErrors, operator: Any, target: Tracked, source: Tracked) -> Tracked:
    """Bound the error of a copy over a tensor: the source's errors, in the target's shape."""
    del rounding, operator
    error = None if source.error is None else source.error.expand(target.value.shape)
    return Tracked(source.value.expand(target.value.shape), error)


@rule(*_MAKING.split())
@complex_rule(*_MAKING.split())
def constant_like(
    rounding: RoundingErrors, operator: Any, x: Tracked, *args: Any, **kwargs: Any
) -> Tracked:
    """Bound the error of a constant tensor that takes its shape from another tensor."""
    del rounding
    return constant(operator(x.value, *args, **kwargs))


def _tracked(values: Any) -> list[Tracked]:
    """Return all tracked tensors in nested arguments."""
    found: list[Tracked] = []
    tree_map(lambda each: found.append(each) if isinstance(each, Tracked) else None, values)
    return found


def _part(values: Any, name: str) -> Any:
    """Replace each tracked tensor in nested arguments by its attribute `name`."""
    return tree_map(lambda x: getattr(x, name) if isinstance(x, Tracked) else x, values)


def _index_or_bound(argument: Any) -> Any:
    """Replace each floating-point tracked tensor by its errors, and each index by its value."""

    def part(each: Any) -> Any:
        if not isinstance(each, Tracked):
            return each
        return each.bound if each.value.is_floating_point() else each.value

    return tree_map(part, argument)
