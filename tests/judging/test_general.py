"""Diagnoses of references without a list of known mistakes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from harness.judging.general import Seen, guess
from harness.judging.judge import judge
from harness.judging.picture import WrongOutput
from harness.problems.grid import Case
from harness.problems.instance import ModelInstance
from harness.problems.problem import Problem, load
from harness.problems.values import calls_for, values_of_call
from tests.judge_alone import every_case, version
from tests.support import thorough_but
from tests.versions import VERSIONS

REFERENCES = Path(__file__).parent.parent / "references"
# The number of failing cases, all of which a diagnosis must explain.
CASES = 10

NAMES = {
    ("relu", "identity"): ("input copied", "unchanged copy of x"),
    ("relu", "the tail beyond 1024 left out"): ("wrong in one part", "from index 1024 on"),
    ("square_matmul", "without the last term"): ("the last term missing", "a along dimension 1"),
    ("square_matmul", "the second transposed"): (
        "operand transposed",
        "the second operand of matmul",
    ),
    ("square_matmul", "the result transposed"): ("output transposed", "last two dimensions"),
    ("sum_over_dim", "without the first"): ("the first term missing", "x along dimension 1"),
    ("sum_over_dim", "the first 256 alone"): ("the first block alone", "after the first 256"),
    ("mean_over_dim", "sum"): ("sum in place of mean", "sum in place of mean in line"),
    ("mse_loss", "half"): ("output scaled", "0.5 times"),
    ("max_pool2d", "from 0 on"): ("the maximum starts from 0", "negative values after max_pool2d"),
    ("max_pool2d", "mean"): ("avg in place of max", "avg_pool2d in place of max_pool2d"),
    ("relu", "capped at 6"): ("relu6 in place of relu", "relu6 in place of relu"),
    ("hardtanh", "tanh"): ("tanh in place of hardtanh", "tanh in place of hardtanh"),
    ("hardtanh", "without the lower limit"): ("min_val left out", "without min_val in hardtanh"),
    ("leaky_relu", "relu"): ("negative_slope taken as 0.0", "0.0 in place of 0.01"),
    ("softmax", "along the other dimension"): ("dim taken as 0", "dim 0 in place of 1"),
    ("hinge_loss", "without the clamp"): ("clamp left out", "without clamp in line"),
    ("layer_norm", "another eps"): ("eps taken as 0.001", "eps 0.001 in place of 1e-05"),
    ("layer_norm", "without weights"): ("weight and bias left out", "in layer_norm in line"),
    ("cumsum", "chunks of 256 that are not joined"): ("chunks not joined", "Each chunk of 256"),
    ("cumsum", "exclusive"): ("output shifted", "one place too late"),
    ("conv1d", "without the bias"): ("bias left out", "without bias in conv1d in line"),
    ("conv1d", "turned round"): ("weight flipped", "conv.weight"),
    ("conv1d", "without the last tap"): ("part of a weight missing", "along dimension 2"),
    # The mistake is in each of five layers; the smallest case has one layer.
    ("encoder_layers", "relu for gelu"): ("relu in place of gelu", "place of gelu in line 30"),
    ("scaled_sum", "without y"): ("add left out", "with the first operand in its place"),
    ("scaled_sum", "one row of y for all"): (
        "index 0 used for all",
        "index 0 of y along dimension 0",
    ),
}
NAMES["batch_norm", "by running statistics"] = ("training taken as False", "in batch_norm in line")
# These have many operators, or large ones, and take seconds each.
SLOW = {"encoder_layers", "conv1d", "layer_norm", "square_matmul", "max_pool2d", "sum_over_dim"}
OF_A_CONVOLUTION = {
    "stride ignored": ("stride taken as (1, 1)", "(1, 1) in place of (2, 2) in conv2d in line 17"),
    "padding ignored": ("padding taken as (0, 0)", "(0, 0) in place of (1, 2)"),
    "padding changed round": ("padding taken as (2, 1)", "(2, 1) in place of (1, 2)"),
    "dilation ignored": ("dilation taken as (1, 1)", "(1, 1) in place of (2, 2)"),
    "without the relu": ("relu left out", "without relu in line 17"),
    "another factor": ("the second operand taken as 2.0", "2.0 in place of 0.5 in mul"),
}
CONVOLUTION = """
import torch
from torch import nn

batch_size = 4
in_channels = 16
out_channels = 16
height, width = 32, 48

class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation):
        super().__init__()
        sizes = {"stride": stride, "padding": padding, "dilation": dilation}
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, **sizes)

    def forward(self, x):
        return torch.relu(self.conv(x) * 0.5)

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, 3, 2, (1, 2), 2]
"""
# The output has the right size, and reads beyond the end of an input give 0.
CHANGED = """
c, right = self.conv, self.conv(x)
sizes = {{"stride": c.stride, "padding": c.padding, "dilation": c.dilation, {other}}}
y = nn.functional.conv2d(nn.functional.pad(x, (0, 9, 0, 9)), c.weight, c.bias, **sizes)
return torch.relu(y[:, :, : right.shape[2], : right.shape[3]] * 0.5)
"""
CHANGES = {
    "stride ignored": CHANGED.format(other="'stride': 1"),
    "padding ignored": CHANGED.format(other="'padding': 0"),
    "padding changed round": CHANGED.format(other="'padding': c.padding[::-1]"),
    "dilation ignored": CHANGED.format(other="'dilation': 1"),
    "without the relu": "return self.conv(x) * 0.5",
    "another factor": "return torch.relu(self.conv(x) * 2.0)",
}
TWO_NORMS = """
import torch
from torch import nn

