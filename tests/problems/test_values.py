"""Tests of the inputs and weights of a case's runs (sets of values) and calls."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.nn.functional import conv_transpose1d

from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.draws import drawn
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import OWN, Case, cases_for
from harness.problems.problem import Problem, load
from harness.problems.runs import Distribution, Run
from harness.problems.sources import inputs_from
from harness.problems.values import (
    Call,
    calls_for,
    initialisation_seed,
    runs_for,
    undefined_runs,
    unused_weights,
    values_for,
    values_of_call,
)
from tests.support import REFERENCE, ROOT

ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load(REFERENCE / "conv_transpose1d.py")


@pytest.fixture(scope="module")
def cases(problem: Problem) -> tuple[Case, ...]:
    return cases_for(problem, ANY)


@pytest.fixture(scope="module")
def exact() -> Run:
    return Run("exact", "exact", "B")


def test_same_case_same_values(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The inputs and weights of a run depend only on the case, not on torch's random state."""
    for run in runs_for(problem):
        torch.manual_seed(1)
        one = values_for(problem, cases[1], run)
        torch.manual_seed(2)
        other = values_for(problem, cases[1], run)
        assert torch.equal(one.inputs[0], other.inputs[0])
        assert all(torch.equal(one.weights[n], other.weights[n]) for n in one.weights)


