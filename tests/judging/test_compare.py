"""The comparison of an output with the oracle (the reference in float64)."""

import json
import struct
from dataclasses import asdict, replace

import pytest
import torch
from torch import Tensor

from harness.judging.compare import POISON, classify, compare
from harness.judging.oracle import CLASSES
from harness.problems.bounds import Sums
from harness.problems.draws import drawn
from harness.problems.rounding.expected import Propagated
from harness.problems.rounding.propagate import trace
from harness.problems.runs import Distribution
from harness.records.comparison import Comparison, Mismatch

SHAPE = (2, 3, 4)


@pytest.fixture
def oracle() -> Sums:
    """Return an expected output whose elements are sums of 100 terms.

    The absolute values of an element's terms add up to 2.
    """
    generator = torch.Generator().manual_seed(0)
    value = torch.rand(SHAPE, generator=generator) + 0.5
    return Sums(
        value=value.double(),
        magnitude=torch.full(SHAPE, 2.0, dtype=torch.float64),
        terms=torch.full((1, 3, 4), 100.0, dtype=torch.float64),
        largest_operand=1.0,
        dtype=torch.float32,
    )


def right(oracle: Sums) -> Tensor:
    """Return the expected output in float32."""
    return oracle.value.float()


def changed(oracle: Sums, index: tuple[int, ...], number: float) -> Tensor:
    """Return the expected output in float32 with another number at one index."""
    actual = right(oracle)
    actual[index] = number
    return actual


def refused(comparison: Comparison) -> Mismatch:
    """Return a comparison's mismatch, after checking that the comparison has no precision class.

    The mismatch must have a message of one line.
    """
    assert comparison.precision is None
    assert comparison.mismatch is not None
    assert "\n" not in comparison.mismatch.message
    return comparison.mismatch


def test_right_output_is_float32(oracle: Sums) -> None:
    """The oracle's own value has the class fp32 and no error."""
    assert compare(right(oracle), oracle) == Comparison("fp32", 0.0, None)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_what_float16_overflows_to_is_float16(oracle: Sums, number: float) -> None:
    """An infinity or NaN has class fp16 in a run that overflows float16, else no class."""
    actual = changed(oracle, (1, 2, 3), number)
    assert compare(actual, oracle, is_beyond_half=True).precision == "fp16"
    assert compare(actual, oracle).precision is None


def test_saturated_float16_is_float16(oracle: Sums) -> None:
    """In a run that overflows float16, 65504 in place of a larger number has class fp16.

    In place of a smaller number, or of one of the other sign, it is wrong.
    """
    index = (1, 2, 3)
    for value, precision in ((-1e6, "fp16"), (-7e4, "fp16"), (1e6, None), (-6e4, None)):
        far = replace(oracle, value=oracle.value.clone())
        far.value[index] = value
        actual = changed(far, index, -65504.0)
        assert compare(actual, far, is_beyond_half=True).precision == precision, value
        assert compare(actual, far).precision is None


def test_overflow_excuses_nothing_else(oracle: Sums) -> None:
    """Wrong finite elements and unwritten ones fail even in a run that overflows float16."""
    actual = changed(oracle, (1, 2, 3), float("inf"))
    actual[0, 0, 0] += 1
    assert compare(actual, oracle, is_beyond_half=True).precision is None
    unwritten = right(oracle)
    unwritten.view(torch.int32)[0, 0, 0] = POISON
    assert compare(unwritten, oracle, is_beyond_half=True).precision is None


@pytest.mark.parametrize(
    ("error", "name"), [(1e-6, "fp32"), (1e-4, "tf32"), (3e-3, "tf32"), (2e-2, "bf16")]
)
def test_error_within_a_bound_gives_its_class(oracle: Sums, error: float, name: str) -> None:
    """A comparison's class is the tightest one whose bound holds for every element."""
    actual = changed(oracle, (1, 2, 3), float(oracle.value[1, 2, 3]) + error)
    result = compare(actual, oracle)
    assert (result.precision, result.mismatch) == (name, None)


def test_lost_subnormals_are_float16(oracle: Sums) -> None:
    """An absolute error that only float16's narrow range explains has the class fp16."""
    tiny = replace(oracle, value=oracle.value * 1e-6, magnitude=oracle.magnitude * 1e-6)
    assert compare(tiny.value.float() + 1e-6, tiny).precision == "fp16"
    assert compare(tiny.value.float() + 1e-5, tiny).precision is None


def test_worst_is_a_fraction_of_the_float32_bound(oracle: Sums) -> None:
    """An error of half the fp32 bound has `worst` 0.5 and the class fp32."""
    index = (1, 0, 2)
    error = 0.5 * float(oracle.bound(CLASSES[0])[index])
    result = compare(changed(oracle, index, float(oracle.value[index]) + error), oracle)
    assert result.precision == "fp32"
    assert result.worst == pytest.approx(0.5, abs=0.01)


