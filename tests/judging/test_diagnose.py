"""The diagnosis of transposed convolutions by known mistakes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Self

import pytest
import torch
from torch import Tensor

from harness.judging.diagnose import Diagnosis, WrongRun
from harness.judging.diagnose import diagnose as search
from harness.judging.oracle import CLASSES
from harness.problems.bounds import gamma
from harness.problems.discovery import ConstructorParameter, Kind, Submission
from harness.problems.families.conv_transpose1d.computation import Gather
from harness.problems.families.conv_transpose1d.mistakes import MISTAKES
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.grid import Case, cases_for
from harness.problems.mistakes import Computation, Mistake
from harness.problems.problem import load
from harness.problems.values import runs_for, values_for
from tests.support import REFERENCE

# Larger cases take long for each mistake and show nothing that smaller ones do not.
MOST_WORK = 100_000
ANY = Submission(
    "kernel",
    Path("kernel.py"),
    "0" * 64,
    (ConstructorParameter("rest", Kind.VAR_KEYWORD, required=False),),
)


def diagnose(runs: Sequence[WrongRun], passed: Sequence[Computation] = ()) -> Diagnosis | None:
    """Return the diagnosis of wrong outputs by the known mistakes of a transposed convolution."""
    return search(runs, MISTAKES, passed)


def operands_of(case: Case, name: str) -> Gather:
    """Return a case's transposed convolution, with the weights and inputs of one run."""
    problem = load(REFERENCE / f"{name}.py")
    values = values_for(problem, case, runs_for(problem)[1])
    weight = values.weights["conv1d_transpose.weight"]
    bias = values.weights.get("conv1d_transpose.bias")
    return Gather.of(Convolution.of(case), values.inputs[0], weight, bias)


@dataclass(frozen=True)
class Right:
    """The right output of a case.

    Attributes:
        operands: The case's operands.
        output: The output in float64.
        bound: The error bound of the loosest class.
    """

    operands: Gather
    output: Tensor
    bound: Tensor

    @classmethod
    def of(cls, operands: Gather) -> Self:
        """Compute the right output from operands, and the output's error bound."""
        terms = operands.weight.shape[0] * operands.weight.shape[2] + 1.0
        rounding = 3.1 * CLASSES[-1].roundoff + gamma(torch.tensor(terms), 2.0**-22)
        bound = rounding * operands.absolute().output() + 1e-6
        return cls(operands, operands.output(), bound)


@pytest.fixture(scope="module")
def grid() -> list[Gather]:
    """Return the operands of the small cases of two references.

    Together, the two references have every parameter of a transposed convolution.
    """
    found = []
    for name in ("conv_transpose1d", "conv_transpose1d_strided_dilated"):
        cases = cases_for(load(REFERENCE / f"{name}.py"), ANY)
        small = [case for case in cases if Convolution.of(case).work <= MOST_WORK]
        found += [operands_of(case, name) for case in small]
    return found


@pytest.fixture(scope="module")
def rights(grid: list[Gather]) -> list[Right]:
    """Return the right outputs of the grid's cases."""
    return list(map(Right.of, grid))


def wrong_runs(rights: list[Right], mistake: Mistake[Gather]) -> list[WrongRun]:
    """Return the outputs that a mistake makes wrong by more than the loosest class's bound."""
    made = [(right, mistake.compute(right.operands)) for right in rights]
    return [
        # NaN stands for a read out of bounds. The device reports such elements as written.
        WrongRun(right.operands, output.float(), _none(output) if output.isnan().any() else None)
        for right, output in made
        if not bool(((output - right.output).abs() <= right.bound).all())
    ]


def _none(output: Tensor) -> Tensor:
    """Return a mask that says that every element of an output was written."""
    return torch.zeros_like(output, dtype=torch.bool)


@pytest.fixture(scope="module")
def wrong(rights: list[Right]) -> dict[str, list[WrongRun]]:
    """Return, by the name of each mistake, the wrong outputs of a float32 kernel that makes it."""
    return {mistake.name: wrong_runs(rights, mistake) for mistake in MISTAKES}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_is_diagnosed_as_itself(
    rights: list[Right], wrong: dict[str, list[WrongRun]], mistake: Mistake[Gather]
) -> None:
    """All wrong outputs of a known mistake give that mistake as diagnosis, without alternatives."""
    runs = wrong[mistake.name]
    assert runs, "no case of the grid shows this mistake"
    shown = {id(run.right) for run in runs}
    passed = [right.operands for right in rights if id(right.operands) not in shown]
    expected = Diagnosis(mistake.name, mistake.advice, made=(mistake,))
    assert diagnose(runs, passed) == expected