def test_another_seed_gives_other_values(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The seed of a case determines its inputs and weights."""
    run = runs_for(problem)[0]
    one = values_for(problem, cases[1], run)
    other = values_for(problem, replace(cases[1], seed=cases[1].seed + 1), run)
    assert not torch.equal(one.inputs[0], other.inputs[0])
    assert not torch.equal(*(v.weights["conv1d_transpose.weight"] for v in (one, other)))


def test_inputs_change_in_every_run_and_weights_with_their_name(
    problem: Problem, cases: tuple[Case, ...]
) -> None:
    """No two runs of a case have the same inputs.

    Two runs have equal weights exactly if they name the same set of weights.
    """
    runs = runs_for(problem)
    values = [values_for(problem, cases[0], run) for run in runs]
    for i, one in enumerate(values):
        for j, other in enumerate(values[:i]):
            assert not torch.equal(one.inputs[0], other.inputs[0])
            same = torch.equal(*(v.weights["conv1d_transpose.weight"] for v in (one, other)))
            assert same == (runs[i].weights == runs[j].weights)


def test_first_weights_are_the_models_own(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The weights of the first run are those that `Model` initialises after torch.manual_seed."""
    case = cases[1]
    torch.manual_seed(initialisation_seed(case))
    expected = problem.model(**case.arguments).state_dict()
    weights = values_for(problem, case, runs_for(problem)[0]).weights
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_distributions(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The inputs of each run have the shape, the dtype and the range of the run's distribution."""
    x = {r.name: values_for(problem, cases[0], r).inputs[0] for r in runs_for(problem)}
    assert all(v.dtype == torch.float32 for v in x.values())
    assert all(tuple(v.shape) == cases[0].input_shapes[0] for v in x.values())
    assert 0.0 <= x["uniform"].min() < 0.01 < 0.99 < x["uniform"].max() < 1.0
    assert x["normal"].min() < -2.0 < 2.0 < x["normal"].max()
    assert (int(x["impulse"].count_nonzero()), float(x["impulse"].max())) == (1, 1.0)
    assert 1e-21 < x["small"].max() < 1e-3
    assert 1e2 < x["large"].max() < 1e30


def test_every_magnitude_is_drawn(problem: Problem) -> None:
    """The magnitude of the inputs in the runs `small` and `large` varies from case to case.

    The largest input is from below 1e-18 to above 1e-5 in `small`, and from below 1e5 to above 1e28
    in `large`.
    """
    runs = {run.name: run for run in runs_for(problem)}
    cases = [case for seed in range(2) for case in cases_for(problem, ANY, seed=seed)]
    for name, lowest, highest in (("small", -18, -5), ("large", 5, 28)):
        largest = [float(values_for(problem, case, runs[name]).inputs[0].max()) for case in cases]
        assert min(largest) < 10.0**lowest
        assert max(largest) > 10.0**highest


def test_changed_weights_leave_one_product_of_each_sum(
    problem: Problem, cases: tuple[Case, ...]
) -> None:
    """The weights of the run `changed` leave at most one product in each sum of a convolution.

    If the sizes allow any products, at least one sum keeps its product. Single products are tested
    because their error has the tightest bound.
    """
    run = next(run for run in runs_for(problem) if run.name == "changed")
    for case in cases:
        values = values_for(problem, case, run)
        weight = values.weights["conv1d_transpose.weight"]
        c = Convolution.of(case)
        sums, possible = (
            conv_transpose1d(
                torch.ones(1, c.in_channels, c.length), ones, None, c.stride, c.padding,
                c.output_padding, c.groups, c.dilation,
            )
            for ones in (weight.sign().abs(), torch.ones_like(weight))
        )  # fmt: skip
        assert float(sums.max()) <= 1, case.id
        assert bool(sums.any()) == bool(possible.any()), case.id


def test_exact_values(problem: Problem, cases: tuple[Case, ...], exact: Run) -> None:
    """The exact run has inputs and biases that are odd integers of 12 to 15 bits, or of 22 bits.

    The integers of 22 bits are scaled by 2**-22. The weights are -1, 0 or 1.
    """
    for case in cases:
        values = values_for(problem, case, exact)
        weights = dict(values.weights)
        weight = weights.pop("conv1d_transpose.weight")
        assert set(weight.flatten().tolist()) <= {-1.0, 0.0, 1.0}
        is_wide = Convolution.of(case).length % 2 == 1
        lowest, highest, scale = (2**21, 2**22, 2**22) if is_wide else (2047, 32767, 1)
        for each in (*values.inputs, *weights.values()):
            integers = each.abs() * scale
            assert bool((integers % 2 == 1).all())
            assert lowest <= integers.min() <= integers.max() <= highest


def test_wide_inputs_have_single_products(
    problem: Problem, cases: tuple[Case, ...], exact: Run
) -> None:
    """Exact inputs of 22 bits need all their bits, and meet at most one nonzero weight in each sum.

    So rounding an input to 21 or fewer bits changes an output, and no bound of a sum hides the
    change.
    """
    wide = [case for case in cases if Convolution.of(case).length % 2]
    assert 0.3 < len(wide) / len(cases) < 0.9
    for case in wide:
        values = values_for(problem, case, exact)
        c = Convolution.of(case)
        terms = conv_transpose1d(
            torch.ones(1, c.in_channels, c.length), values.weights["conv1d_transpose.weight"].abs(),
            None, c.stride, c.padding, c.output_padding, c.groups, c.dilation,
        )  # fmt: skip
        assert float(terms.max()) <= 1, case.id
        (x,) = values.inputs
        mantissa, _ = x.frexp()
        assert not bool(((mantissa * 2**21).round() == mantissa * 2**21).any())


def test_inputs_of_fewer_bits_show(problem: Problem, cases: tuple[Case, ...], exact: Run) -> None:
    """Rounding exact inputs to 13 bits changes most of them, even if sums have 288 terms.

    The error bound of such sums for uniform inputs would hide a kernel that rounds its inputs.
    """
    sizes = {"in_channels": 96, "out_channels": 3, "kernel_size": 3}
    shapes = ((2, 96, 34),)
    case = replace(cases[0], arguments={**cases[0].arguments, **sizes}, input_shapes=shapes)
    (x,) = values_for(problem, case, exact).inputs
    mantissa, exponent = x.frexp()
    rounded = ((mantissa * 2**13).round() / 2**13).ldexp(exponent)
    assert float((rounded != x).float().mean()) > 0.5


def test_exact_sums_stay_below_2_to_24(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The exact run has at most 4095 nonzero weights in each sum.

    So sums of its integers stay below 2**24, and float32 holds them exactly.
    """
    sizes = {"in_channels": 600, "out_channels": 3, "kernel_size": 16, "bias": True}
    case = replace(cases[0], arguments={**cases[0].arguments, **sizes})
    weight = values_for(problem, case, Run("exact", "exact", "B")).weights[
        "conv1d_transpose.weight"
    ]
    terms = weight.abs().sum((0, 2))
    assert bool(((terms > 2000) & (terms <= 4095)).all())
    assert (4095 + 1) * 4095 < 2**24


def test_exact_sums_are_not_empty(problem: Problem, cases: tuple[Case, ...], exact: Run) -> None:
    """Every output channel has a nonzero weight in the run of exact integers."""
    for case in cases:
        groups = Convolution.of(case).groups
        weight = values_for(problem, case, exact).weights["conv1d_transpose.weight"]
        for group in weight.chunk(groups):
            assert bool((group.abs().sum((0, 2)) > 0).all()), case.id


def test_every_float32_order_is_exact(
    problem: Problem, cases: tuple[Case, ...], exact: Run
) -> None:
    """The reference gives the same result in float32 and float64, bit for bit, in the exact run."""
    for case in cases:
        values = values_for(problem, case, exact)
        model = problem.model(**case.arguments)
        model.load_state_dict(dict(values.weights))
        with torch.no_grad():
            single = model(values.inputs[0])
            double = model.double()(values.inputs[0].double())
        assert torch.equal(single.double(), double), case.id


OTHER = """
import torch
from torch import nn

rows = 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(rows)

    def forward(self, x, i):
        return {forward}


def get_inputs():
    return [torch.tril(torch.rand(rows, rows)), torch.randint(0, 9, (rows, rows))]


def get_init_inputs():
    return []
"""


def other(folder: Path, forward: str) -> Problem:
    """Return a reference made from `OTHER` whose forward returns the given expression."""
    path = folder / "other.py"
    path.write_text(OTHER.format(forward=forward))
    return load(path)


def test_inputs_are_what_the_reference_makes_of_numbers(tmp_path: Path) -> None:
    """Inputs of every run keep the structure that the reference's get_inputs gives its tensors.

    A triangular matrix stays triangular, and a class index stays in its range. The norm's weights,
    in contrast, differ between the runs `own` and `normal`.
    """
    problem = other(tmp_path, "self.norm(x) + i")
    (case,) = cases_for(problem, ANY, "own")
    values = {run.name: values_for(problem, case, run) for run in runs_for(problem)}
    assert set(values) > {"own", "normal", "large", "integers"}
    for name, value in values.items():
        matrix, classes = value.inputs
        assert torch.equal(matrix, matrix.tril()), name
        assert classes.dtype == torch.int64
        assert 0 <= classes.min() <= classes.max() < 9
    assert values["own"].inputs[0].min() >= 0.0 > values["normal"].inputs[0].min()
    assert values["large"].inputs[0].min() < -1.0
    assert values["large"].inputs[0].max() > 1.0
    assert torch.equal(values["integers"].inputs[0], values["integers"].inputs[0].round())
    names = [values[name].weights["norm.weight"] for name in ("own", "normal")]
    assert not torch.equal(*names)


@pytest.mark.parametrize("distribution", ["large", "positive"])
def test_large_numbers_are_finite_in_float16(distribution: Distribution) -> None:
    """Inputs drawn from `large` or `positive` are finite in float16, and some exceed 500.

    A reference may draw inputs in float16, and infinite inputs reveal nothing.
    """
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        (made,) = inputs_from(
            lambda: [torch.rand(64, dtype=torch.float16)], distribution, generator
        )
        assert bool(made.isfinite().all()), seed
        assert float(made.abs().max()) > 500.0


def test_numbers_beyond_the_domain_are_left_out(tmp_path: Path) -> None:
    """Runs on whose inputs the reference's output is not finite are left out or get other inputs.

    No output could be judged in such a run.
    """
    problem = other(tmp_path, "torch.log(x + 0.1) + 0 * i")
    (case,) = cases_for(problem, ANY, "own")
    assert "normal" in undefined_runs(problem)
    runs = {run.name: run for run in runs_for(problem)}
    assert (runs["large"].distribution, runs["spike"].distribution) == ("positive", "zeros")
    assert {run.name for run in runs_for(problem)}.isdisjoint(undefined_runs(problem))
    assert values_for(problem, case, runs["large"]).inputs[0].max() > 1000.0
    assert bool((values_for(problem, case, runs["spike"]).inputs[0] == 0).any())
    for run in runs_for(problem):
        x = values_for(problem, case, run).inputs[0]
        assert bool(torch.log(x + 0.1).isfinite().all()), run.name


@pytest.mark.parametrize(
    ("name", "run"),
    [
        *[("relu", "far"), ("max_over_dim", "far"), ("gelu", "wide"), ("scaled_sum", "wide")],
        *[("softmax", "small"), ("sum_over_dim", "small"), ("argmax_over_dim", "small")],
        # Its second output is an index, which does not show that float16 overflows.
        ("largest_with_place", "small"),
    ],
)
def test_references_that_keep_numbers_apart_get_all_magnitudes(name: str, run: str) -> None:
    """Elementwise references get `wide` in place of `small`, and selecting ones get `far`."""
    names = {each.name for each in runs_for(load(ROOT / "tests" / "references" / f"{name}.py"))}
    assert names & {"far", "wide", "small"} == {run}


def test_wide_numbers_have_every_magnitude_and_all_bits() -> None:
    """Of each power of ten between 1e-4 and 6e4, `wide` has numbers of both signs and 24 bits."""
    values = drawn("wide", (4, 1024), torch.Generator().manual_seed(0))
    assert 1e-4 <= float(values.abs().min()) < float(values.abs().max()) < 6e4
    for power in range(-4, 4):
        some = values[(values.abs() >= 10.0**power) & (values.abs() < 10.0 ** (power + 1))]
        assert bool((some > 0).any()), power
        assert bool((some < 0).any()), power
        assert not torch.equal(some, some.bfloat16().float())


def test_far_numbers_fill_rows_of_one_sign() -> None:
    """In `far`, some rows along the first or last dimension are all below -65504, others above.

    Which dimension it is depends on the case.
    """
    ways = set()
    for seed in range(8):
        values = drawn("far", (4, 6), torch.Generator().manual_seed(seed))
        along = [
            dimension
            for dimension in (0, 1)
            if bool((values < -65504).all(dimension).any())
            and bool((values > 65504).all(dimension).any())
        ]
        assert len(along) == 1
        ways.update(along)
        assert float(values.abs().max()) < 1e9
    assert ways == {0, 1}


PLAIN = """
import torch
from torch import nn

rows, columns = 128, 4099

class Model(nn.Module):
    def forward(self, x, y):
        return x * y

def get_inputs():
    return [torch.rand(rows, columns), torch.rand(rows, columns)]

def get_init_inputs():
    return []
"""


def test_ends_stand_out_where_there_are_many_numbers(tmp_path: Path) -> None:
    """The last elements of large inputs in the run `spike` are so large that skipping them shows.

    They are exact in bfloat16, so the error shows in every precision class. They have both signs.
    """
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    problem = load(path)
    cases = [case for case in cases_for(problem, ANY) if 65537 in case.constants.values()]
    assert cases
    for case in cases:
        names = [call.run.name for call in calls_for(problem, case) if call.kind == "first"]
        assert sorted(names) == ["own", "peaks", "spike"]
        (run,) = (run for run in runs_for(problem) if run.name == "spike")
        x, y = values_for(problem, case, run).inputs
        for each in (x, y):
            ends = torch.stack((each[0, -1], each[-1, 0], each[-1, -1]))
            assert float(ends.abs().min()) > 4000.0
            assert float(ends[2]) * float(ends[1]) < 0.0
            assert torch.equal(ends, ends.bfloat16().float())
            rest = each.abs().sum() - ends.abs().sum()
            assert float(ends[2].abs()) > float(rest) / 2**7
        assert not torch.equal(x, y)


def test_peaks_stand_at_random_places_of_long_inputs(tmp_path: Path) -> None:
    """Inputs of 2**14 elements or more have a run with a peak in each stretch of about 1024.

    The highest peak outweighs any sampling of the others: it is a tenth or more of each sum, of
    absolute values or of squares. Peaks are exact in bfloat16, and their places depend on the seed.
    """
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    problem = load(path)
    (run,) = (run for run in runs_for(problem) if run.name == "peaks")
    places = set()
    for case in cases_for(problem, ANY):
        names = {call.run.name for call in calls_for(problem, case)}
        numbers = sum(x.numel() for x in values_for(problem, case, runs_for(problem)[0]).inputs)
        assert ("peaks" in names) == (numbers >= 1 << 14)
        if "peaks" not in names:
            continue
        for x in values_for(problem, case, run).inputs:
            flat = x.flatten().double().abs()
            count = x.numel() // 1024
            peaks = flat.topk(count).values
            assert torch.equal(peaks, peaks.bfloat16().double())
            assert peaks[0] == 8192.0
            for power in (1, 2):
                assert float(peaks[0] ** power / (flat**power).sum()) > 0.1
            stretches = flat[: count * (x.numel() // count)].view(count, -1)
            assert float(stretches.amax(1).min()) >= float(peaks[-1])
            places.add(int(flat.argmax()))
    assert len(places) > 4


def test_peaks_are_positive_where_the_reference_needs_it(tmp_path: Path) -> None:
    """A logarithm gets positive peaks, and an exponential gets peaks of at most 80."""
    runs = {run.name: run for run in runs_for(other(tmp_path, "torch.log(x + 0.1) + 0 * i"))}
    assert runs["peaks"].distribution == "positive peaks"
    runs = {run.name: run for run in runs_for(other(tmp_path, "torch.exp(x) + 0 * i"))}
    assert runs["peaks"].distribution == "low peaks"


def test_products_of_many_ties_stay_what_they_are(tmp_path: Path) -> None:
    """Inputs of more than 256 numbers are all 1 or -1 in the run `ties`.

    Smaller inputs also have 0, 0.5 and -0.5. So a product of many inputs is not 0, and depends on
    every factor.
    """
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    problem = load(path)
    (run,) = (run for run in runs_for(problem) if run.name == "ties")
    found = set()
    for case in cases_for(problem, ANY):
        x = values_for(problem, case, run).inputs[0]
        if x.numel() > 256:
            assert set(x.flatten().tolist()) == {-1.0, 1.0}
        else:
            found |= set(x.flatten().tolist())
    assert found == {-1.0, -0.5, 0.0, 0.5, 1.0}


def test_one_number_is_touched_where_the_reference_draws(tmp_path: Path) -> None:
    """A `touched` call has the inputs of its run, except for at most one number.

    The number is one that get_inputs draws at random. Numbers that are always zero, such as those
    above a diagonal, stay zero.
    """
    problem = other(tmp_path, "x + i")
    (case,) = cases_for(problem, ANY, "own")
    run = runs_for(problem)[0]
    before = values_for(problem, case, run).inputs[0]
    for seed in range(20):
        again = replace(case, seed=seed)
        before = values_for(problem, again, run).inputs[0]
        after = values_of_call(problem, again, Call("touched", run, "touched")).inputs[0]
        assert torch.equal(after, after.tril())
        assert int((before != after).sum()) <= 1


def test_what_a_call_keeps_for_itself_is_no_weight(tmp_path: Path) -> None:
    """The running statistics of a batch norm are not among the weights that runs change.

    In training mode, they do not affect the output.
    """
    problem = other(tmp_path, "self.norm(x) + i")
    (case,) = cases_for(problem, ANY, "own")
    values = values_for(problem, case, runs_for(problem)[0])
    assert set(values.weights) == {"norm.weight", "norm.bias"}


def test_one_run_has_few_weights_where_a_model_has_many(tmp_path: Path) -> None:
    """The run `sparse` of a linear layer keeps one or two weights in each row of the matrix.

    The last weight of the first row is among them. Vectors of weights keep all their numbers. A
    model without matrices does not have this run.
    """
    few = {"sparse"}
    path = tmp_path / "layer.py"
    path.write_text(
        OTHER.format(forward="self.norm(x)").replace("BatchNorm1d(rows)", "Linear(8, 5)")
    )
    layer = load(path)
    (case,) = cases_for(layer, ANY, "own")
    (run,) = (run for run in runs_for(layer) if run.name in few)
    weights = values_for(layer, case, run).weights
    matrix = weights["norm.weight"]
    assert set(matrix.count_nonzero(1).tolist()) <= {1, 2}
    assert float(matrix[0, -1]) != 0.0
    assert int(weights["norm.bias"].count_nonzero()) == 5
    assert few.isdisjoint(run.name for run in runs_for(other(tmp_path, "self.norm(x) + i")))


def test_calls_come_in_an_order_that_only_the_seed_tells(problem: Problem) -> None:
    """The seed determines the order of a case's calls; the first is a plain run on weights A.

    A plain run has uniform or normal inputs; weights A are `Model`'s own. Every run occurs once. In
    some cases, one run is repeated exactly (`again`) or with one number changed (`touched`).
    """
    cases = [
        case
        for seed in range(4)
        for case in cases_for(problem, ANY, seed=seed)
        if case.label not in ("aimed", "layout", "vast")
    ]
    orders = [calls_for(problem, case) for case in cases]
    assert len({tuple(call.name for call in calls) for calls in orders}) > len(cases) // 2
    assert {len(calls) for calls in orders} == {7, 8, 9}
    for case, calls in zip(cases, orders, strict=True):
        first = [call.run for call in calls if call.kind == "first"]
        assert sorted(map(str, first)) == sorted(map(str, runs_for(problem)))
        assert calls[0].run.weights == "A"
        assert calls[0].run.distribution in ("uniform", "normal")
        assert calls == calls_for(problem, case)
    own = [calls for case, calls in zip(cases, orders, strict=True) if case.label in OWN]
    assert all({call.kind for call in calls} == {"first", "again", "touched"} for calls in own)
    for calls in orders:
        for before, call in pairwise(calls):
            assert call.kind != "again" or (before.kind, before.run) == ("first", call.run)


def test_cases_for_sizes_alone_have_one_run(problem: Problem) -> None:
    """Cases labelled aimed, layout or vast use only the run `uniform`.

    They check sizes, and the other cases check values. An aimed case has one call. Layout and vast
    cases have one call for each arrangement of the inputs in memory.
    """
    cases = {case.label: calls_for(problem, case) for case in cases_for(problem, ANY)}
    assert [call.kind for call in cases["aimed"]] == ["first"]
    assert [call.arrangement for call in cases["layout"]] == [
        "contiguous",
        "strided",
        "expanded",
        "offset",
        "empty",
    ]
    vast = [calls_for(problem, case) for case in cases_for(problem, ANY) if case.label == "vast"]
    ways = [[call.arrangement for call in calls] for calls in vast]
    assert ways == [*2 * [["contiguous", "axis", "long", "rows"]], ["contiguous", "wide"]]
    plain = (*cases["aimed"], *cases["layout"], *cases["vast"])
    assert {call.run.name for call in plain} == {"uniform"}


def test_touched_values_differ_in_one_number(problem: Problem, cases: tuple[Case, ...]) -> None:
    """A `touched` call differs from its run in exactly one number of the input.

    So a kernel fails if it returns an old output after comparing only a few numbers of the input.
    """
    run = runs_for(problem)[0]
    before = values_for(problem, cases[0], run)
    after = values_of_call(problem, cases[0], Call("touched", run, "touched"))
    assert int((before.inputs[0] != after.inputs[0]).sum()) == 1
    assert all(torch.equal(before.weights[n], w) for n, w in after.weights.items())


PARTLY_USED = """
import torch
from torch import nn

batch_size = 16
width = 24


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.unread = nn.Linear(width, 3)
        self.dropped = nn.Linear(width, 2, bias=False)
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))
        self.limit = nn.Parameter(torch.randn(width))

    def forward(self, x):
        self.dropped(x)
        y = torch.zeros_like(x)
        y += self.scale
        return RESULT


def get_inputs():
    return [torch.rand(batch_size, width)]


def get_init_inputs():
    return [width]
"""


@pytest.mark.parametrize(
    ("result", "used"),
    [
        ("x + y", {"scale"}),
        ("x > self.limit", {"limit"}),
        ("(x + y, self.shift.argmax())", {"scale", "shift"}),
        # A reference that reads the numbers of a tensor cannot be traced.
        ("x if self.limit.sum() > 1e9 else y", {"scale", "shift", "limit", "unread", "dropped"}),
    ],
)
def test_unused_weights_are_those_that_no_output_depends_on(
    result: str, used: set[str], tmp_path: Path
) -> None:
    """`unused_weights` returns the weights that no output depends on.

    `forward` may still read these weights, for instance for a result that it drops.
    """
    path = tmp_path / "partly_used.py"
    path.write_text(PARTLY_USED.replace("RESULT", result))
    names = {"unread.weight", "unread.bias", "dropped.weight", "scale", "shift", "limit"}
    unused = {name for name in names if name.partition(".")[0] not in used}
    assert unused_weights(load(path)) == unused


@pytest.mark.parametrize(
    ("divergence", "distribution"),
    [
        ("kl_div(torch.log(x), y, reduction='batchmean')", "later zeros"),
        ("kl_div(torch.log(y), x, reduction='sum')", "first zeros"),
        ("kl_div(torch.log(x), torch.log(y), reduction='sum', log_target=True)", "bump"),
    ],
)
def test_target_of_a_divergence_is_0_somewhere(
    divergence: str, distribution: Distribution, tmp_path: Path
) -> None:
    """An input that may be 0, such as the target of a KL divergence, has zeros in the run `spike`.

    The rows of the input still sum to 1.
    """
    path = tmp_path / "divergence.py"
    text = PLAIN.replace("x * y", f"nn.functional.{divergence}").replace("128, 4099", "32, 60")
    path.write_text(text.replace("columns)", "columns).softmax(-1)"))
    problem = load(path)
    (case,) = cases_for(problem, ANY, "own")
    (run,) = [run for run in runs_for(problem) if run.name == "spike"]
    assert run.distribution == distribution
    for place, x in enumerate(values_for(problem, case, run).inputs):
        has_zeros = distribution == ("first zeros", "later zeros")[place]
        assert bool((x == 0).any()) == has_zeros
        torch.testing.assert_close(x.sum(-1), torch.ones(x.shape[0]))