def test_beyond_every_bound_is_a_mismatch(oracle: Sums) -> None:
    """A mismatch has the first wrong index, the right and the wrong value, and a count.

    The count is the number of wrong elements.
    """
    actual = changed(oracle, (1, 2, 3), 9.0)
    actual[0, 1, 2] = -7.0
    result = compare(actual, oracle)
    mismatch = refused(result)
    assert mismatch.index == (0, 1, 2)
    assert mismatch.actual == -7.0
    assert mismatch.expected == pytest.approx(float(oracle.value[0, 1, 2]))
    assert (mismatch.count, mismatch.total) == (2, 24)
    assert "2 of 24 elements (8.33%)" in mismatch.message
    assert result.worst is not None
    assert result.worst > 1e3


def test_exact_run_allows_float32_no_error(oracle: Sums) -> None:
    """An output with any error is not of class fp32 in a run whose sums are exact in float32."""
    nearly = changed(oracle, (0, 0, 0), float(oracle.value[0, 0, 0]) + 2.0**-22)
    assert compare(nearly, oracle).precision == "fp32"
    assert compare(nearly, oracle, exact=True).precision == "tf32"
    assert compare(right(oracle), oracle, exact=True).precision == "fp32"


def test_negative_zero_is_zero(oracle: Sums) -> None:
    """An output of -0.0 is right for 0.0: the sign of a zero depends on the summation order."""
    zero = replace(oracle, value=torch.zeros(SHAPE, dtype=torch.float64))
    assert compare(torch.full(SHAPE, -0.0), zero, exact=True).precision == "fp32"


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (torch.zeros(2, 3, 5), ["shape", "(2, 3, 5)", "(2, 3, 4)"]),
        (torch.zeros(24), ["shape", "(24,)"]),
        (torch.zeros(SHAPE, dtype=torch.float16), ["dtype", "float16", "float32"]),
        (torch.zeros(SHAPE, dtype=torch.float64), ["dtype", "float64"]),
    ],
)
def test_wrong_kind_of_tensor(oracle: Sums, actual: Tensor, words: list[str]) -> None:
    """A wrong shape or dtype is reported with the expected one, without comparing elements."""
    mismatch = refused(compare(actual, oracle))
    assert all(word in mismatch.message for word in words)
    assert mismatch.index is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_not_finite_where_the_oracle_is(oracle: Sums, number: float) -> None:
    """NaN and infinity fail where the expected value is finite, and are text in JSON."""
    result = compare(changed(oracle, (0, 2, 1), number), oracle)
    mismatch = refused(result)
    assert (mismatch.index, mismatch.count) == ((0, 2, 1), 1)
    assert mismatch.actual == str(number)
    assert "not finite" in mismatch.message
    assert "never written" not in mismatch.message
    json.dumps(asdict(result), allow_nan=False)


def test_poison_was_never_written(oracle: Sums) -> None:
    """Elements with the bits of the simulator's fresh memory are reported as never written."""
    actual = right(oracle)
    actual.view(torch.int32)[1, :, 2:] = POISON
    mismatch = refused(compare(actual, oracle))
    assert "6 of 24 elements (25.00%) hold the values of fresh memory" in mismatch.message
    assert mismatch.index == (1, 0, 2)


def test_poison_is_a_nan_that_no_arithmetic_gives() -> None:
    """The bits of the simulator's fresh memory are a signalling NaN, unlike any computed value."""
    (number,) = struct.unpack("<f", struct.pack("<I", POISON))
    assert number != number
    assert POISON & 0x0040_0000 == 0


