"""The share of a reference's operators that torch runs for a submission."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.device.record import CHOSEN, FROM_HOST, TO_HOST, Work
from harness.judging.integrity import Judged
from harness.judging.operator_work import Operands, judge_operators
from harness.problems.operations import ReferenceOperation

BATCH, FEATURES, OUTPUTS = 64, 48, 40
PRODUCTS = BATCH * FEATURES * OUTPUTS
REFERENCE = (
    ReferenceOperation("aten::addmm", BATCH * OUTPUTS, BATCH * FEATURES, PRODUCTS),
    ReferenceOperation("aten::relu", BATCH * OUTPUTS, BATCH * OUTPUTS, 0),
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
    """A linear layer by torch's `mul` counts as torch's work if `mul` forms all of its products."""
    during = (Work("operator", "aten::mul", 1, elements), KERNEL)
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "share"),
    [("aten::addcmul", FEATURES / (1 + FEATURES)), ("aten::addcmul (64-bit)", 1 / (1 + FEATURES))],
    ids=["float32", "64 bits"],
)
def test_products_that_share_a_number_count_each(name: str, share: float) -> None:
    """A number of 64 bits can hold six products, so it counts as six."""
    during = (Work("operator", name, 1, PRODUCTS // 6), KERNEL)
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert judged.share == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "is_told"), [("aten::take", False), ("aten::take (64-bit)", True)]
)
def test_table_of_products_is_told(name: str, is_told: bool) -> None:
    """A linear layer fails if torch looks up more products in tables than the layer forms."""
    during = (Work("operator", name, 1, PRODUCTS // 2), KERNEL)
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert any("in tables" in each.message for each in judged.findings) == is_told


def test_all_of_it_by_other_operators_is_too_much() -> None:
    """A submission fails if torch ran all of the reference's operators, by any names."""
    during = (
        Work("operator", "aten::mul", 1, PRODUCTS),
        Work("operator", "aten::relu", 1, BATCH * OUTPUTS),
        KERNEL,
    )
    judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message


@pytest.mark.parametrize(("share", "is_told"), [(0.2, False), (0.3, True), (0.6, True)])
def test_share_of_the_only_operator_is_told(share: float, is_told: bool) -> None:
    """If the reference is one operator, more than a quarter of it in torch is a finding.

    A smaller share counts as preparing or finishing the kernel's work.
    """
    summed = (ReferenceOperation("aten::sum", 1, 4096, 0),)
    during = (Work("operator", "aten::sum", 1, round(4096 * share)), KERNEL)
    judged = judge_operators(summed, OPERANDS, during, (), torch.ones(1), None)
    assert bool(judged.findings) == is_told
    assert judged.share == pytest.approx(1 - share, abs=0.01)


def test_layers_as_one_product_are_left_to_torch() -> None:
    """One matrix product of torch's that computes two linear layers counts as both layers."""
    heads = (REFERENCE[0], REFERENCE[0])
    during = (Work("operator", "aten::mm", 1, 2 * BATCH * OUTPUTS, 2 * PRODUCTS), KERNEL)
    judged = judge_operators(heads, OPERANDS, during, (), OUTPUT, None)
    assert "all that the reference does" in judged.findings[0].message
    assert judged.share == 0.0