batch_size = 4
features = 16
height = 24

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.BatchNorm2d(features)
        self.second = nn.BatchNorm2d(features)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.second(2.0 * x)

def get_inputs():
    return [torch.rand(batch_size, features, height, 5)]

def get_init_inputs():
    return [features]
"""
NORMS = """
def norm(x, n):
    mean, variance = STATISTICS
    shape = (1, -1, 1, 1)
    y = (x - mean.view(shape)) / (variance.view(shape) + n.eps).sqrt()
    return y * n.weight.view(shape) + n.bias.view(shape)
return norm(2.0 * torch.relu(norm(x, self.first)), self.second)
"""
STATISTICS = {
    "training taken as False": "n.running_mean, n.running_var",
    "running statistics": "0.1 * x.mean((0, 2, 3)), 0.9 + 0.1 * x.var((0, 2, 3))",
}
UNNAMED = [("gelu", "by a sigmoid"), ("softmax", "without the last term")]


def seen(name: str, wrong: str, folder: Path) -> list[Seen]:
    """Return wrong outputs of a wrong version of a reference: the first one of each case.

    At most `CASES` cases are returned.
    """
    return seen_of(REFERENCES / f"{name}.py", VERSIONS[name].wrong[wrong], folder)


def seen_of(path: Path, forward: str, folder: Path) -> list[Seen]:
    """Return wrong outputs of a reference whose forward is replaced: the first one of each case.

    At most `CASES` cases are returned.
    """
    reference, other = load(path), version(path, forward, folder)
    # In reverse order, small cases come first, except for the random ones.
    cases = [case for case in reversed(every_case(reference)) if case.label != "random"]
    outputs = (_first_wrong(reference, other, case) for case in cases)
    return [*itertools.islice(filter(None, outputs), CASES)]


def _first_wrong(reference: Problem, other: Problem, case: Case) -> Seen | None:
    """Return the first wrong output of `other` in a case, or None if all outputs are right."""
    at = reference.at(case.constants)
    instance = ModelInstance(other.at(case.constants), case)
    for call in calls_for(at, case):
        values = values_of_call(at, case, call)
        actual = instance(values.weights, values.inputs, torch.float32)
        judged = judge(at, case, call.run, values, actual, torch.device("cpu"))
        if judged.mismatch:
            return Seen(at, case, WrongOutput(call.run, values, actual, None, has_gaps=False))
    return None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param(*each, marks=[pytest.mark.thorough] if each[0] in SLOW else [])
        for each in NAMES
    ],
)
def test_mistakes_of_any_reference_have_names(name: str, wrong: str, tmp_path: Path) -> None:
    """The diagnosis of a wrong version of a reference names the mistake.

    Its advice says in which operand, dimension or line the mistake is.
    """
    diagnosis = guess(seen(name, wrong, tmp_path))
    title, words = NAMES[name, wrong]
    assert diagnosis is not None
    assert diagnosis.name == title
    assert words in diagnosis.advice


@pytest.mark.parametrize("wrong", thorough_but({"padding changed round"}, CHANGES))
def test_mistakes_in_a_call_are_told_with_its_line(wrong: str, tmp_path: Path) -> None:
    """The diagnosis of a wrong argument of one operator names the line of the call."""
    path = tmp_path / "convolution.py"
    path.write_text(CONVOLUTION)
    folder = tmp_path / "version"
    folder.mkdir()
    diagnosis = guess(seen_of(path, CHANGES[wrong], folder))
    title, words = OF_A_CONVOLUTION[wrong]
    assert diagnosis is not None
    assert diagnosis.name == title
    assert words in diagnosis.advice


@pytest.mark.thorough
@pytest.mark.parametrize("name", STATISTICS)
def test_mistake_in_all_layers_of_a_kind_is_named(name: str, tmp_path: Path) -> None:
    """If two batch norms on two lines use the wrong running statistics, there is one diagnosis.

    The wrong statistics are the initial ones, or the ones that the same call has updated.
    """
    path = tmp_path / "norms.py"
    path.write_text(TWO_NORMS)
    folder = tmp_path / "version"
    folder.mkdir()
    forward = NORMS.replace("STATISTICS", STATISTICS[name])
    diagnosis = guess(seen_of(path, forward, folder))
    assert diagnosis is not None
    assert diagnosis.name == name
    assert "in batch_norm in every line of the reference" in diagnosis.advice


@pytest.mark.parametrize(("name", "wrong"), UNNAMED)
def test_what_nothing_explains_has_no_name(name: str, wrong: str, tmp_path: Path) -> None:
    """A wrong output that none of the tried mistakes gives has no diagnosis."""
    assert guess(seen(name, wrong, tmp_path)) is None


def test_a_name_has_to_explain_every_case(tmp_path: Path) -> None:
    """A mistake that does not explain one of the outputs is not the diagnosis."""
    outputs = seen("mse_loss", "half", tmp_path)
    others = seen("mse_loss", "absolute", tmp_path)
    assert guess(outputs) is not None
    assert guess([*outputs, others[-1]]) is None
