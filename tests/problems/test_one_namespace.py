"""Tests of the constants of a reference that a submission may read without defining them.

KernelBench executes the reference's and the submission's file in one namespace.
"""

from __future__ import annotations

import ast

import pytest

from harness.problems.configuration import Configuration
from harness.problems.constants import with_constants
from harness.problems.one_namespace import names_not_shared, shared_constants, shared_in
from harness.problems.problem import load
from tests.support import REFERENCE as FOLDER

REFERENCE = """
import math
batch_size, dim = 16, 64
heads = dim // 8
shape = (batch_size, dim)
eps = 1e-5
mode = "same"
endless = 1e999
computed = math.sqrt(dim)
if dim > 8:
    mode = "valid"

def get_inputs():
    return [torch.randn(*shape)]
"""


def shared(submission: str, **constants: int) -> dict[str, str]:
    """Return the constants of `REFERENCE` that a submission with this text gets, as literals.

    `constants` are values that replace those in the text of `REFERENCE`.
    """
    return shared_constants(with_constants(ast.parse(REFERENCE), constants), submission)


@pytest.mark.parametrize(
    "submission",
    [
        "x = dim",
        "class ModelNew:\n    width = dim",
        "def run(width=dim): pass",
        "class ModelNew:\n    def forward(self): return lambda: dim",
        "def run():\n    global dim\n    return dim",
        "if other():\n    dim = 3\nx = dim",
        "try:\n    dim\nexcept NameError:\n    dim = 3",
        "\ufeffx = dim",
        "x = [dim for _ in range(3)]",
    ],
)
def test_name_that_is_read_and_not_defined_is_shared(submission: str) -> None:
    """A submission gets a constant that it reads, unless it certainly defines the name itself."""
    assert shared(submission) == {"dim": "64"}


@pytest.mark.parametrize(
    "submission",
    [
        "dim = 3\nx = dim",
        "dim: int = 3\nx = dim",
        "from math import e as dim\nx = dim",
        "def dim(): pass\nx = dim",
        "class ModelNew:\n    def __init__(self, dim): self.dim = dim",
        "def run():\n    dim = 3\n    return dim",
        "x = self.dim",
        "x = Model, get_inputs, math, computed, endless, mode",
        "x = (",
    ],
)
def test_nothing_else_is_shared(submission: str) -> None:
    """A submission gets no name that it defines itself, and no function or class of the reference.

    It also gets no value that the reference computes or assigns conditionally. An attribute such as
    `self.dim` does not count as reading a constant.
    """
    assert shared(submission) == {}


def test_values_are_those_of_the_configuration() -> None:
    """A submission gets the constants' values in a case, not those in the reference's file.

    Constants that the reference calculates from other constants also have the values of the case.
    """
    text = "x = batch_size, dim, heads, shape, eps"
    own = {"batch_size": "16", "dim": "64", "heads": "8", "shape": "(16, 64)", "eps": "1e-05"}
    assert shared(text) == own
    varied = {"batch_size": "16", "dim": "33", "heads": "4", "shape": "(16, 33)", "eps": "1e-05"}
    assert shared(text, dim=33) == varied


def test_values_follow_arguments_and_shapes() -> None:
    """If a configuration has only arguments and shapes, a submission still gets all constants.

    Each constant then has the value of the argument or size that it determines in the reference.
    """
    configuration = Configuration(
        arguments={"in_channels": 3, "out_channels": 8, "kernel_size": 5, "stride": 2},
        input_shapes=((1, 3, 17),),
        input_dtypes=("float32",),
    )
    text = "x = batch_size, in_channels, out_channels, kernel_size, length"
    assert shared_in(load(FOLDER / "conv_transpose1d.py"), configuration, text) == {
        "batch_size": "1",
        "in_channels": "3",
        "kernel_size": "5",
        "length": "17",
        "out_channels": "8",
    }


def test_code_of_the_reference_is_not_shared() -> None:
    """`names_not_shared` returns the reference's functions and imports that a submission reads.

    The result leaves out names that the submission defines itself. It also leaves out constants,
    because the submission gets their values.
    """
    reference = ast.parse(REFERENCE)
    assert names_not_shared(reference, "x = math.pi + dim\ny = get_inputs") == [
        "get_inputs",
        "math",
    ]
    assert names_not_shared(reference, "import math\nx = math.pi + dim") == []
