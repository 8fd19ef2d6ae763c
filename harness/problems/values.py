"""Runs (forward calls) of a case, and the inputs and weights of each run.

All values come from `torch.Generator`s whose seeds derive from the case's seed. So a run can be
replayed from the case alone, on any machine. The generators are on the CPU, except for inputs of
gigabytes, which are only used on a GPU.
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
from harness.problems.problem import Problem, count_weights
from harness.problems.rounding.propagate import is_used
from harness.problems.runs import Arrangement, Run, Weights
from harness.problems.separate import separate
from harness.problems.sizes import ProblemSizes
from harness.problems.sources import inputs_from
from harness.problems.vast import VAST, Vast, vast

RunKind = Literal["first", "again", "touched", "arranged"]

# The share of cases that get an additional call, for each kind.
_EXTRA_SHARE = 0.15
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class CaseValues:
    """The weights and inputs of a run.

    Attributes:
        weights: Weights by their names in `Model`.
        inputs: Tensor inputs of forward.
    """

    weights: Mapping[str, Tensor]
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Call:
    """One forward call of a case.

    Attributes:
        name: Unique among the case's calls: the run's name, with an addition unless the kind is
            `first`.
        run: The run, which determines the weights and the inputs.
        kind: `first`: the run's values. `again`: the same values once more. `touched`: the same
            values with one number replaced, to find a kernel that caches outputs and compares only
            a few inputs. `arranged`: the same values in another memory layout.
        arrangement: Layout of the inputs in memory.
    """

    name: str
    run: Run
    kind: RunKind = "first"
    arrangement: Arrangement = "contiguous"


def runs_for(problem: Problem) -> tuple[Run, ...]:
    """Return the runs (sets of input values) of a problem's cases.

    Runs on whose inputs the reference fails, or has outputs that are not finite, are left out.
    """
    return _runs_for(problem)[0]


def undefined_runs(problem: Problem) -> tuple[str, ...]:
    """Return the names of the runs (sets of input values) that a problem's cases leave out.

    On their inputs, the reference fails or has outputs that are not finite.
    """
    return _runs_for(problem)[1]


@lru_cache(maxsize=256)
def _runs_for(problem: Problem) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return the runs on whose inputs a reference is defined, and the names of the other runs.

    A reference is defined where all its outputs are finite.
    """
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
    """Yield the family's runs, but runs with sparse weights only if the model has matrices."""
    for run in problem.family.runs:
        if run.weights != "D" or _has_matrices(problem.at(configuration.constants), configuration):
            yield run


def _has_matrices(problem: Problem, configuration: Configuration | Problem) -> bool:
    try:
        with torch.device("meta"):
            return any(map(is_matrix, problem.build(configuration.arguments).parameters()))
    except Exception:  # a reference may not support the meta device
        return True


@lru_cache(maxsize=256)
def _cut_down(problem: Problem) -> Configuration | None:
    """Return a small configuration for trial calls; None if the family cuts down no constants."""
    return next(problem.family.cut_down(ProblemSizes(problem, frozenset(problem.arguments))), None)


def _where_defined(problem: Problem, configuration: Configuration, run: Run) -> Run | None:
    """Return a run with the first of its distributions for which the reference is defined.

    A reference is defined where all its outputs are finite. The result is None if the reference is
    defined for none of the run's distributions.
    """
    others = (replace(run, distribution=each) for each in (run.distribution, *run.otherwise))
    ways = (*_of_all_magnitudes(problem, configuration, run), *others)
    return next((each for each in ways if _is_defined(problem, configuration, each)), None)


def _of_all_magnitudes(problem: Problem, configuration: Configuration, run: Run) -> Iterator[Run]:
    """Yield the run with numbers of all magnitudes, if it has one for such a reference."""
    if not (run.elementwise or run.selecting):
        return
    kind = separate(problem, configuration)
    other = {"elementwise": run.elementwise, "selecting": run.selecting}.get(kind or "")
    if other:
        yield replace(run, name=other, distribution=other)


