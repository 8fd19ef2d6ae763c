"""Whose work it is where the reference is several operators."""

from __future__ import annotations

import pytest
import torch

from harness.device.record import TO_HOST, Work
from harness.judging.operator_work import Operands, judge_operators
from harness.problems.operations import Operation

BATCH, FEATURES, OUTPUTS = 64, 48, 40
PRODUCTS = BATCH * FEATURES * OUTPUTS
REFERENCE = (
    Operation("aten::addmm", BATCH * OUTPUTS, BATCH * FEATURES, PRODUCTS),
    Operation("aten::relu", BATCH * OUTPUTS, BATCH * OUTPUTS, 0),
)
OPERANDS = Operands(inputs=4 * BATCH * FEATURES, weights=4 * FEATURES * OUTPUTS)
KERNEL = Work("kernel", "relu", 1)
OUTPUT = torch.ones(BATCH, OUTPUTS)


@pytest.mark.parametrize(
    ("elements", "share"),
    [(PRODUCTS, 1 / (1 + FEATURES)), (BATCH * FEATURES, 1.0)],
    ids=["products", "an input scaled"],
)
def test_products_that_other_operators_form_are_left_to_torch(elements: int, share: float) -> None:
    """A linear layer as `mul` and `sum` is as little the submission's work as by its name."""
    during = (Work("operator", "aten::mul", 1, elements), KERNEL)
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(share)


def test_all_of_it_by_other_operators_is_too_much() -> None:
    """Where torch ran the rest as well, nothing is left that would be the submission's."""
    during = (
        Work("operator", "aten::mul", 1, PRODUCTS),
        Work("operator", "aten::relu", 1, BATCH * OUTPUTS),
        KERNEL,
    )
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message


@pytest.mark.parametrize(("share", "is_told"), [(0.2, False), (0.3, True), (0.6, True)])
def test_share_of_the_only_operator_is_told(share: float, is_told: bool) -> None:
    """A quarter is more than what prepares or finishes; below, it is the kernel's work."""
    summed = (Operation("aten::sum", 1, 4096, 0),)
    during = (Work("operator", "aten::sum", 1, round(4096 * share)), KERNEL)
    judged = judge_operators(summed, OPERANDS, during, (), torch.ones(1), None)
    assert bool(judged.findings) == is_told
    assert judged.share == pytest.approx(1 - share, abs=0.01)


