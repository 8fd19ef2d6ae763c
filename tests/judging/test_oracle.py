"""The oracle's values and error bounds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv_transpose1d

from harness.judging.oracle import CLASSES, PrecisionClass, expected
from harness.problems.bounds import Expected, Sums, gamma
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem, load
from harness.problems.runs import Run
from harness.problems.values import CaseValues, runs_for, values_for
from tests.support import REFERENCE

ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)

FP32, TF32, FP16, BF16 = CLASSES


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load(REFERENCE / "conv_transpose1d.py")


@pytest.fixture(scope="module")
def cases(problem: Problem) -> tuple[Case, ...]:
    return cases_for(problem, ANY)


def compute(case: Case, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the transposed convolution of a case, computed in the operands' dtype."""
    c = Convolution.of(case)
    return conv_transpose1d(
        x, weight, bias, c.stride, c.padding, c.output_padding, c.groups, c.dilation
    )


def operands(values: CaseValues) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return input, weight and bias of a convolution."""
    weights = values.weights
    return (
        values.inputs[0],
        weights["conv1d_transpose.weight"],
        weights.get("conv1d_transpose.bias"),
    )


def to_tf32(x: Tensor) -> Tensor:
    """Round to TF32 by clearing the 13 last bits, as a tensor core does."""
    return (x.view(torch.int32) & -(2**13)).view(torch.float32)


def to_half(x: Tensor) -> Tensor:
    """Round to float16."""
    return x.half().float()


def to_bfloat16(x: Tensor) -> Tensor:
    """Round to bfloat16."""
    return x.bfloat16().float()


def unchanged(x: Tensor) -> Tensor:
    return x


def rounded(case: Case, values: CaseValues, to: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the float32 output of a case whose operands were rounded by `to`."""
    x, weight, bias = operands(values)
    return compute(case, to(x), to(weight), bias)


def everything(problem: Problem, cases: tuple[Case, ...]) -> Iterator[tuple[Case, Run, CaseValues]]:
    """Yield each case with each run (set of inputs and weights) and the run's values."""
    for case in cases:
        for run in runs_for(problem):
            yield case, run, values_for(problem, case, run)


def fraction(actual: Tensor, oracle: Expected, precision: PrecisionClass) -> float:
    """Return the largest error of an output, as a fraction of the class's bound."""
    return float(((actual.double() - oracle.value).abs() / oracle.bound(precision)).max())


@pytest.mark.parametrize(
    ("to", "precision"),
    [(unchanged, FP32), (to_tf32, TF32), (to_half, FP16), (to_bfloat16, BF16)],
)
def test_bound_holds_for_its_own_class(
    problem: Problem,
    cases: tuple[Case, ...],
    to: Callable[[Tensor], Tensor],
    precision: PrecisionClass,
) -> None:
    """Outputs computed in a class's precision are within that class's bound, in all cases."""
    for case, run, values in everything(problem, cases):
        if run.is_beyond_half and precision == FP16:
            continue
        oracle = expected(problem, case, *(values.weights, values.inputs))
        assert fraction(rounded(case, values, to), oracle, precision) <= 1.0, (case.id, run.name)


@pytest.mark.parametrize(
    ("to", "tighter"),
    [(to_tf32, FP32), (to_half, FP32), (to_bfloat16, FP16), (to_bfloat16, TF32), (to_half, TF32)],
)
def test_bound_fails_for_a_worse_class(
    problem: Problem,
    cases: tuple[Case, ...],
    to: Callable[[Tensor], Tensor],
    tighter: PrecisionClass,
) -> None:
    """If operands have less precision, some case's output exceeds the tighter class's bound."""
    worst = max(
        fraction(
            rounded(case, values, to),
            expected(problem, case, values.weights, values.inputs),
            tighter,
        )
        for case, _, values in everything(problem, cases)
    )
    assert worst > 1.0


