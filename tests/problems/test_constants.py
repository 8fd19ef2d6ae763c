"""Tests of cases with other sizes, which change the integer constants in a reference's file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.problems.constants import constants_of, with_constants
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.grid import Case, cases_for
from harness.problems.problem import Problem, ProblemError, load
from harness.problems.values import numbers_given

REFERENCE = """
import torch
from torch import nn

batch_size = 16
heads: int = 4
width = heads * 32
shape = (256 * 2, 64)
unread = 77
scale = 2.5


class Model(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, width)

    def forward(self, x, y):
        return self.norm(x) * y


def get_inputs():
    return [torch.rand(batch_size, width, 100), torch.rand(batch_size, width, 100)]


def get_init_inputs():
    return [width, heads]
"""

ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    path = tmp_path / "group_norm.py"
    path.write_text(REFERENCE)
    return load(path)


def test_constants_are_what_the_two_functions_read(problem: Problem) -> None:
    """A reference's constants are the integers that `get_inputs` or `get_init_inputs` depends on.

    They are assigned at the file's top level, and read directly or through other names. Literal
    sizes inside the two functions are constants, too.
    """
    assert problem.constants == {"batch_size": 16, "heads": 4, "n100": 100}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n = -3", {"n": -3}),
        ("n = 1 << 12", {"n": 4096}),
        ("n = 2 ** 10 + 1", {"n": 1025}),
        ("n = 7 // 0", {}),
        ("n = True", {}),
        ("n = 2.0", {}),
        ("a = 4\nb = a * 2\nn = b + 1", {"a": 4}),
        ("n = (3, 4 * 2)", {"n[0]": 3, "n[1]": 8}),
        ("other, n = 3, 4 * 2", {"n": 8}),
        ("a, b = 3, 4\nn = [a, b]", {"a": 3, "b": 4}),
        ("m = n = 4", {"n": 4}),
        ("m = n = 4\nn = n + m", {"m": 4}),
    ],
)
def test_arithmetic_on_literals_is_an_integer(text: str, found: dict[str, int]) -> None:
    """An assignment of arithmetic on integer literals makes a constant with Python's value.

    No other expression makes a constant.
    """
    tree = ast.parse(f"{text}\ndef get_inputs(): return n")
    assert constants_of(tree) == found
    changed = with_constants(tree, dict.fromkeys(found, 5))
    assert constants_of(changed) == dict.fromkeys(found, 5)


def test_one_number_for_an_argument_and_a_shape_stays_one(problem: Problem) -> None:
    """`Problem.at` with another constant changes all arguments and shapes that derive from it.

    The original problem is unchanged.
    """
    other = problem.at({"heads": 3, "n100": 7})
    assert other.arguments == {"width": 96, "groups": 3}
    assert other.input_shapes == ((16, 96, 7),) * 2
    assert problem.input_shapes == ((16, 128, 100),) * 2
    assert problem.at({}) is problem


def test_sizes_that_the_reference_refuses_are_an_error(tmp_path: Path) -> None:
    """`Problem.at` with sizes for which the reference fails raises a ProblemError."""
    path = tmp_path / "group_norm.py"
    path.write_text(REFERENCE + "\nassert heads < 9\n")
    with pytest.raises(ProblemError, match="fails with other sizes"):
        load(path).at({"heads": 9})


@pytest.mark.thorough
def test_nothing_of_size_1_is_stretched_over_what_it_has_to_fit() -> None:
    """No case of a causal attention has a mask that is shorter than the sequence.

    torch would broadcast a mask of size 1 over 31 steps, but such a mask hides nothing.
    """
    reference = load(Path(__file__).parents[1] / "references" / "causal_attention.py")
    constants = [{**reference.constants, **case.constants} for case in cases_for(reference, ANY)]
    assert all(each["length"] <= each["longest"] for each in constants)
    # A batch of 1 is a case: the batch is broadcast with weights that have no batch dimension.
    assert {1, 2, 3, 5, 31} <= {each["batch_size"] for each in constants}
    assert 1 in {each["longest"] for each in constants}


@pytest.fixture
def cases(problem: Problem) -> tuple[Case, ...]:
    return cases_for(problem, ANY)


def test_every_size_has_every_value(problem: Problem, cases: tuple[Case, ...]) -> None:
    """Each size takes small values, and values around the sizes of warps, blocks and vectors.

    The grid has fewer than 40 cases.
    """
    for name in ("batch_size", "heads", "n100"):
        values = {problem.at(case.constants).constants[name] for case in cases}
        assert values >= {1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025}, name
    assert len(cases) < 40


def test_every_size_has_its_own_value_somewhere() -> None:
    """Each size constant has the value of the reference's file in at least one case.

    The case `reduced`, however, has a smaller value for every size constant.
    """
    problem = load(Path(__file__).parents[1] / "references" / "irregular_matmul.py")
    cases = cases_for(problem, ANY)
    own = next(case for case in cases if case.label == "reduced")
    assert own.constants.keys() == problem.constants.keys()
    for name in problem.constants:
        assert any(name not in case.constants for case in cases), name


@pytest.mark.parametrize("name", ["irregular_matmul", "group_norm", "max_pool2d", "attention"])
def test_some_sizes_are_nobodys_choice(name: str) -> None:
    """Each seed gives random cases, most of which have a size that is not a fixed test value."""
    problem = load(Path(__file__).parents[1] / "references" / f"{name}.py")
    drawn = [
        case.constants
        for seed in range(4)
        for case in cases_for(problem, ANY, seed=seed)
        if case.label == "random"
    ]
    assert len(drawn) >= 10
    assert len({tuple(each.items()) for each in drawn}) >= 8
    listed = {1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025, 4099, 65537}
    assert sum(not listed.issuperset(each.values()) for each in drawn) >= 8


def test_some_random_sizes_are_multiples_of_a_tile() -> None:
    """About half of the random cases have a size that is a multiple of 128."""
    problem = load(Path(__file__).parents[1] / "references" / "softmax.py")
    drawn = [
        case.constants.values()
        for seed in range(8)
        for case in cases_for(problem, ANY, seed=seed)
        if case.label == "random"
    ]
    assert len(drawn) == 24
    assert 6 <= sum(any(size % 128 == 0 for size in sizes) for sizes in drawn) <= 18


RECURRENT = """
import torch
from torch import nn

