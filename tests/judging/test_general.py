"""Names for mistakes in references of which none are known."""

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
from tests.versions import VERSIONS

REFERENCES = Path(__file__).parent.parent / "references"
# Failing ones; what is told has to hold of all.
CASES = 10

NAMES = {
    ("relu", "identity"): ("input copied", "x as it is"),
    ("relu", "the tail beyond 1024 left out"): ("wrong in one part", "from index 1024 on"),
    ("square_matmul", "without the last term"): ("the last term missing", "a along dimension 1"),
    ("square_matmul", "the second transposed"): ("operand transposed", "of b changed"),
    ("square_matmul", "the result transposed"): ("output transposed", "last two dimensions"),
    ("sum_over_dim", "without the first"): ("the first term missing", "x along dimension 1"),
    ("sum_over_dim", "the first 256 alone"): ("the first block alone", "beyond the first 256"),
    ("mean_over_dim", "sum"): ("a size as a factor", "multiplied by the size of x along"),
    ("mse_loss", "half"): ("output scaled", "0.5 times"),
    ("max_pool2d", "from 0 on"): ("results below 0 lost", "0 for all that is negative"),
    ("cumsum", "chunks of 256 that are not joined"): ("chunks not joined", "Each 256"),
    ("cumsum", "exclusive"): ("output shifted", "one place too late"),
    ("conv1d", "without the bias"): ("weight left out", "zeros in place of conv.bias"),
    ("conv1d", "turned round"): ("weight turned round", "conv.weight"),
    ("conv1d", "without the last tap"): ("part of a weight missing", "along dimension 2"),
    ("scaled_sum", "without y"): ("operand left out", "zeros in place of y"),
    ("scaled_sum", "one row of y for all"): ("one for all", "index 0 of y along dimension 0"),
}
UNNAMED = [("gelu", "by a sigmoid"), ("hardtanh", "tanh"), ("softmax", "without the last term")]


def seen(name: str, wrong: str, folder: Path) -> list[Seen]:
    """The first wrong output of each of some cases that a wrong version fails."""
    path = REFERENCES / f"{name}.py"
    reference, other = load(path), version(path, VERSIONS[name].wrong[wrong], folder)
    # The small ones come last.
    outputs = (_first_wrong(reference, other, case) for case in reversed(every_case(reference)))
    return [*itertools.islice(filter(None, outputs), CASES)]


def _first_wrong(reference: Problem, other: Problem, case: Case) -> Seen | None:
    at = reference.at(case.constants)
    instance = ModelInstance(other.at(case.constants), case)
    for call in calls_for(at, case):
        values = values_of_call(at, case, call)
        actual = instance(values.weights, values.inputs, torch.float32)
        judged = judge(at, case, call.run, values, actual, torch.device("cpu"))
        if judged.mismatch:
            return Seen(at, case, WrongOutput(call.run, values, actual, None, has_gaps=False))
    return None


@pytest.mark.parametrize(("name", "wrong"), NAMES)
def test_mistakes_of_any_reference_have_names(name: str, wrong: str, tmp_path: Path) -> None:
    """What gives every wrong output is told, with the operand and the dimension."""
    diagnosis = guess(seen(name, wrong, tmp_path))
    title, words = NAMES[name, wrong]
    assert diagnosis is not None
    assert diagnosis.name == title
    assert words in diagnosis.advice


@pytest.mark.parametrize(("name", "wrong"), UNNAMED)
def test_what_nothing_explains_has_no_name(name: str, wrong: str, tmp_path: Path) -> None:
    """Of another function nothing is said."""
    assert guess(seen(name, wrong, tmp_path)) is None


def test_a_name_has_to_explain_every_case(tmp_path: Path) -> None:
    """One output that it does not give is enough against it."""
    outputs = seen("mse_loss", "half", tmp_path)
    others = seen("mse_loss", "absolute", tmp_path)
    assert guess(outputs) is not None
    assert guess([*outputs, others[-1]]) is None
