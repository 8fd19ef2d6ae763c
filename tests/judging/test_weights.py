"""Which parameter stands for which weight, and how it lies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.judging.weights import WeightsMismatchError, match_weights

WEIGHT = torch.arange(1.5, 73.5).reshape(4, 6, 3)
BIAS = torch.arange(0.25, 6.25)
REFERENCE = {"conv.weight": WEIGHT, "conv.bias": BIAS}
SQUARE = torch.arange(0.5, 9.5).reshape(3, 3)


def other(*shape: int) -> Tensor:
    """A parameter that is initialised otherwise than any weight here."""
    return torch.arange(-0.75, -0.75 + torch.Size(shape).numel()).reshape(shape)


def names(reference: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, str]:
    """By the reference's, the submission's."""
    return {name: place.name for name, place in match_weights(reference, theirs).items()}


def test_same_names_are_paired() -> None:
    """A submission that names its parameters as the reference does gets them by name."""
    theirs = {"conv.bias": other(6), "conv.weight": other(4, 6, 3), "other": other(6)}
    assert names(REFERENCE, theirs) == {"conv.weight": "conv.weight", "conv.bias": "conv.bias"}


def test_names_of_all_weights_outweigh_values() -> None:
    """Who calls all of them as the reference, and draws them in another order, means the names."""
    reference = {"one": SQUARE, "two": SQUARE + 1}
    assert names(reference, {"two": SQUARE, "one": SQUARE + 1}) == {"one": "one", "two": "two"}


def test_shape_decides_where_names_differ() -> None:
    """A submission may call its parameters as it likes."""
    theirs = {"offset": other(6), "kernel": other(4, 6, 3)}
    assert names(REFERENCE, theirs) == {"conv.weight": "kernel", "conv.bias": "offset"}


def test_last_part_of_the_name_decides_between_equal_shapes() -> None:
    """Two parameters of the right shape are told apart by what they are called."""
    theirs = {"scale": other(6), "layer.bias": other(6), "w": other(4, 6, 3)}
    assert names(REFERENCE, theirs)["conv.bias"] == "layer.bias"


def test_values_decide_between_equal_shapes() -> None:
    """Of parameters with other names, one that is initialised as the weight stands for it.

    Also where the other one's name would fit, and where the order is another one.
    """
    reference = {"bias": BIAS, "linear.bias": BIAS + 1}
    theirs = {"linear_bias": BIAS + 1, "added": BIAS}
    assert names(reference, theirs) == {"bias": "added", "linear.bias": "linear_bias"}
    theirs = {"bias": BIAS + 1, "added": BIAS}
    assert names(reference, theirs) == {"bias": "added", "linear.bias": "bias"}


def test_a_number_that_is_everywhere_tells_nothing() -> None:
    """Ones are what norms begin with: a name tells more."""
    ones = torch.ones(6)
    reference = {"first.weight": ones, "second.weight": ones, "linear.bias": BIAS}
    theirs = {"second.weight": ones, "first.weight": ones, "b": BIAS}
    assert names(reference, theirs)["first.weight"] == "first.weight"


def test_masks_and_counts_are_weights_too() -> None:
    """Buffers of truth values and integers, which a reference keeps beside its weights."""
    reference = {"mask": torch.ones(3, 3).tril() == 0, "steps": torch.tensor(0), "b": BIAS}
    theirs = {"hidden": reference["mask"].clone(), "count": torch.tensor(0), "bias": BIAS}
    assert names(reference, theirs) == {"mask": "hidden", "steps": "count", "b": "bias"}


@pytest.mark.parametrize("name", ["weight", "turned"])
def test_turned_values_are_laid_as_they_lie(name: str) -> None:
    """A matrix that is kept transposed gets the weights transposed, a square one as well."""
    (place,) = match_weights({"weight": SQUARE}, {name: SQUARE.T}).values()
    assert torch.equal(place.laid(SQUARE + 1), SQUARE.T + 1)
    place = match_weights(REFERENCE, {"w": WEIGHT.permute(2, 0, 1), "b": BIAS})["conv.weight"]
    assert torch.equal(place.laid(WEIGHT + 1), WEIGHT.permute(2, 0, 1) + 1)


@pytest.mark.parametrize(
    "lay",
    [
        lambda weight: weight.flatten(1),
        lambda weight: weight.flatten(1).T,
        lambda weight: weight.flatten(),
    ],
    ids=["matrix", "turned", "vector"],
)
def test_kernel_may_be_kept_as_a_matrix(lay: Callable[[Tensor], Tensor]) -> None:
    """As many convolutions by matrix products have it; the weights are laid as that lies."""
    place = match_weights(REFERENCE, {"matrix": lay(WEIGHT), "b": BIAS})["conv.weight"]
    assert torch.equal(place.laid(WEIGHT + 1), lay(WEIGHT + 1))


def test_dimensions_of_one_may_be_left_out() -> None:
    """A bias for each channel may be a vector, by name, by values or by its shape alone."""
    weight = BIAS.reshape(6, 1, 1)
    for theirs in ({"bias": other(6)}, {"b": BIAS}, {"b": other(6)}):
        (place,) = match_weights({"bias": weight}, theirs).values()
        assert torch.equal(place.laid(weight), BIAS)


def test_weights_have_the_type_of_the_parameter() -> None:
    """Who keeps them in float16 has them in float16, as after `copy_`."""
    (place,) = match_weights({"bias": BIAS}, {"b": BIAS.half()}).values()
    assert place.laid(BIAS).dtype == torch.float16


def test_missing_parameter_is_named() -> None:
    """The message says what is missing, of which shape, and what there is."""
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": other(6, 4, 3), "bias": other(6)})
    assert str(raised.value) == (
        "ModelNew has no parameter for the reference's conv.weight [4, 6, 3]; "
        "it has weight [6, 4, 3], bias [6], with weight's sizes in another order"
    )


def test_other_sizes_are_in_no_other_order() -> None:
    """Only where the sizes are the same ones is their order the mistake."""
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": other(6, 4, 5), "bias": other(6)})
    assert "order" not in str(raised.value)


def test_dimensions_of_one_in_another_place_are_a_mistake() -> None:
    """The same values in the same memory, and still another weight."""
    weight = torch.arange(0.5, 24.5).reshape(3, 8, 1)
    with pytest.raises(WeightsMismatchError, match="sizes in another order"):
        match_weights({"weight": weight}, {"weight": weight.reshape(3, 1, 8)})