def test_float16_sums_are_in_no_class(problem: Problem, cases: tuple[Case, ...]) -> None:
    """Long sums accumulated in float16 exceed the fp16 bound."""
    x, weight, _ = operands(values_for(problem, cases[0], runs_for(problem)[0]))
    products = (x[0, :, 5].half() * weight[:, 0, 0].half()).abs().repeat(64)
    total = torch.zeros((), dtype=torch.float16)
    for product in products:
        total = total + product
    exact = products.double().sum()
    oracle = Sums(exact, exact, torch.tensor(float(products.numel())), 2.0, torch.float32)
    assert fraction(total.float(), oracle, FP16) > 1.0


def test_exact_run_distinguishes_float32_from_rounded_operands(
    problem: Problem, cases: tuple[Case, ...]
) -> None:
    """On exact integers, float32 equals the oracle bit for bit.

    TF32, float16 and bfloat16 differ in most elements.
    """
    run = Run("exact", "exact", "B")
    for case in cases:
        values = values_for(problem, case, run)
        oracle = expected(problem, case, values.weights, values.inputs)
        assert torch.equal(rounded(case, values, unchanged).double(), oracle.value), case.id
    case = cases[0]
    values = values_for(problem, case, run)
    oracle = expected(problem, case, values.weights, values.inputs)
    for to in (to_tf32, to_half, to_bfloat16):
        changed = rounded(case, values, to).double() != oracle.value
        assert float(changed.double().mean()) > 0.9


def test_split_operands_pass_as_float32(problem: Problem, cases: tuple[Case, ...]) -> None:
    """3xTF32, three products of TF32 parts, is within the fp32 bound in every case and run."""
    for case, run, values in everything(problem, cases):
        x, weight, bias = operands(values)
        high_x, high_w = to_tf32_nearest(x), to_tf32_nearest(weight)
        low_x, low_w = to_tf32_nearest(x - high_x), to_tf32_nearest(weight - high_w)
        y = compute(case, high_x, high_w, bias)
        y = y + compute(case, high_x, low_w, None) + compute(case, low_x, high_w, None)
        oracle = expected(problem, case, values.weights, values.inputs)
        assert fraction(y, oracle, FP32) <= 1.0, (case.id, run.name)


def to_tf32_nearest(x: Tensor) -> Tensor:
    """Round to 11 significant bits, halves away from zero (cvt.rna.tf32.f32)."""
    return ((x.view(torch.int32) + 2**12) & -(2**13)).view(torch.float32)


