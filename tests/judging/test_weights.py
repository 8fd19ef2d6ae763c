"""Which parameter stands for which weight."""

from __future__ import annotations

import pytest
import torch

from harness.judging.weights import WeightsMismatchError, match_weights

REFERENCE = {"conv.weight": torch.empty(4, 6, 3), "conv.bias": torch.empty(6)}


def test_same_names_are_paired() -> None:
    """A submission that names its parameters as the reference does gets them by name."""
    shapes = {"conv.bias": (6,), "conv.weight": (4, 6, 3), "other": (6,)}
    assert match_weights(REFERENCE, shapes) == {
        "conv.weight": "conv.weight",
        "conv.bias": "conv.bias",
    }


def test_shape_decides_where_names_differ() -> None:
    """A submission may call its parameters as it likes."""
    shapes = {"offset": (6,), "kernel": (4, 6, 3)}
    assert match_weights(REFERENCE, shapes) == {"conv.weight": "kernel", "conv.bias": "offset"}


def test_last_part_of_the_name_decides_between_equal_shapes() -> None:
    """Two parameters of the right shape are told apart by what they are called."""
    shapes = {"scale": (6,), "layer.bias": (6,), "w": (4, 6, 3)}
    assert match_weights(REFERENCE, shapes)["conv.bias"] == "layer.bias"


def test_missing_parameter_is_named() -> None:
    """The message says what is missing, of which shape, and what there is."""
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": (6, 4, 3), "bias": (6,)})
    assert str(raised.value) == (
        "ModelNew has no parameter for the reference's conv.weight [4, 6, 3]; "
        "it has weight [6, 4, 3], bias [6], with weight's sizes in another order"
    )


def test_other_sizes_are_in_no_other_order() -> None:
    """Only where the sizes are the same ones is their order the mistake."""
    with pytest.raises(WeightsMismatchError) as raised:
        match_weights(REFERENCE, {"weight": (6, 4, 5), "bias": (6,)})
    assert "order" not in str(raised.value)
