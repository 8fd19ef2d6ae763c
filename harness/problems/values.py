"""What a case is run with: the runs, and the inputs and weights of each.

All values are drawn from `torch.Generator`s that are seeded from the case's seed, so a run can be
replayed from the case alone, on any machine: on the CPU, but for inputs of gigabytes, which only a
GPU runs.
"""

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import torch
from torch import Generator, Tensor

from harness.problems.configuration import Configuration
from harness.problems.draws import drawn_alike, is_matrix, touch
from harness.problems.grid import OWN, Case
from harness.problems.instance import ModelInstance
from harness.problems.operations import on_meta
from harness.problems.problem import Problem
from harness.problems.runs import Arrangement, Run, Weights
from harness.problems.sizes import ProblemSizes
from harness.problems.sources import inputs_from, touched_from
from harness.problems.vast import VAST, Vast, vast

RunKind = Literal["first", "again", "touched", "arranged"]

# Of the cases that have a call more of either kind.
_EXTRA_SHARE = 0.15
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Values:
    """Everything that a run needs: weights by their name in `Model`, and the inputs of forward."""

    weights: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Call:
    """One forward call of a case.

    Attributes:
        name: Unique among the case's calls: the run's, or with `again` or `touched` added.
        run: Of which it has the weights and the inputs.
        kind: `again` is the very same values once more; `touched` has one other number among the
            inputs, which nobody sees who looks at a few of them; `arranged` has inputs that lie
            otherwise in memory.
        arrangement: How they lie.
    """

    name: str
    run: Run
    kind: RunKind = "first"
    arrangement: Arrangement = "contiguous"


def runs_for(problem: Problem) -> tuple[Run, ...]:
    """List the runs of each of a problem's cases: those that its reference is defined for."""
    return _runs_for(problem)[0]


def left_out(problem: Problem) -> tuple[str, ...]:
    """Names of the runs whose numbers the reference is not defined for."""
    return _runs_for(problem)[1]


@lru_cache(maxsize=256)
def _runs_for(problem: Problem) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """The runs that a reference is defined for, and the names of the others."""
    small = _cut_down(problem)
    runs = [*_runs_that_differ(problem, small or problem)]
    if small is None:
        return tuple(runs), ()
    at = problem.at(small.constants)
    first, *others = runs
    defined = {run.name: _where_defined(at, small, run) for run in others}
    kept = (run for run in defined.values() if run)
    return (first, *kept), tuple(name for name, run in defined.items() if not run)


def _runs_that_differ(problem: Problem, configuration: Configuration | Problem) -> Iterator[Run]:
    """All of its family, but that with few weights where a model has no more anyway."""
    for run in problem.family.runs:
        if run.weights != "D" or _has_matrices(problem.at(configuration.constants), configuration):
            yield run


def _has_matrices(problem: Problem, configuration: Configuration | Problem) -> bool:
    try:
        with torch.device("meta"):
            return any(map(is_matrix, problem.build(configuration.arguments).parameters()))
    except Exception:  # what a reference cannot do there
        return True


@lru_cache(maxsize=256)
def _cut_down(problem: Problem) -> Configuration | None:
    """A small configuration, to try things out in; None where a family needs none."""
    return next(problem.family.cut_down(ProblemSizes(problem, frozenset(problem.arguments))), None)


def _where_defined(problem: Problem, configuration: Configuration, run: Run) -> Run | None:
    """A run as it is, or with the other numbers that it may have; None if of neither."""
    if _is_defined(problem, configuration, run):
        return run
    other = run.otherwise and replace(run, distribution=run.otherwise)
    return other if other and _is_defined(problem, configuration, other) else None


def _is_defined(problem: Problem, configuration: Configuration, run: Run) -> bool:
    """Whether the reference gives finite numbers, in float32 too, of which nothing is lost.

    One of float16 gives them in float16 as well.
    """
    generator = Generator().manual_seed(0)
    try:
        model = problem.build(configuration.arguments, seed=0)
        weights = problem.family.weights[run.weights](model, configuration, generator)
        make_inputs = partial(problem.make_inputs, 0)
        inputs = inputs_from(make_inputs, run.distribution, generator)
        calls = [ModelInstance(each, configuration) for each in problem.each_output()]
        outputs = [
            call(weights, inputs, dtype)
            for call in calls
            for dtype in {torch.float64, torch.float32, call.output_dtype}
        ]
    except Exception:  # whatever a reference raises on numbers that it does not take
        return False
    return all(bool(output.isfinite().all()) for output in outputs)