def test_operators_of_other_names_are_not_the_kernels_share() -> None:
    """A softmax by torch's `exp`, `sum` and `div` counts as left to torch."""
    numbers = BATCH * OUTPUTS
    reference = (ReferenceOperation("aten::_softmax", numbers, numbers, 0), REFERENCE[1])
    names = ("aten::exp", "aten::sum", "aten::div")
    during = (*(Work("operator", name, 1, numbers) for name in names), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert judged.share == pytest.approx(0.5)
    assert judged.findings == ()


def test_all_of_it_by_other_names_is_not_its_own() -> None:
    """A submission fails if torch operators of other names account for all of the reference."""
    numbers = BATCH * OUTPUTS
    reference = (ReferenceOperation("aten::_softmax", numbers, numbers, 0), REFERENCE[1])
    names = ("aten::exp", "aten::sum", "aten::div", "aten::clamp_min")
    during = (*(Work("operator", name, 1, numbers) for name in names), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert judged.share == 0.0
    (finding,) = judged.findings
    assert "its own kernels computed nothing of the reference" in finding.message


def test_what_finishes_small_channels_is_no_work() -> None:
    """A dozen torch operators on one number per channel, computed by kernels, are not a finding."""
    norm = (ReferenceOperation("aten::native_batch_norm", 61485, 61485, 0),)
    counts = {"add": 3, "mul": 3, "pow": 1, "rsqrt": 1, "sub": 2, "div": 2}
    during = [
        Work("operator", f"aten::{name}", n, n * 4099, of_kernels=n * 4099)
        for name, n in counts.items()
    ]
    judged = judge_operators(norm, OPERANDS, (*during, KERNEL), (), torch.ones(61485), None)
    assert judged.findings == ()


def test_work_under_many_names_is_summed() -> None:
    """Torch operators of five other names, each on a fifth of the data, are all of a relu."""
    relu = (ReferenceOperation("aten::relu", 1000, 1000, 0),)
    names = ("clamp_min", "maximum", "where", "hardtanh", "threshold")
    during = (*(Work("operator", f"aten::{name}", 1, 200) for name in names), KERNEL)
    (finding,) = judge_operators(relu, OPERANDS, during, (), torch.ones(1000), None).findings
    assert "torch operators computed 1,000 numbers (" in finding.message


@pytest.mark.parametrize(("partial", "is_told"), [(2048, False), (1 << 16, True)])
@pytest.mark.parametrize("name", ["aten::sum", "aten::mse_loss"])
def test_partial_results_are_joined(name: str, partial: int, is_told: bool) -> None:
    """A submission may sum the partial results of a fixed number of blocks in torch.

    A sum of many more partial results is torch's work, even if a kernel wrote them.
    """
    loss = (ReferenceOperation("aten::mse_loss", 258, 258, 0),)
    during = (Work("operator", name, 1, partial, 0, partial), KERNEL)
    judged = judge_operators(loss, OPERANDS, during, (), torch.ones(1), None)
    assert bool(judged.findings) == is_told
    own = (Work("operator", name, 1, 258), KERNEL)
    assert judge_operators(loss, OPERANDS, own, (), torch.ones(1), None).findings


SOFTMAX = (ReferenceOperation("aten::_softmax", 1024, 1024, 0),)


@pytest.mark.parametrize(("numbers", "is_told"), [(1024, True), (256, False)])
def test_copy_by_a_kernel_is_no_partial_result(numbers: int, is_told: bool) -> None:
    """A softmax of torch over all numbers that a kernel has written is not the submission's own.

    In the own configuration, numbers count as partial results up to half of the softmax's numbers.
    """
    during = (Work("operator", "aten::_softmax", 1, numbers, 0, numbers), KERNEL)
    judged = judge_operators(SOFTMAX, OPERANDS, during, (), torch.ones(1024), None, is_own=True)
    assert bool(judged.findings) == is_told


def test_partial_results_may_be_more_than_a_small_sum_takes() -> None:
    """A sum may be cut down so far that the fixed number of a kernel's blocks exceeds its terms."""
    loss = (ReferenceOperation("aten::mse_loss", 1, 258, 0),)
    during = (Work("operator", "aten::sum", 1, 2048, 0, 2048), KERNEL)
    judged = judge_operators(loss, OPERANDS, during, (), torch.ones(1), None, is_own=True)
    assert judged.findings == ()


@pytest.mark.parametrize(("by_others", "is_told"), [(0.2, True), (0.0, False)])
def test_parts_of_the_only_operator_are_summed(by_others: float, is_told: bool) -> None:
    """A fifth of a softmax by its name, and others by other names, are torch's work together.

    A fifth alone is not.
    """
    names = ("aten::_log_softmax", "aten::exp") if by_others else ()
    others = [Work("operator", name, 1, round(1024 * by_others)) for name in names]
    during = (Work("operator", "aten::_softmax", 1, 205), *others, KERNEL)
    judged = judge_operators(SOFTMAX, OPERANDS, during, (), torch.ones(1024), None)
    assert bool(judged.findings) == is_told


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("aten::copy_ (negated)", True),
        ("aten::copy_ (truncated)", True),
        ("aten::masked_fill_", True),
        ("aten::copy_", False),
        ("aten::index_select", False),
    ],
)
def test_operators_that_change_numbers_as_they_move_them_count(name: str, is_told: bool) -> None:
    """A negated or truncated copy, and a fill under a mask, do the work of a unary operator."""
    unary = (ReferenceOperation("aten::neg", 1024, 1024, 0),)
    during = (Work("operator", name, 1, 1024), KERNEL)
    judged = judge_operators(unary, OPERANDS, during, (), torch.ones(1024), None)
    assert bool(judged.findings) == is_told


