"""Tests of the cases (configurations of sizes) that a submission is checked with."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.problems.discovery import ConstructorParameter, Submission, discover
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.family import NEUTRAL
from harness.problems.grid import Case, Grid, cases_for
from harness.problems.problem import Problem, load
from harness.system import codec
from tests.problems.families.convolutions import accepted_by_torch
from tests.support import REFERENCE


def submission(*names: str) -> Submission:
    """Return a submission that requires channels and kernel size; `names` are optional."""
    required = [ConstructorParameter(n) for n in ("in_channels", "out_channels", "kernel_size")]
    optional = [ConstructorParameter(n, required=False, default=NEUTRAL[n]) for n in names]
    return Submission("kernel", Path("kernel.py"), "0" * 64, (*required, *optional))


@pytest.fixture(scope="module")
def plain() -> Problem:
    return load(REFERENCE / "conv_transpose1d.py")


@pytest.fixture(scope="module")
def dilated() -> Problem:
    return load(REFERENCE / "conv_transpose1d_dilated.py")


@pytest.fixture(scope="module")
def everything(plain: Problem) -> tuple[Case, ...]:
    return cases_for(plain, submission(*NEUTRAL))


@pytest.mark.parametrize("name", ["quick", "full"])
def test_every_case_is_valid_and_affordable(plain: Problem, name: Grid) -> None:
    """Every case is accepted by torch and takes few enough multiply-adds for the simulator."""
    for case in cases_for(plain, submission(*NEUTRAL), name)[1:]:
        assert accepted_by_torch(Convolution.of(case)), case.id
        fills_shared_memory = case.label == "aimed" and Convolution.of(case).kernel_size > 16
        # Aimed cases have one run, so they may be larger.
        most = {"aimed": 4_000_000, "layout": 10_000_000}.get(case.label, 1_500_000)
        assert Convolution.of(case).work <= most or fills_shared_memory, case.id


def test_size_of_the_grid(plain: Problem, everything: tuple[Case, ...]) -> None:
    """The quick grid has at most 90 cases, of which 45 to 70 are not aimed, layout or random.

    The full grid, which covers triples of values, has 120 to 300 cases in all.
    """
    plainly = [case for case in everything if case.label not in ("aimed", "layout", "random")]
    assert 45 <= len(plainly) <= 70
    assert len(everything) <= 90
    assert 120 <= len(cases_for(plain, submission(*NEUTRAL), "full")) <= 300


def test_some_case_has_many_rows_and_some_many_weights(everything: tuple[Case, ...]) -> None:
    """Some corner case has a batch of more than 64, and some has more than 65,536 weights."""
    sizes = [Convolution.of(case) for case in everything if case.label == "corner"]
    assert max(each.batch for each in sizes) > 64
    weights = [each.in_channels * each.out_channels * each.kernel_size for each in sizes]
    assert max(weights) > 1 << 16


def test_random_cases_are_of_their_seed(plain: Problem) -> None:
    """The seed determines the sizes of a grid's three random cases, but not their ids."""
    found = submission(*NEUTRAL)
    one, again, other = (
        [case for case in cases_for(plain, found, seed=seed) if case.label == "random"]
        for seed in (5, 5, 6)
    )
    assert [case.id for case in one] == ["random-1", "random-2", "random-3"]
    assert one == again
    assert [case.id for case in one] == [case.id for case in other]
    sizes = [[(case.arguments, case.input_shapes) for case in cases] for cases in (one, other)]
    assert all(mine != theirs for mine, theirs in zip(*sizes, strict=True))


def test_cases_are_aimed_at_the_submissions_numbers(plain: Problem) -> None:
    """A number in a submission's text that may be a tile size adds cases with sizes near it.

    A submission that reads the multiprocessor count also gets a case on a device of two
    multiprocessors. If the submission also uses tensor cores, it gets a case on a device of one
    multiprocessor, too.
    """
    found = submission(*NEUTRAL)
    with_tile = replace(found, numbers=(96,), counts_multiprocessors=True)
    plainly, aimed = (cases_for(plain, each) for each in (found, with_tile))
    more = [case for case in aimed if case.id not in {case.id for case in plainly}]
    assert {case.label for case in more} == {"aimed"}
    assert {95, 96, 97} <= {case.arguments["in_channels"] for case in more}
    assert [case.multiprocessors for case in more if case.multiprocessors] == [2]
    with_tensor_cores = replace(with_tile, multiplies_matrices=True)
    counts = [case.multiprocessors for case in cases_for(plain, with_tensor_cores)]
    assert sorted(count for count in counts if count) == [1, 2]


def test_ids_are_unique_and_do_not_depend_on_the_seed(
    plain: Problem, everything: tuple[Case, ...]
) -> None:
    """Case ids are unique and the same for every seed, so they can be given to `pytest -k`.

    The seed of each case, which determines its values, does depend on the seed of the grid.
    """
    ids = [case.id for case in everything]
    assert len(set(ids)) == len(ids)
    again = cases_for(plain, submission(*NEUTRAL), seed=7)
    assert [case.id for case in again] == ids
    assert {case.seed for case in again}.isdisjoint({case.seed for case in everything})


def test_no_configuration_twice(everything: tuple[Case, ...]) -> None:
    """A corner that is also in the covering array gives one case, and not two."""
    cases = [case for case in everything if case.label not in ("layout", "random")]
    assert len({Convolution.of(case) for case in cases}) == len(cases)


def test_own_configuration_is_first_and_reduced(everything: tuple[Case, ...]) -> None:
    """On the simulator, the first case has the reference's sizes with batch and length cut down.

    The case's label is `reduced`.
    """
    own = everything[0]
    assert (own.label, own.input_shapes) == ("reduced", ((2, 128, 64),))
    assert own.arguments["in_channels"] == 128