def calls_for(problem: Problem, case: Case) -> tuple[Call, ...]:
    """List a case's calls on one instance, in an order that only its seed tells.

    Every run comes once. Some cases have one or two calls more; the problem's own configuration has
    both. A case for its sizes or its layouts alone has one run: what values show, the others tell.
    Exact numbers alone would not do: beside large ones a bias that is missing passes for rounding.
    """
    first_run = runs_for(problem)[0]
    if case.label == "aimed":
        return (Call(first_run.name, first_run),)
    if case.label in ("layout", "vast"):
        ways = problem.family.arrangements if case.label == "layout" else _ways_of_vast(case)
        arranged = (Call(f"{first_run.name} {way}", first_run, "arranged", way) for way in ways)
        return (Call(first_run.name, first_run), *arranged)
    chance = random.Random(_derived_seed(case, "order"))  # noqa: S311 - the seed is the secret
    runs = list(problem.family.bearable(runs_for(problem), case))
    chance.shuffle(runs)
    # For `verdict.describe_wrong_runs`: weights that come first and never again would leave two
    # mistakes alike, and many a mistake is right on an impulse, of which most is 0, or may pass
    # for rounding where inputs are small or large beside the bias.
    first = next(i for i, run in enumerate(runs) if run.weights == "A" and run.is_plain)
    runs[0], runs[first] = runs[first], runs[0]
    calls = [Call(run.name, run) for run in runs]
    is_own = case.label in OWN
    # Of a plain one it is known what arithmetic it takes.
    choices = [run for run in runs if run.is_plain] if is_own else runs
    extra: tuple[tuple[RunKind, Run], ...] = (
        ("touched", runs_for(problem)[0]),
        # The last to be put in: nothing comes between it and its run.
        ("again", chance.choice(choices)),
    )
    for kind, of in extra:
        if chance.random() < _EXTRA_SHARE or is_own:
            after = next(i for i, call in enumerate(calls) if call.name == of.name)
            # The same values at once, so that a cache of only the last answer is found too.
            place = after + 1 if kind == "again" else chance.randint(after + 1, len(calls))
            calls.insert(place, Call(f"{of.name} {kind}", of, kind))
    return tuple(calls)


def _ways_of_vast(case: Case) -> tuple[Arrangement, ...]:
    """Several channels have too many numbers in one way alone that there are addresses for."""
    has_channels = math.prod(case.input_shapes[0][1:-1]) > 1
    return tuple(way for way in VAST if (way == "wide") == has_channels)


def initialisation_seed(case: Case) -> int:
    """Give the `torch.manual_seed` after which `Model`'s own initialisation gives weights A."""
    return _derived_seed(case, "initialisation")


def values_for(
    problem: Problem,
    case: Case,
    run: Run,
    weights: Mapping[str, Tensor] | None = None,
    device: torch.device = _CPU,
) -> Values:
    """Draw a run's weights and inputs.

    Args:
        problem: The reference that the case is of.
        case: One of `cases_for(problem, ...)`.
        run: One of `runs_for(problem)`.
        weights: The run's, where they have been drawn before; drawn anew they are the same.
        device: Where inputs that the reference does not make itself are drawn.

    Returns:
        Weights as in `Model`'s state_dict, CPU tensors; inputs with the case's shapes and dtypes.
    """
    if weights is None:
        weights = weights_for(problem, case, run.weights)
    seed = _inputs_seed(case, run)
    if _are_made(problem, case):
        make_inputs = _making(problem, case, run)
        inputs = inputs_from(make_inputs, run.distribution, Generator().manual_seed(seed))
    else:
        generator = Generator(device).manual_seed(seed)
        inputs = drawn_alike(case, run.distribution, generator, problem.family.largest_exact(case))
    return Values(weights, inputs)


