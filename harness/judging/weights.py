"""Which parameter of a submission stands for which weight of the reference, and how it lies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


class WeightsMismatchError(ValueError):
    """The submission has no place for one of the reference's weights; the message is one line."""


@dataclass(frozen=True)
class Place:
    """Where a submission has one of the reference's weights.

    Attributes:
        name: Of its parameter or buffer.
        shape: Of that.
        dtype: As well.
        order: The weight's dimensions, in the order in which they lie there.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]

    def laid(self, weight: Tensor) -> Tensor:
        """The weight as the submission has it."""
        return weight.permute(self.order).reshape(self.shape).to(self.dtype)


# Where a weight of that name may have its place, among parameters that stand for no other one.
_Find = Callable[[str, Tensor, Mapping[str, Tensor]], Iterator[Place]]


def match_weights(
    reference: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> dict[str, Place]:
    """Find the submission's parameter for each of the reference's weights.

    Both are as initialised after the same seed. Where all names are the reference's, names decide,
    as in `load_state_dict`. Else a parameter stands for the weight that it has the values of; what
    has none of these, or the same number everywhere, is paired by name, or else by shape. Of
    several, one of the same name is preferred, then one whose last name part is the same, then the
    first.

    Args:
        reference: Weights by their name in `Model`'s state_dict.
        theirs: The submission's parameters and buffers by name.

    Returns:
        A place for each name of the reference.

    Raises:
        WeightsMismatchError: A weight has no counterpart.
    """
    free = dict(theirs)
    places: dict[str, Place] = {}
    is_named = all(name in theirs and _fits(theirs[name], w) for name, w in reference.items())
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


def _by_values(_: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[Place]:
    for own, value in free.items():
        place = _with_values(weight, own, value)
        if place:
            yield place


def _by_name(name: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[Place]:
    if name in free and _fits(free[name], weight):
        yield _with_values(weight, name, free[name]) or _as_it_is(weight, name, free[name])


def _by_shape(_: str, weight: Tensor, free: Mapping[str, Tensor]) -> Iterator[Place]:
    return (_as_it_is(weight, own, value) for own, value in free.items() if _fits(value, weight))


def _unlike(place: Place, name: str, weight: Tensor) -> tuple[bool, ...]:
    last = name.rpartition(".")[2]
    is_other = place.name.rpartition(".")[2] != last
    return place.name != name, place.shape != tuple(weight.shape), is_other


def _fits(value: Tensor, weight: Tensor) -> bool:
    """Whether the shapes are the same, or are but for dimensions of 1 that one of them has more of.

    Of as many dimensions, those of 1 stand in another place by mistake.
    """
    if value.dim() == weight.dim():
        return value.shape == weight.shape
    return value.squeeze().shape == weight.squeeze().shape


def _as_it_is(weight: Tensor, own: str, value: Tensor) -> Place:
    return Place(own, tuple(value.shape), value.dtype, tuple(range(weight.dim())))


def _with_values(weight: Tensor, own: str, value: Tensor) -> Place | None:
    """A place that has the weight's values, whatever the order and the number of its dimensions."""
    first = weight.flatten()[:1]
    whole = first.round() if first.is_floating_point() else first
    # A whole number everywhere is had without a draw.
    if value.dtype != weight.dtype or bool((weight == whole).all()):
        return None
    # The first stays the first, however the dimensions lie.
    if value.numel() != weight.numel() or not torch.equal(value.flatten()[:1], first):
        return None
    for order in itertools.permutations(range(weight.dim())):
        place = Place(own, tuple(value.shape), value.dtype, order)
        moved = [dim for dim in order if weight.shape[dim] > 1]
        # With as many dimensions and only those of 1 moved it is as it was in memory: a mistake.
        is_other = moved != sorted(moved) or value.dim() != weight.dim()
        if (is_other or _fits(value, weight)) and torch.equal(place.laid(weight), value):
            return place
    return None


def _missing(
    name: str, weight: Tensor, theirs: Mapping[str, Tensor], free: Mapping[str, Tensor]
) -> str:
    has = ", ".join(f"{own} {list(value.shape)}" for own, value in theirs.items()) or "none"
    turned = [own for own, value in free.items() if sorted(value.shape) == sorted(weight.shape)]
    order = f", with {turned[0]}'s sizes in another order" if turned else ""
    return (
        f"ModelNew has no parameter for the reference's {name} {list(weight.shape)}; "
        f"it has {has}{order}"
    )