def _is_defined(problem: Problem, configuration: Configuration, run: Run) -> bool:
    """Return whether the outputs on a run's inputs are finite.

    The reference is called in float64, in float32 and in the dtype of its output. If the inputs
    overflow in float16, the outputs must be floating-point numbers, which show the overflow.
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
    except Exception:  # a reference may raise anything for values that it does not support
        return False
    if run.is_beyond_half and not all(output.is_floating_point() for output in outputs):
        return False
    return all(bool(output.isfinite().all()) for output in outputs)


def calls_for(problem: Problem, case: Case) -> tuple[Call, ...]:
    """Return a case's calls on one instance of `ModelNew`, in an order drawn from the secret seed.

    Every run (set of input values) has one call. Some cases have a further call that repeats a run,
    or one that repeats a run with a number replaced. Cases of the problem's own configuration (the
    sizes in its file) have both. Cases labelled `aimed`, `layout` or `vast` have one run only,
    since the other cases try all runs. This run does not use the distribution `exact`, whose
    numbers are so large that a missing bias could pass for rounding.
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
    # The first call must be plain and have weights A, for `verdict.describe_wrong_runs`. If its
    # weights never came again, two kinds of mistakes would look alike. On an impulse, which is
    # mostly 0, many wrong kernels are right. With inputs that are small or large beside the bias, a
    # mistake may pass for rounding.
    first = next(i for i, run in enumerate(runs) if run.weights == "A" and run.is_plain)
    runs[0], runs[first] = runs[first], runs[0]
    calls = [Call(run.name, run) for run in runs]
    is_own = case.label in OWN
    # The counters of this call are checked too, which needs a plain run: its arithmetic is known.
    choices = [run for run in runs if run.is_plain] if is_own else runs
    extra: tuple[tuple[RunKind, Run], ...] = (
        ("touched", runs_for(problem)[0]),
        # This is inserted last, so that no call comes between it and its run.
        ("again", chance.choice(choices)),
    )
    for kind, of in extra:
        if chance.random() < _EXTRA_SHARE or is_own:
            after = next(i for i, call in enumerate(calls) if call.name == of.name)
            # The same values follow immediately, so that a cache of only the last result is found.
            place = after + 1 if kind == "again" else chance.randint(after + 1, len(calls))
            calls.insert(place, Call(f"{of.name} {kind}", of, kind))
    return tuple(calls)


def _ways_of_vast(case: Case) -> tuple[Arrangement, ...]:
    """Return the arrangements of very large inputs (vast.py) for a case.

    With several channels, the only arrangement is `wide`: all others would exceed the address
    space.
    """
    has_channels = math.prod(case.input_shapes[0][1:-1]) > 1
    return tuple(way for way in VAST if (way == "wide") == has_channels)


def initialisation_seed(case: Case) -> int:
    """Return the torch seed with which `Model` draws its initial weights, the set of weights A."""
    return _derived_seed(case, "initialisation")


def values_for(
    problem: Problem,
    case: Case,
    run: Run,
    weights: Mapping[str, Tensor] | None = None,
    device: torch.device = _CPU,
) -> CaseValues:
    """Return a run's weights and inputs.

    Args:
        problem: The reference of the case.
        case: One of `cases_for(problem, ...)`.
        run: One of `runs_for(problem)`.
        weights: The run's weights if they were drawn before; None to draw them again, with the same
            result.
        device: Device on which inputs are drawn, unless the reference's `get_inputs` makes them.

    Returns:
        Weights as in `Model`'s state_dict, on the CPU; inputs with the case's shapes and dtypes.
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
    return CaseValues(weights, inputs)


def output_shapes(problem: Problem, case: Case) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the reference's outputs, found on the meta device without computation.

    Raises:
        Exception: The reference fails on the meta device, for example because it reads values.
    """
    with torch.device("meta"):
        model, arguments = on_meta(problem, case)
        output = model(*arguments)
    return tuple(tuple(each.shape) for each in (output if problem.outputs else [output]))


def numbers_given(problem: Problem, case: Case) -> int:
    """Return how many elements a case's weights and inputs have, without making the tensors."""
    inputs = sum(map(math.prod, case.input_shapes))
    return inputs + count_weights(problem.model, case.arguments)