def output_shapes(problem: Problem, case: Case) -> tuple[tuple[int, ...], ...]:
    """Give the shapes of the reference's outputs, on torch's meta device: nothing is computed.

    Raises:
        Exception: Whatever a reference raises that needs values.
    """
    with torch.device("meta"):
        model, arguments = on_meta(problem, case)
        output = model(*arguments)
    return tuple(tuple(each.shape) for each in (output if problem.outputs else [output]))


def elements_of(problem: Problem, case: Case) -> int:
    """How many numbers inputs and outputs have together."""
    inputs = sum(math.prod(shape) for shape in case.input_shapes)
    try:
        return inputs + sum(map(math.prod, output_shapes(problem, case)))
    except Exception:  # A reference that needs values has an output of about its inputs' size.
        return 2 * inputs


def values_of_call(
    problem: Problem,
    case: Case,
    call: Call,
    weights: Mapping[str, Tensor] | None = None,
    device: torch.device = _CPU,
) -> Values:
    """Draw a call's weights and inputs: those of its run, one number of which may be another.

    Of a vast input they are those of its parts. `weights` and `device` as in `values_for`.
    """
    if (parts := vast_of(problem, case, call.arrangement)) is not None:
        shapes = tuple((len(parts.starts), *shape[1:]) for shape in case.input_shapes)
        return values_for(problem, replace(case, input_shapes=shapes), call.run, weights, device)
    values = values_for(problem, case, call.run, weights, device)
    if call.arrangement == "expanded":
        alike = (tensor[:1].expand_as(tensor).contiguous() for tensor in values.inputs)
        return replace(values, inputs=tuple(alike))
    if call.arrangement == "empty":
        return replace(values, inputs=tuple(tensor[:0] for tensor in values.inputs))
    if call.kind != "touched":
        return values
    seed = _derived_seed(case, "touched")
    if _are_made(problem, case):
        make_inputs = _making(problem, case, call.run)
        return replace(values, inputs=touched_from(make_inputs, Generator().manual_seed(seed)))
    generator = Generator(device).manual_seed(seed)
    for tensor in values.inputs:
        touch(tensor, generator)
    return values


def vast_of(problem: Problem, case: Case, arrangement: Arrangement) -> Vast | None:
    """Make a case's input vast; None where the arrangement is none of those."""
    if arrangement not in VAST:
        return None
    (shape,) = case.input_shapes
    longer = replace(case, input_shapes=((*shape[:-1], shape[-1] + 1),))
    output, of_longer = (output_shapes(problem, each)[0] for each in (case, longer))
    return vast(arrangement, shape, output, of_longer[-1] - output[-1])


def _are_made(problem: Problem, case: Case) -> bool:
    """Whether the reference makes a case's inputs: it has them in one set of shapes only."""
    return problem.family.inputs_are_made and case.input_shapes == problem.input_shapes


def _making(problem: Problem, case: Case, run: Run) -> Callable[[], Sequence[Tensor]]:
    return partial(problem.make_inputs, _inputs_seed(case, run))


def _inputs_seed(case: Case, run: Run) -> int:
    return _derived_seed(case, f"inputs {run.name}")


def _derived_seed(case: Case, purpose: str) -> int:
    digest = hashlib.sha256(f"{case.seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6])


def weights_for(problem: Problem, case: Case, which: Weights) -> dict[str, Tensor]:
    """Draw a set of weights: CPU tensors by their name in `Model`'s state_dict.

    What a call of `Model` writes to for the next one is not among them, such as the statistics that
    a batch norm keeps.
    """
    model = problem.build(case.arguments, initialisation_seed(case))
    generator = Generator().manual_seed(_derived_seed(case, f"weights {which}"))
    drawn = problem.family.weights[which](model, case, generator)
    return {name: value for name, value in drawn.items() if name not in _written(problem)}


@lru_cache(maxsize=256)
def _written(problem: Problem) -> frozenset[str]:
    """Names of the buffers that a call of `Model` changes."""
    small = _cut_down(problem)
    at = problem.at(small.constants) if small else problem
    model = at.build(at.arguments, seed=0)
    if not dict(model.named_buffers()):
        return frozenset()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad():
        model(*at.forward_arguments(at.make_inputs(seed=0)))
    after = dict(model.named_buffers())
    return frozenset(name for name, was in before.items() if not torch.equal(was, after[name]))
