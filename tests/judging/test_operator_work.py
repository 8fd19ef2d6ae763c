"""Whose work it is where the reference is several operators."""

from __future__ import annotations

import pytest
import torch

from harness.device.record import Work
from harness.judging.operator_work import judge_operators
from harness.problems.operations import Operation

BATCH, FEATURES, OUTPUTS = 64, 48, 40
PRODUCTS = BATCH * FEATURES * OUTPUTS
REFERENCE = (
    Operation("aten::addmm", BATCH * OUTPUTS, BATCH * FEATURES, PRODUCTS),
    Operation("aten::relu", BATCH * OUTPUTS, BATCH * OUTPUTS, 0),
)
KERNEL = Work("kernel", "relu", 1)


@pytest.mark.parametrize(
    ("elements", "share"),
    [(PRODUCTS, 1 / (1 + FEATURES)), (BATCH * FEATURES, 1.0)],
    ids=["products", "an input scaled"],
)
def test_products_that_other_operators_form_are_left_to_torch(elements: int, share: float) -> None:
    """A linear layer as `mul` and `sum` is as little the submission's work as by its name."""
    during = (Work("operator", "aten::mul", 1, elements), KERNEL)
    judged = judge_operators(REFERENCE, during, (), torch.ones(BATCH, OUTPUTS), None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(share)


def test_all_of_it_by_other_operators_is_too_much() -> None:
    """Where torch ran the rest as well, nothing is left that would be the submission's."""
    during = (
        Work("operator", "aten::mul", 1, PRODUCTS),
        Work("operator", "aten::relu", 1, BATCH * OUTPUTS),
        KERNEL,
    )
    judged = judge_operators(REFERENCE, during, (), torch.ones(BATCH, OUTPUTS), None)
    assert "all that the reference does" in judged.findings[0].message
