"""Which parameter of a submission stands for which weight of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor


class WeightsMismatchError(ValueError):
    """The submission has no place for one of the reference's weights; the message is one line."""


def match_weights(
    reference: Mapping[str, Tensor], shapes: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    """Pair the reference's weights with a submission's parameters: by name, or else by shape.

    Of several parameters of the right shape, one whose last name part is the same is preferred,
    then the first.

    Args:
        reference: Weights by their name in `Model`'s state_dict.
        shapes: The shapes of the submission's parameters and buffers by name.

    Returns:
        The submission's name for each name of the reference.

    Raises:
        WeightsMismatchError: A weight has no counterpart.
    """
    free = {name: tuple(shape) for name, shape in shapes.items()}
    pairs: dict[str, str] = {}
    for name, weight in reference.items():
        if free.get(name) == tuple(weight.shape):
            pairs[name] = name
            del free[name]
    for name, weight in reference.items():
        if name in pairs:
            continue
        fitting = [own for own, shape in free.items() if shape == tuple(weight.shape)]
        if not fitting:
            has = ", ".join(f"{own} {list(shape)}" for own, shape in shapes.items()) or "none"
            turned = [o for o, shape in free.items() if sorted(shape) == sorted(weight.shape)]
            order = f", with {turned[0]}'s sizes in another order" if turned else ""
            raise WeightsMismatchError(
                f"ModelNew has no parameter for the reference's {name} {list(weight.shape)}; "
                f"it has {has}{order}"
            )
        last = name.rpartition(".")[2]
        pairs[name] = min(fitting, key=lambda own: own.rpartition(".")[2] != last)
        del free[pairs[name]]
    return pairs
