"""Tests of `match_weights`, which finds the submission's parameter for each weight of a reference.

It also finds the layout in which the parameter stores the weight.
"""

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
    """Return a parameter with initial values that no weight of the tests has."""
    return torch.arange(-0.75, -0.75 + torch.Size(shape).numel()).reshape(shape)


def names(reference: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, str]:
    """Return, by the name of each weight, the name of the submission's parameter for it."""
    return {name: place.name for name, place in match_weights(reference, theirs).items()}


def test_same_names_are_paired() -> None:
    """Parameters with the reference's names get the weights of those names."""
    theirs = {"conv.bias": other(6), "conv.weight": other(4, 6, 3), "other": other(6)}
    assert names(REFERENCE, theirs) == {"conv.weight": "conv.weight", "conv.bias": "conv.bias"}


def test_names_of_all_weights_outweigh_values() -> None:
    """If the submission has all names of the reference, names decide, and not values.

    A submission may draw its parameters in another order.
    """
    reference = {"one": SQUARE, "two": SQUARE + 1}
    assert names(reference, {"two": SQUARE, "one": SQUARE + 1}) == {"one": "one", "two": "two"}


def test_shape_decides_where_names_differ() -> None:
    """Parameters with other names than the reference's are matched by shape."""
    theirs = {"offset": other(6), "kernel": other(4, 6, 3)}
    assert names(REFERENCE, theirs) == {"conv.weight": "kernel", "conv.bias": "offset"}


def test_last_part_of_the_name_decides_between_equal_shapes() -> None:
    """Among a submission's parameters of equal shape, the last part of the name decides."""
    theirs = {"scale": other(6), "layer.bias": other(6), "w": other(4, 6, 3)}
    assert names(REFERENCE, theirs)["conv.bias"] == "layer.bias"


def test_values_decide_between_equal_shapes() -> None:
    """Among a submission's parameters of equal shape, equal initial values decide.

    Values outweigh a similar name and the order of parameters.
    """
    reference = {"bias": BIAS, "linear.bias": BIAS + 1}
    theirs = {"linear_bias": BIAS + 1, "added": BIAS}
    assert names(reference, theirs) == {"bias": "added", "linear.bias": "linear_bias"}
    theirs = {"bias": BIAS + 1, "added": BIAS}
    assert names(reference, theirs) == {"bias": "added", "linear.bias": "bias"}


def test_a_number_that_is_everywhere_tells_nothing() -> None:
    """A weight of ones is matched by name, since norms all start with ones."""
    ones = torch.ones(6)
    reference = {"first.weight": ones, "second.weight": ones, "linear.bias": BIAS}
    theirs = {"second.weight": ones, "first.weight": ones, "b": BIAS}
    assert names(reference, theirs)["first.weight"] == "first.weight"


def test_masks_and_counts_are_weights_too() -> None:
    """Buffers of booleans and integers are matched like weights."""
    reference = {"mask": torch.ones(3, 3).tril() == 0, "steps": torch.tensor(0), "b": BIAS}
    theirs = {"hidden": reference["mask"].clone(), "count": torch.tensor(0), "bias": BIAS}
    assert names(reference, theirs) == {"mask": "hidden", "steps": "count", "b": "bias"}


@pytest.mark.parametrize("name", ["weight", "turned"])
def test_turned_values_are_laid_as_they_lie(name: str) -> None:
    """A parameter that stores a weight transposed gets transposed weights, even if it is square."""
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
    """A convolution's weight that a submission stores as a matrix is copied in that layout.

    Submissions that compute a convolution as a matrix product store weights as a matrix.
    """
    place = match_weights(REFERENCE, {"matrix": lay(WEIGHT), "b": BIAS})["conv.weight"]
    assert torch.equal(place.laid(WEIGHT + 1), lay(WEIGHT + 1))


def test_dimensions_of_one_may_be_left_out() -> None:
    """A weight of shape (6, 1, 1) may be kept as a vector.

    The vector is matched by name, by values or by shape alone.
    """
    weight = BIAS.reshape(6, 1, 1)
    for theirs in ({"bias": other(6)}, {"b": BIAS}, {"b": other(6)}):
        (place,) = match_weights({"bias": weight}, theirs).values()
        assert torch.equal(place.laid(weight), BIAS)


def test_weights_have_the_type_of_the_parameter() -> None:
    """Weights are converted to the parameter's dtype, as `copy_` does."""
    (place,) = match_weights({"bias": BIAS}, {"b": BIAS.half()}).values()
    assert place.laid(BIAS).dtype == torch.float16


def test_missing_parameter_is_named() -> None:
    """The error names the missing weight, its shape, and the existing parameters."""
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": other(6, 4, 3), "bias": other(6)})
    assert str(raised.value) == (
        "ModelNew has no parameter for the reference's conv.weight [4, 6, 3]; "
        "it has weight [6, 4, 3], bias [6]; the sizes of weight are in another order"
    )


def test_other_sizes_are_in_no_other_order() -> None:
    """The error says that a parameter's sizes are in another order only if that is so.

    It does not say this of a parameter that has a size which the weight lacks.
    """
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": other(6, 4, 5), "bias": other(6)})
    assert "order" not in str(raised.value)


def test_dimensions_of_one_in_another_place_are_a_mistake() -> None:
    """A parameter does not match a weight if a dimension of 1 is in another position.

    This holds although the values in memory are the same.
    """
    weight = torch.arange(0.5, 24.5).reshape(3, 8, 1)
    with pytest.raises(WeightsMismatchError, match="are in another order"):
        match_weights({"weight": weight}, {"weight": weight.reshape(3, 1, 8)})


def test_unused_weight_may_be_missing() -> None:
    """A weight that no output depends on needs no parameter in the submission.

    The submission's parameters are left to the other weights, which still need one each.
    """
    reference = {"proj.bias": BIAS, **REFERENCE}
    theirs = {"kernel": other(4, 6, 3), "offset": other(6)}
    found = match_weights(reference, theirs, lambda: {"proj.bias"})
    assert {name: place.name for name, place in found.items()} == {
        "conv.weight": "kernel",
        "conv.bias": "offset",
    }
    with pytest.raises(WeightsMismatchError, match=r"parameter for the reference's conv\.weight"):
        match_weights(reference, {"offset": other(6)}, lambda: {"proj.bias"})


def test_unused_weight_that_is_there_is_matched() -> None:
    """If every weight has a parameter, the reference is not searched for unused weights."""

    def unused() -> set[str]:
        raise AssertionError("nothing is missing")

    assert match_weights(REFERENCE, {"w": WEIGHT, "b": BIAS}, unused).keys() == REFERENCE.keys()
