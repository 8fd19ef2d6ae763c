"""Rounds of timed calls: submissions and baselines in random order, each call with new inputs."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from harness.gpu.state import Monitor
from harness.problems.draws import RATHER_LARGER, put_peaks
from harness.problems.problem import Problem
from harness.problems.runs import Distribution
from harness.problems.values import runs_for
from harness.speed.contender import Contender, Sample
from harness.speed.result import GpuReading

# Warm-up ends after this many calls in a row that are not faster than the fastest by more than
# `_STEADY`.
_STEADY_CALLS = 3
_STEADY = 0.01
_MOST_WARM_UPS = 30

# The share of calls whose inputs lie at other addresses than in the call before.
_MOVED_SHARE = 0.5

Verify = Callable[[Contender, Sample], None]


class Stage:
    """The input tensors of timed calls, which get new values before each call.

    The values come from the same distributions as in the correctness check. So a submission cannot
    recognise a timed call by its inputs.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        """Store GPU tensors with the inputs' shapes and dtypes; each timed call overwrites them."""
        self._inputs = inputs
        self._generator = torch.Generator("cuda")
        self._chance = secrets.SystemRandom()

    def time(
        self,
        contender: Contender,
        distribution: Distribution = "uniform",
        seconds: float | None = None,
    ) -> Sample:
        """Time one call of a contender with new input values; raise the contender's errors.

        In about half of the calls, the inputs are at the same addresses as in the call before. A
        submission that caches results by address is wrong in these calls. A submission that still
        reads the earlier address is wrong in all other calls.
        """
        self._generator.manual_seed(secrets.randbits(63))
        for tensor in self._inputs:
            if tensor.dtype.is_floating_point:
                draw(distribution, tensor, self._generator)
            else:
                tensor.random_(0, 2, generator=self._generator)
        moved = self._chance.random() < _MOVED_SHARE
        return contender.time(self._inputs, moved=moved, seconds=seconds)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The input tensors, with the values of the last call."""
        return tuple(self._inputs)


def _impulse(tensor: Tensor, generator: torch.Generator) -> None:
    place = torch.randint(tensor.numel(), (1,), generator=generator, device=tensor.device)
    tensor.zero_().view(-1)[place] = 1.0


def _spike(tensor: Tensor, generator: torch.Generator) -> None:
    tensor.normal_(generator=generator).flatten()[:1] = 100.0


def _bump(tensor: Tensor, generator: torch.Generator) -> None:
    tensor.uniform_(generator=generator).flatten()[:1] = 80.0


_DRAW: Mapping[Distribution, Callable[[Tensor, torch.Generator], object]] = {
    "own": lambda tensor, generator: tensor.uniform_(generator=generator),
    "uniform": lambda tensor, generator: tensor.uniform_(generator=generator),
    "normal": lambda tensor, generator: tensor.normal_(generator=generator),
    "impulse": _impulse,
    "small": lambda tensor, generator: tensor.uniform_(0, 1e-3, generator=generator),
    "large": lambda tensor, generator: tensor.uniform_(-4e3, 4e3, generator=generator),
    "positive": lambda tensor, generator: tensor.uniform_(0, 4e3, generator=generator),
    "tiny": lambda tensor, generator: tensor.uniform_(0, 1e-12, generator=generator),
    "huge": lambda tensor, generator: tensor.uniform_(0, 1e12, generator=generator),
    "ties": lambda tensor, generator: tensor.random_(-2, 3, generator=generator).div_(2),
    "integers": lambda tensor, generator: tensor.random_(-7, 8, generator=generator),
    "spike": _spike,
    **dict.fromkeys(("bump", "zeros", "first zeros", "later zeros"), _bump),
    "peaks": lambda tensor, generator: put_peaks(tensor.normal_(generator=generator), generator),
    "positive peaks": lambda tensor, generator: put_peaks(
        tensor.uniform_(generator=generator), generator
    ).abs_(),
    "low peaks": lambda tensor, generator: put_peaks(
        tensor.uniform_(generator=generator), generator, RATHER_LARGER
    ).abs_(),
    # Odd integers up to 12 bits and a sign.
    "exact": lambda tensor, generator: (
        tensor.random_(-2048, 2048, generator=generator).mul_(2).add_(1)
    ),
}


def draw(distribution: Distribution, tensor: Tensor, generator: torch.Generator) -> None:
    """Fill a floating-point tensor with values from a distribution."""
    _DRAW[distribution](tensor, generator)


# Most rounds use the distribution of the problem's own inputs. Power and clocks may depend on the
# values, so all contenders of a round get the same distribution.
_OTHERS_SHARE = 0.25


def any_distribution(problem: Problem, chance: random.Random) -> Distribution:
    """Return the distribution of a round's inputs: usually uniform, else one chosen at random."""
    if chance.random() >= _OTHERS_SHARE:
        return "uniform"
    # Values that overflow float16 to infinity would not show what a submission computes.
    return chance.choice([r.distribution for r in runs_for(problem) if not r.is_beyond_half])


@dataclass
class Samples:
    """Times and states of the GPU in the rounds so far.

    Attributes:
        times: For the name of each submission or baseline, the milliseconds of each round that was
            not discarded.
        looks: State of the GPU after each round, including discarded rounds.
    """

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    looks: list[GpuReading] = field(default_factory=list)

    @property
    def counted(self) -> list[GpuReading]:
        """The states of the GPU after rounds that were not discarded."""
        return [look for look in self.looks if look.is_counted]

    @property
    def discarded(self) -> int:
        """Number of rounds discarded because the GPU was throttled."""
        return len(self.looks) - len(self.counted)


def warm_up(stage: Stage, contender: Contender, first_call_seconds: float, verify: Verify) -> None:
    """Call a submission or baseline until its times stop falling, at most 30 times."""
    least = math.inf
    steady = calls = 0
    while steady < _STEADY_CALLS and calls < _MOST_WARM_UPS:
        sample = stage.time(contender, seconds=None if calls else first_call_seconds)
        verify(contender, sample)
        calls += 1
        steady = 0 if sample.milliseconds < least * (1 - _STEADY) else steady + 1
        least = min(least, sample.milliseconds)


def run_rounds(
    stage: Stage,
    problem: Problem,
    contenders: Sequence[Contender],
    monitor: Monitor,
    verify: Verify,
    is_enough: Callable[[Samples], bool],
    seconds: float,
) -> Samples:
    """Run rounds of timed calls until `is_enough` returns true or `seconds` have passed.

    A round in which the GPU was throttled is discarded for all contenders.
    """
    samples = Samples()
    order = list(contenders)
    chance = secrets.SystemRandom()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_enough(samples):
        # All contenders are called in each round, in random order. Running one after the other
        # would charge drift of the clock and of temperature to whichever contender comes last.
        chance.shuffle(order)
        distribution = any_distribution(problem, chance)
        taken: dict[str, Sample] = {}
        for contender in order:
            sample = stage.time(contender, distribution)
            verify(contender, sample)
            taken[contender.name] = sample
        state = monitor.state()
        is_counted = not state.is_throttled
        samples.looks.append(GpuReading(**asdict(state), is_counted=is_counted))
        if not is_counted:
            continue
        for name, sample in taken.items():
            samples.times[name].append(sample.milliseconds)
    return samples