def test_outputs_of_no_products_are_told_as_that(rights: list[Right]) -> None:
    """Outputs that contain only the bias are diagnosed as `bias alone`.

    With a stride of 1, an inverted divisibility test gives the same outputs and is an alternative.
    """
    of_stride_1 = [right for right in rights if right.operands.sizes.stride == 1]
    nothing = next(mistake for mistake in MISTAKES if mistake.name == "bias alone")
    diagnosis = diagnose(wrong_runs(of_stride_1, nothing))
    assert diagnosis is not None
    assert diagnosis.name == "bias alone"
    assert "divisibility test inverted" in diagnosis.alternatives


def test_mistake_that_would_have_shown_elsewhere_is_told_with_that(rights: list[Right]) -> None:
    """If a mistake would also show in passed cases, the diagnosis names it and says so.

    The kernel may make the mistake on only one of two paths.
    """
    flipped = next(mistake for mistake in MISTAKES if mistake.name == "kernel flipped")
    one, *others = wrong_runs(rights, flipped)
    passed = [run.right for run in others]
    diagnosis = diagnose([one], passed)
    assert diagnosis is not None
    assert diagnosis.name == flipped.name
    assert "cases that passed" in diagnosis.advice


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_one_wrong_case_is_enough_to_be_among_the_named(
    wrong: dict[str, list[WrongRun]], mistake: Mistake[Gather]
) -> None:
    """From the smallest wrong case alone, a mistake is the diagnosis or one of the alternatives."""
    run = min(wrong[mistake.name], key=lambda r: r.right.work)
    diagnosis = diagnose([run])
    assert diagnosis is not None
    named = (diagnosis.name, *diagnosis.alternatives)
    # The diagnosis `elements not written` for missing values is as helpful.
    assert mistake.name in named or diagnosis.name == "elements not written"


def outputs_of(rights: list[Right], names: tuple[str, ...]) -> list[WrongRun]:
    """Return the wrong outputs of a float32 kernel that makes several mistakes at once."""
    made = [mistake for mistake in MISTAKES if mistake.name in names]
    assert len(made) == len(names)

    def make(right: Gather) -> Gather:
        return reduce(lambda changed, mistake: mistake.change(changed), made, right)

    return wrong_runs(rights, Mistake("", "", make))


@pytest.mark.parametrize(
    "names",
    [
        ("kernel flipped", "weight read as [out, in, k]"),
        ("padding applied twice", "kernel flipped"),
        ("no divisibility test", "bias ignored"),
        ("stride ignored", "output written as [batch, length, channels]"),
        ("padding applied twice", "kernel flipped", "weight read as [out, in, k]"),
        ("dilation ignored", "last input position left out", "bias added twice"),
    ],
    ids=" and ".join,
)
def test_mistakes_made_at_once_are_all_named(rights: list[Right], names: tuple[str, ...]) -> None:
    """Two or three mistakes are named together if no single one explains the outputs."""
    diagnosis = diagnose(outputs_of(rights, names))
    assert diagnosis is not None
    assert diagnosis.name == " and ".join(names)
    assert diagnosis.advice.count(".") >= len(names)


def test_several_mistakes_are_not_read_into_one_output(rights: list[Right]) -> None:
    """A combination of two mistakes is not diagnosed from a single small output."""
    runs = outputs_of(rights, ("kernel flipped", "weight read as [out, in, k]"))
    one = min(runs, key=lambda run: run.right.work)
    diagnosis = diagnose([one])
    assert diagnosis is None or diagnosis.name in {mistake.name for mistake in MISTAKES}