batch_size = 10
length = 512
width = 128
layers = 6


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.GRU(width, width, layers)

    def forward(self, x):
        return self.layers(x)[0]


def get_inputs():
    return [torch.rand(length, batch_size, width)]


def get_init_inputs():
    return [width, layers]
"""

DEEP = """
import torch
from torch import nn

batch_size = 16
height = width = 224


class Model(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = nn.functional.max_pool2d(torch.relu(x), 2)
        return x


def get_inputs():
    return [torch.rand(batch_size, 3, height, width)]


def get_init_inputs():
    return []
"""


def values_in_cases(path: Path, text: str, *names: str) -> list[set[int]]:
    """Return the set of values that each named constant takes in the cases of a reference.

    Args:
        path: The file to write the reference to.
        text: Text of the reference.
        names: Names of the constants.
    """
    path.write_text(text)
    reference = load(path)
    each = [reference.at(case.constants).constants for case in cases_for(reference, ANY)]
    return [{constants[name] for constants in each} for name in names]


@pytest.mark.thorough
def test_loop_is_as_long_as_a_call_of_it_takes_little(tmp_path: Path) -> None:
    """A recurrent model's cases have at most 511 steps, although the batch size goes up to 4099.

    The steps are limited because each step takes time, even with few numbers.
    """
    lengths, batches, layers = values_in_cases(
        tmp_path / "recurrent.py", RECURRENT, "length", "batch_size", "layers"
    )
    assert {1, 2, 3, 5, 31, 33, 63, 65} <= lengths
    assert max(lengths) < 512
    assert {1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025, 4099} <= batches
    assert {1, 2, 3, 6, 7} <= layers


SPLIT = """
import torch
from torch import nn

batch_size = 16
channels = 480
groups = 3


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.parts = 4 * groups

    def forward(self, x):
        return x.unflatten(1, (self.parts, -1)).transpose(1, 2).flatten(1)


def get_inputs():
    return [torch.rand(batch_size, channels)]


def get_init_inputs():
    return [channels, groups]
"""


def test_size_that_is_split_inside_is_a_multiple(tmp_path: Path) -> None:
    """A size that the model splits into 12 parts takes several multiples of 12 above 12.

    With 12 alone, each part would have one number.
    """
    (channels,) = values_in_cases(tmp_path / "split.py", SPLIT, "channels")
    assert len([each for each in channels if each > 12 and each % 12 == 0]) > 5


MASKED = """
import torch
from torch import nn

longest = 1024
length = 64


class Model(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.register_buffer("mask", torch.ones(longest, longest).tril())

    def forward(self, x):
        return x * self.mask[: x.shape[0], : x.shape[1]]


def get_inputs():
    return [torch.rand(min(length, longest), min(length, longest))]


def get_init_inputs():
    return [longest]
"""


def test_what_a_model_keeps_is_as_large_as_what_it_calculates(tmp_path: Path) -> None:
    """A constant that sets the size of a model's square mask stays below 4099.

    Sizes are limited by the numbers that the model stores, not only by those that it computes.
    """
    (longest,) = values_in_cases(tmp_path / "masked.py", MASKED, "longest")
    assert {1, 2, 3, 5, 1023, 1025} <= longest
    assert max(longest) < 4099


def test_image_that_is_halved_often_is_not_too_small_for_any_case(tmp_path: Path) -> None:
    """If a model fails for small images, its batch size is varied with larger images.

    The image's height takes values up to 257, and the batch size takes values from 1 to 257.
    """
    sizes, batches = values_in_cases(tmp_path / "deep.py", DEEP, "height", "batch_size")
    assert {31, 33, 63, 65, 127, 129, 255, 257} <= sizes
    assert {1, 2, 3, 5, 31, 33, 63, 65, 127, 129, 255, 257} <= batches


WINDOWS = """
import torch
from torch import nn

batch_size = 64
rows, columns = 512, 512
window = 11

class Model(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.pool = nn.AvgPool2d(window)

    def forward(self, x):
        return self.pool(x)

def get_inputs():
    return [torch.rand(batch_size, 2, rows, columns)]

def get_init_inputs():
    return [window]
"""


def test_sizes_are_varied_where_no_small_ones_work(tmp_path: Path) -> None:
    """If a pooling window requires a large image, each size still takes values up to 4099.

    The other sizes are then as small as the window allows.
    """
    path = tmp_path / "windows.py"
    path.write_text(WINDOWS)
    problem = load(path)
    cases = cases_for(problem, ANY)
    for name in ("batch_size", "rows", "columns"):
        values = {problem.at(case.constants).constants[name] for case in cases}
        assert values >= {31, 33, 63, 65, 127, 129, 255, 257, 1023, 1025, 4099}, name


VOLUMES = """
import torch
from torch import nn

batch_size = 16
channels = 3
depth = 12
height, width = 64, 64
kernel_size = 5
stride = 2
padding = 0

class Model(nn.Module):
    def __init__(self, channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, 8, kernel_size, stride, padding)

    def forward(self, x):
        return self.conv(x)

def get_inputs():
    return [torch.rand(batch_size, channels, depth, height, width)]

def get_init_inputs():
    return [channels, kernel_size, stride, padding]
"""


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[int]]:
    """Return, by constant, the set of values in the cases of the reference `VOLUMES`."""
    names = (
        *("batch_size", "channels", "depth", "height", "width"),
        *("kernel_size", "stride", "padding"),
    )
    path = tmp_path_factory.mktemp("volumes") / "volumes.py"
    return dict(zip(names, values_in_cases(path, VOLUMES, *names), strict=True))


def test_small_sizes_of_inputs_are_varied_beyond_tiles(volumes: Mapping[str, set[int]]) -> None:
    """Small input sizes of a 3D convolution take values up to 129, and its kernel size up to 6."""
    assert volumes["channels"] >= {1, 2, 3, 4, 33, 129}
    assert volumes["depth"] >= {1, 2, 3, 12, 13, 33, 129}
    assert max(volumes["kernel_size"]) == 6


def test_what_is_not_padded_is_padded_in_some_case(volumes: Mapping[str, set[int]]) -> None:
    """A padding of 0 takes the values 1 to 3 in some cases, so a kernel that ignores it fails."""
    assert volumes["padding"] >= {0, 1, 2, 3}
    assert volumes["stride"] >= {1, 2, 3}


def test_wide_sizes_in_three_dimensions_come_beside_the_least(
    volumes: Mapping[str, set[int]],
) -> None:
    """Batch size, height and width of a 3D convolution are each at least 65537 in some case.

    All other sizes then have their smallest value, because the case would take too much work
    otherwise.
    """
    for name in ("batch_size", "height", "width"):
        assert max(volumes[name]) >= 65537, name


ADDED = """
import torch
from torch import nn

channels = 16
taps = (1, 3)
shape = (channels, 1, 1)

class Model(nn.Module):
    def __init__(self, channels, taps, shape):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, taps)
        self.bias = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.conv(x) + self.bias

def get_inputs():
    return [torch.rand(4, 3, 32, 32)]

def get_init_inputs():
    return [channels, taps, shape]
"""


def test_what_broadcasts_a_weight_stays_1(tmp_path: Path) -> None:
    """The ones in a bias's shape (channels, 1, 1) stay 1; the 1 in a kernel size (1, 3) varies."""
    names = ("taps[0]", "shape[1]", "shape[2]")
    taps, *ones = values_in_cases(tmp_path / "added.py", ADDED, *names)
    assert taps >= {1, 2, 3}
    assert ones == [{1}, {1}]


ORDERED = """
import torch
from torch import nn

shape = (4, 8, 16)
order = (0, 2, 1)

class Model(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order) + 1

def get_inputs():
    return [torch.rand(shape).permute(order)]

def get_init_inputs():
    return [order]
"""


def test_a_1_may_be_a_dimensions_number(tmp_path: Path) -> None:
    """A constant that is the index of a dimension takes only values that the reference accepts."""
    (places,) = values_in_cases(tmp_path / "ordered.py", ORDERED, "order[2]")
    assert places == {1, 2}


def test_cases_are_the_same_ones_in_every_run(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The cases' ids are unique, name sizes as `name=value`, and do not depend on the seed."""
    again = cases_for(problem, ANY, seed=5)
    assert [case.id for case in cases] == [case.id for case in again]
    assert len({case.id for case in cases}) == len(cases)
    assert cases[0].id == "reduced"
    assert all("=" in case.id for case in cases[1:] if case.label != "random")


def test_more_company_in_the_full_grid(problem: Problem, cases: tuple[Case, ...]) -> None:
    """The full grid has more than 1.5 times the cases of the quick grid."""
    assert len(cases_for(problem, ANY, "full")) > 1.5 * len(cases)


def test_own_configuration_alone(problem: Problem) -> None:
    """The grid `own` has only the case with the reference's own sizes.

    The case is called `reduced` on the simulator and `native` on a GPU.
    """
    assert [case.id for case in cases_for(problem, ANY, "own")] == ["reduced"]
    assert [case.id for case in cases_for(problem, ANY, "own", "cuda")] == ["native"]


BATCH_OF_1 = """
import torch
from torch import nn

channels = 24


class Model(nn.Module):
    def forward(self, x, y):
        return RESULT


def get_inputs():
    return [torch.rand(1, channels, 1, 40), torch.rand((1, channels, 40, 1))]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("result", "batches", "heights"),
    [
        ("torch.relu(x).sum() + y.sum()", {1, 2, 3, 33, 129}, {1, 2, 3, 33, 129}),
        # Other sizes do not fit the second input, or would be broadcast.
        ("x @ y", {1, 2, 3, 33, 129}, {1, 2, 3, 33, 129}),
        ("x + y", {1, 2, 3, 33, 129}, {1}),
        ("torch.mm(x.squeeze(), y.squeeze().t())", {1}, {1}),
    ],
)
def test_literal_1_is_a_size_too(
    result: str, batches: set[int], heights: set[int], tmp_path: Path
) -> None:
    """A literal 1 in a shape in `get_inputs` is varied if the reference accepts other sizes."""
    path = tmp_path / "batch.py"
    path.write_text(BATCH_OF_1.replace("RESULT", result))
    cases = cases_for(load(path), ANY)
    assert {case.input_shapes[0][0] for case in cases} == batches
    assert {case.input_shapes[0][2] for case in cases} == heights


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ("torch.rand(1, 7)", {"n1[0]"}),
        ("torch.rand(7, 1)", set()),
        ("torch.randn(size=(1, 1, 7))", {"n1[0]", "n1[1]"}),
        ("torch.randint(0, 1, (1, 7))", {"n1[0]"}),
        ("torch.full([1, 7], 1)", {"n1[0]"}),
        ("torch.zeros(1, *shape)", {"n1[0]"}),
        ("torch.zeros(*shape, 1, 7)", set()),
        ("x.sum(1), x.transpose(1, 2)", set()),
    ],
)
def test_literal_1_has_its_dimension_as_a_name(inputs: str, names: set[str]) -> None:
    """A literal 1 is a constant if it is a size in any dimension but the last.

    The constant is named after the dimension: `n1[0]`, `n1[1]`.
    """
    assert constants_of(ast.parse(f"def get_inputs(): return [{inputs}]")).keys() == names


SQUARE = """
import torch
from torch import nn

batch_size = 16
dim = 96


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(dim))
        self.unused = nn.Linear(dim, MORE)

    def forward(self, x):
        return torch.relu(x * self.scale)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return [dim]
"""


def test_unused_weights_count_too(tmp_path: Path) -> None:
    """The sizes of a case are limited by the number of weights, even if forward reads none."""
    path = tmp_path / "square.py"
    path.write_text(SQUARE.replace("MORE", "dim"))
    cases = cases_for(load(path), ANY)
    sizes = {case.constants.get("dim", 96) for case in cases if case.label == "grid"}
    assert {1, 33, 1025} <= sizes
    assert max(sizes) ** 2 <= 1 << 22
    assert 65537 in {case.constants.get("batch_size") for case in cases}


def test_weights_beyond_the_memory_are_not_made(tmp_path: Path) -> None:
    """A reference whose weights would take terabytes has one case; no model is constructed."""
    path = tmp_path / "square.py"
    path.write_text(SQUARE.replace("MORE", "1 << 40"))
    problem = load(path)
    (case,) = cases_for(problem, ANY)
    assert numbers_given(problem, case) > 1 << 46