def elements_of(problem: Problem, case: Case) -> int:
    """Return how many elements a case's inputs and outputs have.

    If the output shapes cannot be found, the outputs count as having as many elements as the
    inputs.
    """
    inputs = sum(math.prod(shape) for shape in case.input_shapes)
    try:
        return inputs + sum(map(math.prod, output_shapes(problem, case)))
    except Exception:  # the reference needs values; its output is assumed to be of its inputs' size
        return 2 * inputs


def values_of_call(
    problem: Problem,
    case: Case,
    call: Call,
    weights: Mapping[str, Tensor] | None = None,
    device: torch.device = _CPU,
) -> CaseValues:
    """Return a call's weights and inputs: those of its run, changed as the call's kind says.

    For a very large input (vast.py), the inputs are the parts that exist in memory. `weights` and
    `device` are as in `values_for`.
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
        inputs = inputs_from(
            _making(problem, case, call.run),
            call.run.distribution,
            Generator().manual_seed(_inputs_seed(case, call.run)),
            Generator().manual_seed(seed),
        )
        return replace(values, inputs=inputs)
    generator = Generator(device).manual_seed(seed)
    for tensor in values.inputs:
        touch(tensor, generator)
    return values


def vast_of(problem: Problem, case: Case, arrangement: Arrangement) -> Vast | None:
    """Return the shapes and parts of a case's very large input; None for ordinary arrangements."""
    if arrangement not in VAST:
        return None
    (shape,) = case.input_shapes
    # The number of output positions for one input position is found by one more input position.
    longer = replace(case, input_shapes=((*shape[:-1], shape[-1] + 1),))
    output, of_longer = (output_shapes(problem, each)[0] for each in (case, longer))
    return vast(arrangement, shape, output, of_longer[-1] - output[-1])


def _are_made(problem: Problem, case: Case) -> bool:
    """Return whether the reference's `get_inputs` makes a case's inputs.

    `get_inputs` makes inputs in one set of shapes only: those that its file states.
    """
    return problem.family.inputs_are_made and case.input_shapes == problem.input_shapes


def _making(problem: Problem, case: Case, run: Run) -> Callable[[], Sequence[Tensor]]:
    return partial(problem.make_inputs, _inputs_seed(case, run))


def _inputs_seed(case: Case, run: Run) -> int:
    return _derived_seed(case, f"inputs {run.name}")


def _derived_seed(case: Case, purpose: str) -> int:
    digest = hashlib.sha256(f"{case.seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6])


def weights_for(problem: Problem, case: Case, which: Weights) -> dict[str, Tensor]:
    """Return the set of weights called `which`: CPU tensors by their names in the state_dict.

    Buffers that a call of `Model` changes for the next call are left out, such as the running
    statistics of a batch norm.
    """
    model = problem.build(case.arguments, initialisation_seed(case))
    generator = Generator().manual_seed(_derived_seed(case, f"weights {which}"))
    drawn = problem.family.weights[which](model, case, generator)
    return {name: value for name, value in drawn.items() if name not in _written(problem)}


@lru_cache(maxsize=256)
def _written(problem: Problem) -> frozenset[str]:
    """Return the names of the buffers that a call of `Model` changes, found by a trial call."""
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


@lru_cache(maxsize=256)
def unused_weights(problem: Problem) -> frozenset[str]:
    """Return the names of the weights that no output of the reference depends on.

    They are found by a trace of the reference at small sizes. If the reference cannot be traced, no
    weight counts as unused.
    """
    small = _cut_down(problem)
    at = problem.at(small.constants) if small else problem
    try:
        # Without small sizes, inputs may take gigabytes. A trace needs none of their numbers.
        with torch.device("cpu" if small else "meta"):
            weights = dict(at.build(at.arguments, seed=0).state_dict())
            inputs = at.make_inputs(seed=0)
            used = [_used_weights(each, weights, inputs) for each in at.each_output()]
    except Exception:  # a reference may raise anything, and not all can be traced
        return frozenset()
    return frozenset(weights).difference(*used)


def _used_weights(
    problem: Problem, weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> set[str]:
    """Return the names of the weights that a reference's only output depends on."""
    traced = ModelInstance(problem, problem).traced(weights, inputs)
    # The first arguments of the graph are the weights.
    return {name for name, is_one in zip(weights, is_used(traced.graph), strict=False) if is_one}