def test_the_references_own_infinity_is_right(oracle: Sums) -> None:
    """An infinite or NaN element of the reference requires the same value in the output."""
    value = oracle.value.clone()
    value[0, 0, :3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
    oracle = replace(oracle, value=value)
    assert compare(value.float(), oracle).precision == "fp32"
    for index, number in (((0, 0, 0), 1.0), ((0, 0, 0), float("-inf")), ((0, 0, 2), 0.0)):
        actual = value.float()
        actual[index] = number
        assert refused(compare(actual, oracle)).index == index


def test_what_is_larger_than_any_number_stands_for_infinity(oracle: Sums) -> None:
    """A finite number beyond 1e30 is right where the reference is infinite with the same sign.

    The reason is kernels that start a maximum from the lowest float. For a maximum of no elements,
    they return this number, and the reference returns -inf.
    """
    value = oracle.value.clone()
    value[0, 0, :2] = torch.tensor([float("inf"), float("-inf")])
    oracle = replace(oracle, value=value)
    actual = value.float()
    actual[0, 0, :2] = torch.tensor([1e30, torch.finfo(torch.float32).min])
    assert compare(actual, oracle).precision == "fp32"
    for number in (1e4, float("nan"), torch.finfo(torch.float32).min):
        actual[0, 0, 0] = number
        assert refused(compare(actual, oracle)).index == (0, 0, 0)


def test_integers_are_compared_exactly() -> None:
    """An integer output that is off by one is wrong for every bound."""
    value = torch.tensor([1, 2, 3])
    oracle = Sums(
        value.double(), torch.zeros(3).double(), torch.ones(()).double(), 1.0, torch.int64
    )
    assert compare(value, oracle).precision == "fp32"
    assert refused(compare(value + torch.tensor([0, 1, 0]), oracle)).index == (1,)


def test_views_are_compared_by_value(oracle: Sums) -> None:
    """A comparison accepts an output that is not contiguous."""
    assert compare(right(oracle).mT.contiguous().mT, oracle).precision == "fp32"


def test_empty_output_is_right() -> None:
    """An empty output has the class fp32 and no error."""
    nothing = torch.zeros(0, 3, dtype=torch.float64)
    oracle = Sums(nothing, nothing, nothing, 0.0, torch.float32)
    assert compare(nothing.float(), oracle) == Comparison("fp32", 0.0, None)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["fp32", "fp32"], "fp32"),
        (["fp32", "bf16", "tf32"], "bf16"),
        (["tf32", "fp16"], "fp16"),
        (["fp32", None], None),
        ([], None),
    ],
)
def test_class_of_many_is_the_loosest(classes: list[str | None], expected: str | None) -> None:
    """The class of several comparisons is the loosest, or None if one has no class."""
    assert classify(Comparison(c, 0.0, None) for c in classes) == expected  # type: ignore[arg-type]


def test_overflow_in_float32_is_excused_only_where_the_reference_overflows(oracle: Sums) -> None:
    """An output that is not finite is right where the reference is not finite in float32."""
    large = replace(oracle, value=oracle.value.double() * 1e40)
    actual = torch.full(SHAPE, torch.inf)
    assert refused(compare(actual, large)).message.endswith(
        "are not finite, though the reference is"
    )
    assert compare(actual, large, in_float32=large.value.float).mismatch is None
    partly = large.value.float()
    partly[0, 1, 2] = 1.0
    mismatch = refused(compare(actual, large, in_float32=lambda: partly))
    assert mismatch.index == (0, 1, 2)
    assert mismatch.count == 1


def test_elements_that_are_not_finite_do_not_hide_wrong_ones(oracle: Sums) -> None:
    """The first wrong element may be finite, and all wrong elements are counted."""
    actual = changed(oracle, (1, 2, 3), float("nan"))
    actual[0, 1, 1] += 1.0
    mismatch = refused(compare(actual, oracle))
    assert (mismatch.index, mismatch.count) == ((0, 1, 1), 2)
    assert mismatch.message.endswith("though the reference is; 1 other is wrong")


def judged(numbers: Tensor, result: float) -> Comparison:
    """Compare a float32 sum of numbers with the exact one."""
    exact = [numbers.double()]
    expected = Propagated(trace(torch.sum, exact), exact, torch.float32)
    return compare(torch.tensor(result, dtype=torch.float32), expected)


@pytest.mark.parametrize("kind", ["equal", "two values", "uniform", "normal", "sorted", "peaks"])
def test_sum_in_turn_is_float32(kind: str) -> None:
    """A sum of 2**18 numbers that are added one by one in float32 has class fp32.

    For equal numbers, its rounding errors all have one sign. A bound that needs errors of mean 0
    would be exceeded.
    """
    generator = torch.Generator().manual_seed(2)
    count = 1 << 18
    normal = torch.randn(count, generator=generator)
    numbers = {
        "equal": torch.full((count,), 0.1),
        "two values": torch.where(normal > 0, 0.1, 0.3),
        "uniform": torch.rand(count, generator=generator),
        "normal": normal,
        "sorted": normal.sort().values,
        "peaks": drawn("peaks", (count,), generator),
    }[kind]
    # NumPy adds the numbers of a cumulative sum one by one.
    found = judged(numbers, numbers.numpy().cumsum()[-1])
    assert found.precision == "fp32"
    if kind == "equal":
        assert found.worst is not None
        assert found.worst > 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [4, 64])
def test_sample_for_a_long_sum_shows_by_its_peaks(every: int, seed: int) -> None:
    """A sum of 2**17 numbers in which a sample stands for the rest is wrong in the run `peaks`.

    With every fourth number left out, it is within the bound for uniform numbers.
    """
    count = 1 << 17
    place = torch.arange(count)
    left_out = place % 4 == 3 if every == 4 else place % 64 != 7
    weight = torch.where(left_out, 0.0, 4 / 3 if every == 4 else 64.0)

    def of(distribution: Distribution) -> Comparison:
        numbers = drawn(distribution, (count,), torch.Generator().manual_seed(seed)).abs()
        return judged(numbers, float((numbers * weight).double().sum()))

    assert every == 64 or of("uniform").precision == "fp32"
    assert of("peaks").mismatch is not None