def test_cast_of_the_reference_itself_is_no_work() -> None:
    """If the reference casts to integers as well, torch may do it for the submission."""
    own = (
        ReferenceOperation("aten::relu", 1024, 1024, 0),
        ReferenceOperation("aten::_to_copy", 1024, 1024, 0),
    )
    during = (Work("operator", "aten::copy_ (truncated)", 1, 1024), KERNEL)
    assert judge_operators(own, OPERANDS, during, (), torch.ones(1024), None).findings == ()


def test_numbers_that_torch_moved_are_noted() -> None:
    """If a reference only moves numbers, the judgement names the operators of torch that did it.

    It is not a finding. Small copies, and fresh memory, do not count.
    """
    moving = (ReferenceOperation("aten::pixel_shuffle", 1024, 1024, 0),)
    during = (
        Work("operator", "aten::copy_", 1, 1024),
        Work("operator", "aten::index_select", 1, 64),
        Work("operator", "aten::zero_", 1, 1024),
        KERNEL,
    )
    judged = judge_operators(moving, OPERANDS, during, (), torch.ones(1024), None)
    assert (judged.findings, judged.movers) == ((), ("aten::copy_",))
    assert judge_operators(SOFTMAX, OPERANDS, during, (), torch.ones(1024), None).movers == ()


def test_tables_by_other_names_are_left_to_torch() -> None:
    """A torch `index` in place of the reference's `embedding` counts as an `embedding`.

    The finding has both names.
    """
    reference = (ReferenceOperation("aten::embedding", 4096, 4096, 0),)
    during = (Work("operator", "aten::index", 1, 4096), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), OUTPUT, None)
    assert judged.findings[0].message == (
        "torch ran aten::index in place of aten::embedding, which is all that the reference does"
    )