@pytest.mark.parametrize("seed", range(4))
def test_what_no_mistakes_give_has_no_diagnosis(grid: list[Gather], seed: int) -> None:
    """Random outputs have no diagnosis: no combination of known mistakes fits them."""
    generator = torch.Generator().manual_seed(seed)
    runs = []
    for right in grid[seed :: len(grid) // 4]:
        output = right.output()
        noise = torch.randn(output.shape, generator=generator)
        # Odd seeds give noise; even ones scale some elements, as an unknown mistake would.
        wrong = noise if seed % 2 else output * (1 + 0.1 * (noise > 1))
        runs.append(WrongRun(right, wrong.float()))
    assert diagnose(runs) is None


def test_unknown_mistake_has_no_diagnosis(grid: list[Gather]) -> None:
    """A wrong output that no known mistake gives has no diagnosis."""
    operands = grid[3]
    noise = operands.output() * 1.5 + 0.3
    assert diagnose([WrongRun(operands, noise.float())]) is None


def test_mistake_must_explain_every_run(wrong: dict[str, list[WrongRun]]) -> None:
    """Two runs with different mistakes have no common diagnosis."""
    one = wrong["kernel flipped"][0]
    other = wrong["bias ignored"][0]
    assert diagnose([one]) is not None
    assert diagnose([other]) is not None
    assert diagnose([one, other]) is None


def test_nothing_wrong_nothing_said() -> None:
    """Without wrong outputs, there is no diagnosis."""
    assert diagnose([]) is None


def big(grid: list[Gather]) -> Gather:
    """Return the grid's case with the longest output."""
    return max(grid, key=lambda o: o.sizes.output_length)


@pytest.mark.parametrize("blank", [0.0, float("nan")])
def test_tail_of_positions_not_written(grid: list[Gather], blank: float) -> None:
    """If all elements from a position on are 0 or NaN, the diagnosis names that position."""
    operands = big(grid)
    actual = operands.output().float()
    actual[..., 256:] = blank
    diagnosis = diagnose([WrongRun(operands, actual)])
    assert diagnosis is not None
    assert diagnosis.name == "elements not written"
    assert f"from position 256 of {operands.sizes.output_length} on" in diagnosis.advice


def test_tail_of_the_flat_output_not_written(grid: list[Gather]) -> None:
    """If the end of the flat output is 0, the diagnosis names the first element of that end.

    A CUDA grid that is too small for batch * channels * length leaves such zeros.
    """
    operands = next(o for o in grid if o.sizes.batch == 3 and o.sizes.output_length > 9)
    actual = operands.output().float().contiguous()
    actual.view(-1)[-10:] = 0.0
    diagnosis = diagnose([WrongRun(operands, actual)])
    assert diagnosis is not None
    assert f"from element {actual.numel() - 10} of {actual.numel()} on" in diagnosis.advice


def test_tails_of_several_outputs_are_told_by_the_first(grid: list[Gather]) -> None:
    """If outputs have different unwritten ends, the diagnosis describes the end of the first."""
    runs: list[WrongRun] = []
    for operands in [o for o in grid if o.sizes.batch == 3 and o.sizes.output_length > 9][:2]:
        actual = operands.output().float().contiguous()
        actual.view(-1)[-10 - len(runs) :] = 0.0
        runs.append(WrongRun(operands, actual))
    diagnosis = diagnose(runs)
    assert diagnosis is not None
    numel = runs[0].actual.numel()
    assert f"from element {numel - 10} of {numel} on" in diagnosis.advice


def test_elements_that_somebody_wrote_are_not_called_unwritten(grid: list[Gather]) -> None:
    """If writes are recorded, a NaN in a written element is not diagnosed as unwritten."""
    operands = big(grid)
    actual = operands.output().float()
    actual[..., 256:] = torch.nan
    none = torch.zeros_like(actual, dtype=torch.bool)
    assert diagnose([WrongRun(operands, actual, unwritten=none)]) is None
    told = diagnose([WrongRun(operands, actual, unwritten=actual.isnan())])
    assert told is not None
    assert told.name == "elements not written"


def test_output_of_which_nothing_is_written_is_told_as_that(grid: list[Gather]) -> None:
    """An output without any writes is diagnosed as `nothing written`.

    An output of zeros gets another diagnosis if there is no record of writes.
    """
    o = big(grid)
    nothing = torch.zeros_like(o.output().float())
    told = diagnose([WrongRun(o, nothing, unwritten=torch.ones_like(nothing, dtype=torch.bool))])
    assert told is not None
    assert told.name == "nothing written"
    guessed = diagnose([WrongRun(o, nothing)])
    assert guessed is not None
    assert guessed.name != "nothing written"


def test_holes_are_not_called_a_tail(grid: list[Gather]) -> None:
    """Unwritten elements in the middle are diagnosed as being in several places."""
    operands = big(grid)
    actual = operands.output().float()
    actual[..., 5:9] = 0.0
    diagnosis = diagnose([WrongRun(operands, actual)])
    assert diagnosis is not None
    assert "in several places" in diagnosis.advice