def test_layers_as_one_product_are_left_to_torch() -> None:
    """Two linear layers of one input are a product with twice as many columns."""
    heads = (REFERENCE[0], REFERENCE[0])
    during = (Work("operator", "aten::mm", 1, 2 * BATCH * OUTPUTS, 2 * PRODUCTS), KERNEL)
    judged = judge_operators(heads, OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message
    assert judged.share == 0.0


def test_operators_of_other_names_are_not_the_kernels_share() -> None:
    """A softmax by an exponential, a sum and a quotient is torch's, though nobody calls it so."""
    numbers = BATCH * OUTPUTS
    reference = (Operation("aten::_softmax", numbers, numbers, 0), REFERENCE[1])
    names = ("aten::exp", "aten::sum", "aten::div")
    during = (*(Work("operator", name, 1, numbers) for name in names), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert judged.share == pytest.approx(0.5)
    assert judged.findings == ()


def test_all_of_it_by_other_names_is_not_its_own() -> None:
    """A kernel that copies what torch's operators have computed does nothing of the reference."""
    numbers = BATCH * OUTPUTS
    reference = (Operation("aten::_softmax", numbers, numbers, 0), REFERENCE[1])
    names = ("aten::exp", "aten::sum", "aten::div", "aten::clamp_min")
    during = (*(Work("operator", name, 1, numbers) for name in names), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert judged.share == 0.0
    (finding,) = judged.findings
    assert "leaves its kernels nothing of what the reference computes" in finding.message


def test_what_finishes_small_channels_is_no_work() -> None:
    """A dozen operators of six names, on as many numbers as there are channels."""
    norm = (Operation("aten::native_batch_norm", 61485, 61485, 0),)
    counts = {"add": 3, "mul": 3, "pow": 1, "rsqrt": 1, "sub": 2, "div": 2}
    during = [Work("operator", f"aten::{name}", n, n * 4099) for name, n in counts.items()]
    judged = judge_operators(norm, OPERANDS, (*during, KERNEL), (), torch.ones(61485), None)
    assert judged.findings == ()


@pytest.mark.parametrize(("partial", "is_told"), [(2048, False), (1 << 16, True)])
@pytest.mark.parametrize("name", ["aten::sum", "aten::mse_loss"])
def test_partial_results_are_joined(name: str, partial: int, is_told: bool) -> None:
    """As many as a fixed number of blocks leaves; more are torch's work, whoever wrote them."""
    loss = (Operation("aten::mse_loss", 258, 258, 0),)
    during = (Work("operator", name, 1, partial, 0, partial), KERNEL)
    judged = judge_operators(loss, OPERANDS, during, (), torch.ones(1), None)
    assert bool(judged.findings) == is_told
    own = (Work("operator", name, 1, 258), KERNEL)
    assert judge_operators(loss, OPERANDS, own, (), torch.ones(1), None).findings


def test_tables_by_other_names_are_left_to_torch() -> None:
    """An embedding is a look-up, and so is an index."""
    reference = (Operation("aten::embedding", 4096, 4096, 0),)
    during = (Work("operator", "aten::index", 1, 4096), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message


def test_operands_do_not_go_to_the_host() -> None:
    """Weights may be laid out there; who has the inputs there as well can do the work."""
    for went, is_told in (
        (OPERANDS.weights, False),
        (OPERANDS.weights + OPERANDS.inputs // 2, True),
    ):
        during = (Work("copy", TO_HOST, 1, went), KERNEL)
        judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
        assert bool(judged.findings) == is_told


def test_what_a_reference_only_looks_at_is_no_work() -> None:
    """Slices, other shapes and a number that decides something are not there to be left."""
    more = (
        Operation("aten::slice", BATCH * FEATURES, BATCH * FEATURES, 0, is_view=True),
        Operation("aten::_unsafe_view", BATCH * OUTPUTS, BATCH * OUTPUTS, 0),
        Operation("aten::lt", 1, 1, 0),
    )
    during = (
        Work("operator", "aten::addmm", 1, BATCH * FEATURES, PRODUCTS),
        Work("operator", "aten::relu", 1, BATCH * OUTPUTS),
        KERNEL,
    )
    judged = judge_operators((*more, *REFERENCE), OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message
    assert judged.share == 0.0


def test_products_that_are_counted_otherwise_are_left_all_the_same() -> None:
    """An operator of the same kind on as many numbers is that one, whatever it has multiplied."""
    turned = (Operation("aten::convolution", 4096, 4096, PRODUCTS),)
    during = (Work("operator", "aten::convolution", 1, 4096, PRODUCTS // 50), KERNEL)
    judged = judge_operators(turned, OPERANDS, during, (), torch.ones(4096), None)
    assert "all that the reference does" in judged.findings[0].message


def test_one_layer_left_to_torch_is_not_two() -> None:
    """A linear layer of more numbers than a convolution has is not taken for both."""
    layers = (
        Operation("aten::convolution", 4096, 4096, PRODUCTS),
        Operation("aten::addmm", 10, 100 * 4096, PRODUCTS),
    )
    during = (Work("operator", "aten::addmm", 1, 100 * 4096, PRODUCTS), KERNEL)
    judged = judge_operators(layers[::-1], OPERANDS, during, (), torch.ones(10), None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(0.5)


def test_operator_of_uncounted_products_is_known_by_its_elements() -> None:
    """Torch counts none of a matrix times a vector, and the device does."""
    reference = (Operation("aten::mv", 64, 64 * 48, 0),)
    during = (Work("operator", "aten::mv", 1, 64 * 48, 64 * 48), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), torch.ones(64), None)
    assert "all that the reference does" in judged.findings[0].message
