"""Matching of a submission's parameters with the reference's weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations

import torch
from torch import Tensor

# The most parameters that a message lists.
_MOST_LISTED = 20


class WeightsMismatchError(ValueError):
    """A weight of the reference without a parameter in the submission; the message is one line."""


@dataclass(frozen=True)
class WeightPlace:
    """The parameter or buffer in which a submission keeps one of the reference's weights.

    Attributes:
        name: Name of the parameter or buffer.
        shape: Shape of the parameter.
        dtype: Dtype of the parameter.
        order: The weight's dimensions, in the order in which the parameter stores them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]

    def laid(self, weight: Tensor) -> Tensor:
        """Return the weight in the submission's layout, shape and dtype."""
        return weight.permute(self.order).reshape(self.shape).to(self.dtype)


# Yields the possible places of a weight, from its name, its value and the unmatched parameters.
_Find = Callable[[str, Tensor, Mapping[str, Tensor]], Iterator[WeightPlace]]


def match_weights(
    reference: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
    unused: Callable[[], Collection[str]] = tuple,
) -> dict[str, WeightPlace]:
    """Find the submission's parameter for each of the reference's weights.

    If a weight has no counterpart, all weights that no output depends on are left out.

    If the submission has all of the reference's names, only names decide, as in `load_state_dict`.
    Otherwise three rules are applied in this order:

    1. A parameter with the values of a weight matches the weight, because both models were
       initialised after the same seed. This rule skips a weight whose elements are all the same
       whole number.
    2. A parameter of the same name matches the weight.
    3. A parameter of the same shape matches the weight.

    Among several candidates, the same name is preferred, then the same shape, then the same last
    part of the name.

    Args:
        reference: Weights by their name in `Model`'s state_dict.
        theirs: The submission's parameters and buffers by name.
        unused: Returns the names of the weights that no output depends on. It is called only if a
            weight has no counterpart, because it has to trace the reference.

    Returns:
        The parameter (`WeightPlace`) for each of the reference's names, except for unused weights
        that are left out.

    Raises:
        WeightsMismatchError: A weight that an output depends on has no counterpart.
    """
    try:
        return _matched(reference, theirs)
    except WeightsMismatchError:
        left_out = unused()
        if not any(name in left_out for name in reference):
            raise
    return _matched({n: w for n, w in reference.items() if n not in left_out}, theirs)


def _matched(
    reference: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> dict[str, WeightPlace]:
    """Match weights by the rules of `match_weights`, but leave no weight out.

    Raises:
        WeightsMismatchError: A weight has no counterpart.
    """
    free = dict(theirs)
    places: dict[str, WeightPlace] = {}
    is_named = all(name in theirs and _fits(theirs[name], w) for name, w in reference.items())
    # Values come before shapes, because two biases may have one shape. KernelBench seeds both
    # models and copies nothing, so equal values after the same seed show which parameters
    # correspond.
    finds: tuple[_Find, ...] = (_by_name,) if is_named else (_by_values, _by_name, _by_shape)
    for find in finds:
        for name, weight in reference.items():
            if name in places:
                continue
            found = sorted(find(name, weight, free), key=lambda place: _unlike(place, name, weight))
            if found:
                places[name] = found[0]
                del free[found[0].name]
    for name, weight in reference.items():
        if name not in places:
            raise WeightsMismatchError(_missing(name, weight, theirs, free))
    return places


def _by_values(_: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[WeightPlace]:
    for own, value in free.items():
        place = _with_values(weight, own, value)
        if place:
            yield place


def _by_name(name: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[WeightPlace]:
    if name in free and _fits(free[name], weight):
        yield _with_values(weight, name, free[name]) or _as_it_is(weight, name, free[name])


def _by_shape(_: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[WeightPlace]:
    return (_as_it_is(weight, own, value) for own, value in free.items() if _fits(value, weight))


def _unlike(place: WeightPlace, name: str, weight: Tensor) -> tuple[bool, ...]:
    """Return a sort key, which is smallest for the candidate that resembles the weight most."""
    last = name.rpartition(".")[2]
    is_other = place.name.rpartition(".")[2] != last
    return place.name != name, place.shape != tuple(weight.shape), is_other


def _fits(value: Tensor, weight: Tensor) -> bool:
    """Return whether shapes are equal, or differ only in how many dimensions of size 1 they have.

    If both have equally many dimensions, the shapes must be equal. A size of 1 in another position
    is then a mistake of the submission.
    """
    if value.dim() == weight.dim():
        return value.shape == weight.shape
    return value.squeeze().shape == weight.squeeze().shape


def _as_it_is(weight: Tensor, own: str, value: Tensor) -> WeightPlace:
    return WeightPlace(own, tuple(value.shape), value.dtype, tuple(range(weight.dim())))


def _with_values(weight: Tensor, own: str, value: Tensor) -> WeightPlace | None:
    """Return how the parameter `own` stores the weight, or None if its values differ.

    The values may be stored in any order and number of dimensions. A weight whose elements are all
    the same whole number gives None.
    """
    first = weight.flatten()[:1]
    whole = first.round() if first.is_floating_point() else first
    # A weight with one whole number everywhere, such as zeros, was not drawn. Other parameters have
    # the same values.
    if value.dtype != weight.dtype or bool((weight == whole).all()):
        return None
    # A cheap test before the permutations: every one of them leaves the first number where it is.
    if value.numel() != weight.numel() or not torch.equal(value.flatten()[:1], first):
        return None
    for order in permutations(range(weight.dim())):
        place = WeightPlace(own, tuple(value.shape), value.dtype, order)
        moved = [dim for dim in order if weight.shape[dim] > 1]
        # If only dimensions of size 1 moved and their number is the same, memory is unchanged. Such
        # a shape is a mistake of the submission and not another layout.
        is_other = moved != sorted(moved) or value.dim() != weight.dim()
        if (is_other or _fits(value, weight)) and torch.equal(place.laid(weight), value):
            return place
    return None


def _missing(
    name: str, weight: Tensor, theirs: Mapping[str, Tensor], free: Mapping[str, Tensor]
) -> str:
    listed = [f"{own} {list(value.shape)}" for own, value in islice(theirs.items(), _MOST_LISTED)]
    if len(theirs) > _MOST_LISTED:
        listed.append(f"{len(theirs) - _MOST_LISTED} others")
    has = ", ".join(listed) or "none"
    turned = [own for own, value in free.items() if sorted(value.shape) == sorted(weight.shape)]
    order = f"; the sizes of {turned[0]} are in another order" if turned else ""
    return (
        f"ModelNew has no parameter for the reference's {name} {list(weight.shape)}; "
        f"it has {has}{order}"
    )
