"""What a case is run with: the runs, and the inputs and weights of each.

All values are drawn on the CPU from `torch.Generator`s that are seeded from the case's seed, so a
run can be replayed from the case alone, on any machine.
"""

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from harness.problems.draws import draw
from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem
from harness.problems.runs import Run, Weights

Kind = Literal["first", "again", "touched"]

# Of the cases that have a call more of either kind.
_EXTRA_SHARE = 0.15


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
            inputs, which nobody sees who looks at a few of them.
    """

    name: str
    run: Run
    kind: Kind = "first"


def runs_for(problem: Problem) -> tuple[Run, ...]:
    """List the runs of each of a problem's cases."""
    return problem.family.runs


def calls_for(problem: Problem, case: Case) -> tuple[Call, ...]:
    """List a case's calls on one instance, in an order that only its seed tells.

    Every run comes once. Some cases have one or two calls more; the problem's own configuration has
    both.
    """
    chance = random.Random(_derived_seed(case, "order"))  # noqa: S311 - the seed is the secret
    runs = list(runs_for(problem))
    chance.shuffle(runs)
    # For `verdict.describe_wrong_runs`: weights that come first and never again would leave two
    # mistakes alike, and many a mistake is right on an impulse, of which most is 0, or may pass
    # for rounding where inputs are small or large beside the bias.
    first = next(i for i, run in enumerate(runs) if run.weights == "A" and run.is_plain)
    runs[0], runs[first] = runs[first], runs[0]
    calls = [Call(run.name, run) for run in runs]
    extra: tuple[tuple[Kind, Run], ...] = (
        ("touched", runs_for(problem)[0]),
        # The last to be put in: nothing comes between it and its run.
        ("again", chance.choice(runs)),
    )
    for kind, of in extra:
        if chance.random() < _EXTRA_SHARE or case.label in OWN:
            after = next(i for i, call in enumerate(calls) if call.name == of.name)
            # The same values at once, so that a cache of only the last answer is found too.
            place = after + 1 if kind == "again" else chance.randint(after + 1, len(calls))
            calls.insert(place, Call(f"{of.name} {kind}", of, kind))
    return tuple(calls)


def initialisation_seed(case: Case) -> int:
    """Give the `torch.manual_seed` after which `Model`'s own initialisation gives weights A."""
    return _derived_seed(case, "initialisation")


def values_for(
    problem: Problem, case: Case, run: Run, weights: Mapping[str, Tensor] | None = None
) -> Values:
    """Draw a run's weights and inputs.

    Args:
        problem: The reference that the case is of.
        case: One of `cases_for(problem, ...)`.
        run: One of `runs_for(problem)`.
        weights: The run's, where they have been drawn before; drawn anew they are the same.

    Returns:
        CPU tensors: weights as in `Model`'s state_dict, inputs with the case's shapes and dtypes.
    """
    if weights is None:
        weights = _weights(problem, case, run.weights)
    generator = Generator().manual_seed(_derived_seed(case, f"inputs {run.name}"))
    inputs = tuple(
        draw(run.distribution, shape, getattr(torch, dtype), generator)
        for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
    )
    return Values(weights, inputs)


def output_shape(problem: Problem, case: Case) -> tuple[int, ...]:
    """Give the shape of the reference's output, on torch's meta device: nothing is computed.

    Raises:
        Exception: Whatever a reference raises that needs values.
    """
    with torch.device("meta"):
        model = problem.model(**case.arguments)
        inputs = [
            torch.empty(shape, dtype=getattr(torch, dtype))
            for shape, dtype in zip(case.input_shapes, case.input_dtypes, strict=True)
        ]
        output = model(*inputs)
    return tuple(output.shape)


def elements_of(problem: Problem, case: Case) -> int:
    """How many numbers inputs and output have together."""
    inputs = sum(math.prod(shape) for shape in case.input_shapes)
    try:
        return inputs + math.prod(output_shape(problem, case))
    except Exception:  # A reference that needs values has an output of about its inputs' size.
        return 2 * inputs


def values_of_call(
    problem: Problem, case: Case, call: Call, weights: Mapping[str, Tensor] | None = None
) -> Values:
    """Draw a call's weights and inputs: those of its run, one number of which may be another.

    `weights` as in `values_for`.
    """
    values = values_for(problem, case, call.run, weights)
    if call.kind == "touched":
        generator = Generator().manual_seed(_derived_seed(case, "touched"))
        for tensor in values.inputs:
            if tensor.numel():
                place = torch.randint(tensor.numel(), (1,), generator=generator)
                flat = tensor.view(-1)
                flat[place] = _another(flat[place])
    return values


def _another(values: Tensor) -> Tensor:
    """Other values than these, of their kind."""
    if values.dtype is torch.bool:
        return ~values
    return (values + 0.5) % 1 if values.is_floating_point() else 1 - values


def _derived_seed(case: Case, purpose: str) -> int:
    digest = hashlib.sha256(f"{case.seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6])


def _weights(problem: Problem, case: Case, which: Weights) -> dict[str, Tensor]:
    model = problem.build(case.arguments, initialisation_seed(case))
    generator = Generator().manual_seed(_derived_seed(case, f"weights {which}"))
    return problem.family.weights[which](model, case, generator)