def test_own_configuration_is_native_on_cuda(plain: Problem) -> None:
    """On a GPU, the first case has the reference's own shapes, and the label `native`."""
    own = cases_for(plain, submission(), device="cuda")[0]
    assert (own.label, own.input_shapes) == ("native", ((64, 128, 65536),))


def test_only_what_the_constructor_takes_is_varied(plain: Problem) -> None:
    """A parameter that the submission lacks has its neutral value in every case (padding 0)."""
    for case in cases_for(plain, submission("stride")):
        assert set(case.arguments) == {"in_channels", "out_channels", "kernel_size", "stride"}
        c = Convolution.of(case)
        assert (c.padding, c.output_padding, c.dilation, c.groups, c.bias) == (0, 0, 1, 1, False)


def test_only_what_the_model_takes_is_varied(plain: Problem) -> None:
    """A parameter that the reference's `Model` lacks, such as dilation, is in no case."""
    assert all("dilation" not in case.arguments for case in cases_for(plain, submission(*NEUTRAL)))


def test_every_reference_builds_with_every_case(dilated: Problem) -> None:
    """The reference's `Model` accepts the arguments of every case and gives the predicted shape."""
    for case in cases_for(dilated, submission(*NEUTRAL)):
        y = dilated.model(**case.arguments)(torch.zeros(case.input_shapes[0]))
        c = Convolution.of(case)
        assert tuple(y.shape) == (c.batch, c.out_channels, c.output_length)


@pytest.mark.parametrize(
    ("source", "overfilled"),
    [
        ("__global__ void k() {}", False),
        ("__global__ void k() { __shared__ float s[1]; }", True),
        ("kernel = open('kernel.cu').read()", True),
    ],
)
def test_shared_memory_is_overfilled_where_there_may_be_some(
    tmp_path: Path, plain: Problem, source: str, overfilled: bool
) -> None:
    """A submission whose kernels may use shared memory gets cases that exceed its limits.

    The weights of one output channel exceed 48 KiB in some case, and 227 KiB in some case. A
    submission whose kernels use no shared memory gets neither case.
    """
    file = tmp_path / "kernel.py"
    file.write_text(
        f'source = """{source}"""\n'
        "class ModelNew:\n"
        "    def __init__(self, in_channels, out_channels, kernel_size):\n"
        "        pass\n"
    )
    (found,) = discover([file]).submissions
    sizes = [
        4 * Convolution.of(c).in_channels * Convolution.of(c).kernel_size
        for c in cases_for(plain, found)
    ]
    assert [any(size > limit << 10 for size in sizes) for limit in (48, 227)] == [overfilled] * 2


def test_json_round_trip(everything: tuple[Case, ...]) -> None:
    """A case that is encoded to JSON and decoded again is unchanged."""
    for case in everything:
        assert codec.decode(codec.encode(case), Case) == case


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "odd"}, "odd.*label"),
        ({"seed": None}, "missing required field `seed`"),
        ({"input_shapes": [["1"]]}, "Expected `int`, got `str`.*input_shapes"),
    ],
)
def test_bad_json_is_refused(
    everything: tuple[Case, ...], change: dict[str, Any], message: str
) -> None:
    """Invalid JSON of a case raises a ValueError that names the wrong field."""
    data = {**json.loads(codec.encode(everything[0])), **change}
    data = {name: value for name, value in data.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        codec.decode(json.dumps(data), Case)


OTHER = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features=32):
        super().__init__()
        self.layer = nn.{layer}

    def forward(self, {names}):
        return {forward}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("layer", "names", "forward", "inputs", "shapes"),
    [
        (
            "Linear(features, 8)",
            "x",
            "self.layer(x)",
            "[torch.rand(512, 32)]",
            ((512, 32),),
        ),
        (
            "Conv2d(features, 128, 3)",
            "x",
            "self.layer(x)",
            "[torch.rand(16, 32, 256, 256)]",
            ((2, 32, 64, 64),),
        ),
        (
            "Identity()",
            "a, b",
            "a @ b",
            "[torch.rand(512, 256), torch.rand(256, 1024)]",
            ((64, 64), (64, 64)),
        ),
        ("Linear(400, 8)", "x", "self.layer(x)", "[torch.rand(512, 400)]", ((512, 400),)),
    ],
)
def test_other_references_get_their_own_configuration(
    tmp_path: Path,
    layer: str,
    names: str,
    forward: str,
    inputs: str,
    shapes: tuple[tuple[int, ...], ...],
) -> None:
    """For a reference of no known family, the case `reduced` has smaller integer literals.

    Sizes stay as they are if `Model` does not accept smaller ones.
    """
    path = tmp_path / "other.py"
    path.write_text(OTHER.format(layer=layer, names=names, forward=forward, inputs=inputs))
    any_keyword = submission()
    (case,) = cases_for(load(path), any_keyword, "own")
    assert case.label == "reduced"
    assert case.input_shapes == shapes


def test_shared_memory_is_asked_for_beyond_its_limits(everything: tuple[Case, ...]) -> None:
    """In some case, an output channel has 48 to 64 KiB of weights; in another, more than 227 KiB.

    A kernel that keeps these weights in shared memory exceeds a limit of CUDA.
    """
    sizes = sorted(
        4
        * Convolution.of(case).in_channels
        // Convolution.of(case).groups
        * Convolution.of(case).kernel_size
        for case in everything
    )
    assert any(48 << 10 < size < 64 << 10 for size in sizes)
    assert sizes[-1] > 227 << 10