def test_operands_do_not_go_to_the_host() -> None:
    """Weights may be copied to the host; inputs and weights together may not.

    A submission with weights and inputs on the host can do the work there.
    """
    for went, is_told in (
        (OPERANDS.weights, False),
        (OPERANDS.weights + OPERANDS.inputs // 2, True),
    ):
        during = (Work("copy", TO_HOST, 1, went), KERNEL)
        judged = judge_operators(REFERENCE, OPERANDS, during, (), OUTPUT, None)
        assert bool(judged.findings) == is_told


def test_what_a_reference_only_looks_at_is_no_work() -> None:
    """Views in a reference, and operators on a single number, do not count as work.

    If torch runs all other operators, the submission's share is 0.
    """
    more = (
        ReferenceOperation("aten::slice", BATCH * FEATURES, BATCH * FEATURES, 0, is_view=True),
        ReferenceOperation("aten::_unsafe_view", BATCH * OUTPUTS, BATCH * OUTPUTS, 0),
        ReferenceOperation("aten::lt", 1, 1, 0),
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
    """A convolution by torch counts as the reference's if both have the same number of elements.

    This holds even if the device counts fewer products for torch's convolution.
    """
    turned = (ReferenceOperation("aten::convolution", 4096, 4096, PRODUCTS),)
    during = (Work("operator", "aten::convolution", 1, 4096, PRODUCTS // 50), KERNEL)
    judged = judge_operators(turned, OPERANDS, during, (), torch.ones(4096), None)
    assert "all that the reference does" in judged.findings[0].message


def test_one_layer_left_to_torch_is_not_two() -> None:
    """A linear layer left to torch does not also count as a convolution of as many products."""
    layers = (
        ReferenceOperation("aten::convolution", 4096, 4096, PRODUCTS),
        ReferenceOperation("aten::addmm", 10, 100 * 4096, PRODUCTS),
    )
    during = (Work("operator", "aten::addmm", 1, 100 * 4096, PRODUCTS), KERNEL)
    judged = judge_operators(layers[::-1], OPERANDS, during, (), torch.ones(10), None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(0.5)


def test_operator_of_uncounted_products_is_known_by_its_elements() -> None:
    """An operator that torch counts no products of is compared by its number of elements.

    An example is the product of a matrix and a vector, whose products only the device counts.
    """
    reference = (ReferenceOperation("aten::mv", 64, 64 * 48, 0),)
    during = (Work("operator", "aten::mv", 1, 64 * 48, 64 * 48), KERNEL)
    judged = judge_operators(reference, OPERANDS, during, (), torch.ones(64), None)
    assert "all that the reference does" in judged.findings[0].message


@pytest.mark.parametrize("large_first", [True, False])
def test_layer_of_the_size_that_torch_ran_is_the_one_left(*, large_first: bool) -> None:
    """If torch runs the larger of two layers, only that layer counts as left to torch.

    The order of the two layers does not matter.
    """
    small = ReferenceOperation("aten::addmm", BATCH * 8, BATCH * FEATURES, BATCH * FEATURES * 8)
    heads = (REFERENCE[0], small) if large_first else (small, REFERENCE[0])
    during = (Work("operator", "aten::addmm", 1, BATCH * FEATURES, PRODUCTS), KERNEL)
    judged = judge_operators(heads, OPERANDS, during, (), OUTPUT, None)
    assert judged.findings == ()
    assert judged.share == pytest.approx(8 / (8 + OUTPUTS))
    assert judged.left == ("aten::addmm",)


def judged_layers(outputs: int, *ran: Work) -> Judged:
    """Return the judgement of torch's work for a reference of two linear layers and a relu.

    The first layer has the given number of outputs.
    """
    made = BATCH * outputs
    first = ReferenceOperation("aten::addmm", made, max(made, BATCH * FEATURES), made * FEATURES)
    return judge_operators((first, *REFERENCE), OPERANDS, ran, (), OUTPUT, None)


def test_own_configuration_decides_what_the_kernels_stand_for() -> None:
    """`is_like` is true if torch does no more work in a case than in the own configuration.

    The case must also launch a kernel. A matrix product that computes two layers counts as more
    work than a product that computes one layer, although each is a single call.
    """
    one = Work("operator", "aten::addmm", 1, BATCH * FEATURES, PRODUCTS)
    relu = Work("operator", "aten::relu", 1, BATCH * OUTPUTS)
    merged = replace(one, multiplied=PRODUCTS + BATCH * FEATURES * 3)
    own = judged_layers(OUTPUTS * 2, one, relu, KERNEL).division
    assert own
    for ran, is_like in (
        ((one, relu, KERNEL), True),
        ((one, KERNEL), True),
        ((one, relu), False),
        ((replace(one, count=2), relu, KERNEL), False),
        ((one, relu, replace(relu, name="aten::exp"), KERNEL), False),
        ((merged, relu, KERNEL), False),
    ):
        division = judged_layers(3, *ran).division
        assert division
        assert division.is_like(own) == is_like, ran


def test_work_of_the_host_is_not_torchs() -> None:
    """A judgement is about torch's work (`is_of_torch`) only if no output came from the host.

    If neither torch nor a kernel did any work, the judgement is not about torch's work either.
    """
    relu = Work("operator", "aten::relu", 1, BATCH * OUTPUTS)
    reference = REFERENCE[1:]
    host = Work("copy", FROM_HOST, 1, 1 << 14)
    for ran, is_of_torch in (((relu,), True), ((relu, host), False), ((), False)):
        judged = judge_operators(reference, OPERANDS, ran, (), OUTPUT, None)
        assert judged.findings
        assert judged.is_of_torch == is_of_torch


def test_choices_grow_with_the_reference() -> None:
    """The host may make more choices during a call if the reference has more operators.

    A choice is, for example, which memory to use. If as many bytes are copied from the host
    instead, there is a finding even for many operators.
    """
    chosen = Work("copy", CHOSEN, 1, 1 << 13)
    for operators, is_told in ((2, True), (400, False)):
        reference = REFERENCE * (operators // 2)
        judged = judge_operators(reference, OPERANDS, (chosen, KERNEL), (), torch.ones(8), None)
        assert bool(judged.findings) == is_told
    values = (replace(chosen, name=FROM_HOST), KERNEL)
    assert judge_operators(REFERENCE * 200, OPERANDS, values, (), torch.ones(8), None).findings
