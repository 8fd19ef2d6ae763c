"""What a case is run with: the runs, and the inputs and weights of each.

All values are drawn on the CPU from `torch.Generator`s that are seeded from the case's seed, so a
run can be replayed from the case alone, on any machine.
"""

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from harness.problems.grid import OWN, Case
from harness.problems.problem import Problem

Distribution = Literal["uniform", "normal", "impulse", "small", "large", "exact"]
Weights = Literal["A", "B", "C"]
Kind = Literal["first", "again", "touched"]

# Of the cases that have a call more of either kind.
_EXTRA_SHARE = 0.15

_EXACT_TERMS = 4096
_EXACT_LOWEST = 2049
_EXACT_HIGHEST = 4095


@dataclass(frozen=True)
class Run:
    """One forward call.

    Attributes:
        name: Unique among a case's runs.
        distribution: What the inputs are drawn from.
        weights: Which set of weights; a change of set means new weights in the same instance.
    """

    name: str
    distribution: Distribution
    weights: Weights

    @property
    def is_exact(self) -> bool:
        """Whether float32 computes every output without rounding, in any order of summation."""
        return self.distribution == "exact"

    @property
    def is_dense(self) -> bool:
        """Whether every input matters: nearly all of an impulse's are 0."""
        return self.distribution != "impulse"

    @property
    def is_plain(self) -> bool:
        """Whether every term of a sum shows: none is 0, or small beside others such as the bias."""
        return self.distribution in ("uniform", "normal")


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


# Weights that come back, and new inputs in the same storage, find a submission that still uses
# what it made of an earlier run's.
_CONVOLUTION_RUNS = (
    Run("uniform", "uniform", "A"),
    Run("normal", "normal", "A"),
    Run("impulse", "impulse", "A"),
    Run("small", "small", "A"),
    Run("large", "large", "A"),
    Run("exact", "exact", "B"),
    Run("changed", "uniform", "C"),
)
# Of another reference only the range [0, 1) is sure to lie in its domain.
_OTHER_RUNS = (
    Run("uniform", "uniform", "A"),
    Run("again", "uniform", "A"),
    Run("changed", "uniform", "C"),
)


def runs_for(problem: Problem) -> tuple[Run, ...]:
    """List the runs of each of a problem's cases."""
    return _CONVOLUTION_RUNS if problem.is_transposed_convolution else _OTHER_RUNS


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
        _draw(run.distribution, shape, getattr(torch, dtype), generator)
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
                is_float = tensor.is_floating_point()
                flat[place] = (flat[place] + 0.5) % 1 if is_float else 1 - flat[place]
    return values


def _derived_seed(case: Case, purpose: str) -> int:
    digest = hashlib.sha256(f"{case.seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6])


def _weights(problem: Problem, case: Case, which: Weights) -> dict[str, Tensor]:
    model = problem.build(case.arguments, initialisation_seed(case))
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    generator = Generator().manual_seed(_derived_seed(case, f"weights {which}"))
    if which == "B":
        return {
            name: _exact_weight(value, case, generator)
            if name.endswith("weight")
            else _exact(tuple(value.shape), generator)
            for name, value in weights.items()
        }
    if which == "C":
        # Another initialisation may be the same, such as a norm's ones: so these are moved away.
        for name, _ in model.named_parameters():
            weights[name] += 0.1 * torch.rand(weights[name].shape, generator=generator)
    return weights


def _exact_weight(like: Tensor, case: Case, generator: Generator) -> Tensor:
    """Draw from {-1, 0, 1}, at most 4095 of them nonzero in each output's sum, and at least one.

    With inputs and bias of at most 4095 in absolute value, 4096 terms sum to less than 2**24:
    every partial sum is an integer that float32 holds.

    Args:
        like: The weight (in_channels, out_channels / groups, kernel_size).
        case: Its case.
        generator: Where the values come from.
    """
    groups = case.convolution.groups
    channels, outputs, taps = like.shape[0] // groups, like.shape[1], like.shape[2]
    shape = (groups, outputs, channels * taps)
    values = torch.randint(-1, 2, shape, generator=generator)
    # Rank the terms of each output channel at random; those beyond the allowed number are zero.
    rank = torch.rand(shape, generator=generator).argsort(-1).argsort(-1)
    values = torch.where(rank >= _EXACT_TERMS - 1, 0, values)
    values = torch.where((rank == 0) & (values == 0), 1, values)
    by_output = values.view(groups, outputs, channels, taps)
    return by_output.transpose(1, 2).reshape(like.shape).to(torch.float32)


def _draw(
    distribution: Distribution, shape: tuple[int, ...], dtype: torch.dtype, generator: Generator
) -> Tensor:
    if not dtype.is_floating_point:
        # 0 and 1 are valid as a class, an index and a truth value alike.
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    return _DISTRIBUTIONS[distribution](shape, generator).to(dtype)


def _uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator)


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Values of both signs, whose products cancel in the sums."""
    return torch.randn(shape, generator=generator)


def _impulse(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """A single 1 at a random place: the output is one column of weights, and else the bias."""
    values = torch.zeros(shape)
    place = torch.randint(values.numel(), (1,), generator=generator)
    values.view(-1)[place] = 1.0
    return values


def _small(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return _uniform(shape, generator) * 1e-3


def _large(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return _uniform(shape, generator) * 1e3


def _exact(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Odd integers of 12 bits and either sign: TF32 and float16 hold 11 bits, and round them."""
    steps = (_EXACT_HIGHEST - _EXACT_LOWEST) // 2 + 1
    odd = _EXACT_LOWEST + 2 * torch.randint(0, steps, shape, generator=generator)
    sign = 2 * torch.randint(0, 2, shape, generator=generator) - 1
    return (odd * sign).to(torch.float32)


_DISTRIBUTIONS: Mapping[Distribution, Callable[[tuple[int, ...], Generator], Tensor]] = {
    "uniform": _uniform,
    "normal": _normal,
    "impulse": _impulse,
    "small": _small,
    "large": _large,
    "exact": _exact,
}