def test_terms_are_counted(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The oracle counts the products of each output element, plus one term for the bias."""
    for case in cases[1:12]:
        c = Convolution.of(case)
        values = values_for(problem, case, runs_for(problem)[0])
        oracle = expected(problem, case, values.weights, values.inputs)
        assert isinstance(oracle, Sums)
        for t in range(c.output_length):
            taps = sum(
                1
                for k in range(c.kernel_size)
                if (t + c.padding - k * c.dilation) % c.stride == 0
                and 0 <= (t + c.padding - k * c.dilation) // c.stride < c.length
            )
            count = taps * c.in_channels // c.groups + int(c.bias)
            assert bool((oracle.terms[..., t] == count).all()), (case.id, t)


def test_magnitude_is_the_sum_of_absolute_terms(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The oracle's magnitude is |w| convolved with |x| plus |bias|, and bounds the value."""
    for case in cases:
        values = values_for(problem, case, Run("normal", "normal", "A"))
        oracle = expected(problem, case, values.weights, values.inputs)
        x, weight, bias = (None if v is None else v.double().abs() for v in operands(values))
        assert x is not None
        assert weight is not None
        assert isinstance(oracle, Sums)
        assert torch.equal(oracle.magnitude, compute(case, x, weight, bias))
        assert bool((oracle.value.abs() <= oracle.magnitude * (1 + 1e-12)).all())


def test_an_output_without_terms_must_be_zero(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The bound of an output element without terms only allows an error of underflow.

    A stride larger than the kernel leaves such elements.
    """
    case = next(c for c in cases if Convolution.of(c).kernel_size < Convolution.of(c).stride)
    values = values_for(problem, case, runs_for(problem)[0])
    oracle = expected(problem, case, values.weights, values.inputs)
    assert isinstance(oracle, Sums)
    gap = (oracle.terms == 0).expand_as(oracle.value)
    assert bool(gap.any())
    assert bool((oracle.bound(FP32)[gap] < 1e-37).all())
    assert bool((oracle.bound(FP32) > 0).all())


def test_gamma_is_highams() -> None:
    """Higham's gamma is n u / (1 - n u), and infinite if n u is at least 1."""
    assert float(gamma(torch.tensor(3.0, dtype=torch.float64), 0.125)) == 0.375 / 0.625
    assert float(gamma(torch.tensor(8.0), 0.125)) == float("inf")


def test_slices_of_the_batch_agree(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The oracle's values and bounds for a slice of the batch are those for the whole batch."""
    case = cases[0]
    values = values_for(problem, case, runs_for(problem)[0])
    whole = expected(problem, case, values.weights, values.inputs)
    part = expected(problem, case, values.weights, [values.inputs[0][1:]])
    assert isinstance(whole, Sums)
    assert isinstance(part, Sums)
    assert torch.allclose(part.value, whole.value[1:], rtol=1e-13, atol=0)
    assert torch.allclose(part.magnitude, whole.magnitude[1:], rtol=1e-13, atol=0)
    assert torch.equal(part.terms, whole.terms)


def test_random_state_is_left_alone(problem: Problem, cases: tuple[Case, ...]) -> None:
    """Computing the oracle does not change torch's random state."""
    values = values_for(problem, cases[1], runs_for(problem)[0])
    torch.manual_seed(3)
    first = torch.rand(2)
    torch.manual_seed(3)
    expected(problem, cases[1], values.weights, values.inputs)
    assert torch.equal(torch.rand(2), first)


OTHER = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 32)
    def forward(self, x):
        return {result}
def get_inputs():
    return [torch.rand(64, 64)]
def get_init_inputs():
    return []
"""


def other(tmp_path: Path, result: str) -> tuple[Problem, Case, CaseValues]:
    """Return a reference whose forward returns `result`, a case of it, and values."""
    path = tmp_path / "other.py"
    path.write_text(OTHER.format(result=result))
    problem = load(path)
    (case,) = cases_for(problem, ANY, "own")
    return problem, case, values_for(problem, case, runs_for(problem)[0])


def test_estimate_separates_precisions(tmp_path: Path) -> None:
    """Estimated bounds tell float32, TF32 and bfloat16 results apart for any other reference."""
    problem, case, values = other(tmp_path, "torch.softmax(self.layer(x), 1)")
    oracle = expected(problem, case, values.weights, values.inputs)
    x, (weight, bias) = values.inputs[0], values.weights.values()

    def forward(to: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.softmax(to(x) @ to(weight).T + bias, 1)

    assert fraction(forward(unchanged), oracle, FP32) <= 1.0
    assert fraction(forward(to_tf32), oracle, FP32) > 1.0
    assert fraction(forward(to_tf32), oracle, TF32) <= 1.0
    assert fraction(forward(to_bfloat16), oracle, BF16) <= 1.0
    assert fraction(forward(lambda v: v + 0.1), oracle, BF16) > 1.0


def test_integer_output_keeps_its_dtype(tmp_path: Path) -> None:
    """The oracle's value of an integer output has the reference's integer dtype."""
    problem, case, values = other(tmp_path, "self.layer(x).argmax(1)")
    assert expected(problem, case, values.weights, values.inputs).dtype == torch.int64


@pytest.mark.parametrize(
    ("forward", "given"), [("{'x': x}", "dict"), ("(x, (x, x))", "tuple"), ("()", "nothing")]
)
def test_only_tensors_are_supported(forward: str, given: str, tmp_path: Path) -> None:
    """A reference whose forward returns anything but tensors is refused with the file's path."""
    with pytest.raises(ValueError, match=rf"other\.py: forward returns {given}; have it return"):
        other(tmp_path, forward)
