"""Rounds of timed calls, contenders in random order, every call with values of its own."""

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
from harness.problems.problem import Problem
from harness.problems.runs import Distribution
from harness.problems.values import runs_for
from harness.speed.contender import Contender, Sample
from harness.speed.result import Look

# Warm-up ends when so many calls in a row bring no time below the least by more than this.
_STEADY_CALLS = 3
_STEADY = 0.01
_MOST_WARM_UPS = 30

# Of the calls, so many have their inputs elsewhere than the call before.
_MOVED_SHARE = 0.5

Verify = Callable[[Contender, Sample], None]


class Stage:
    """The inputs of each call.

    They are drawn from what checked calls are drawn from, so that no look at them tells a timed
    call.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        """Tensors on the GPU, of the inputs' shapes and dtypes, that nobody else uses."""
        self._inputs = inputs
        self._generator = torch.Generator("cuda")
        self._chance = secrets.SystemRandom()

    def time(
        self,
        contender: Contender,
        distribution: Distribution = "uniform",
        seconds: float | None = None,
    ) -> Sample:
        """One call with new inputs; raises as the contender does.

        Half the time they lie where they did: who remembers what came of an address is wrong then,
        and who computes from an earlier one else.
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
        """Of the last call."""
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
    "bump": _bump,
    # Odd integers of 12 bits, and of either sign.
    "exact": lambda tensor, generator: (
        tensor.random_(-2048, 2048, generator=generator).mul_(2).add_(1)
    ),
}


def draw(distribution: Distribution, tensor: Tensor, generator: torch.Generator) -> None:
    """Fill a tensor of floating-point numbers, on the generator's device."""
    _DRAW[distribution](tensor, generator)


# Most rounds are with what the problem itself draws. Power and clocks may depend on the values, so
# all contenders of a round get the same kind.
_OTHERS_SHARE = 0.25


def any_distribution(problem: Problem, chance: random.Random) -> Distribution:
    """What the inputs of a round are drawn from."""
    if chance.random() >= _OTHERS_SHARE:
        return "uniform"
    # What float16 overflows to says nothing of what it computes.
    return chance.choice([r.distribution for r in runs_for(problem) if not r.is_beyond_half])


@dataclass
class Samples:
    """What the rounds gave so far.

    Attributes:
        times: Milliseconds by contender, one for each round.
        looks: At the GPU, one after each round, also after those that were thrown away.
    """

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    looks: list[Look] = field(default_factory=list)

    @property
    def counted(self) -> list[Look]:
        """Those after rounds that count."""
        return [look for look in self.looks if look.is_counted]

    @property
    def discarded(self) -> int:
        """Rounds that were thrown away because the GPU was throttled."""
        return len(self.looks) - len(self.counted)


def warm_up(stage: Stage, contender: Contender, first_call_seconds: float, verify: Verify) -> None:
    """Call until the times stop falling."""
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
    """Rounds until it is enough, or time is up.

    A round in which the GPU was throttled counts for none of the contenders.
    """
    samples = Samples()
    order = list(contenders)
    chance = secrets.SystemRandom()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_enough(samples):
        chance.shuffle(order)
        distribution = any_distribution(problem, chance)
        taken: dict[str, Sample] = {}
        for contender in order:
            sample = stage.time(contender, distribution)
            verify(contender, sample)
            taken[contender.name] = sample
        state = monitor.state()
        is_counted = not state.is_throttled
        samples.looks.append(Look(**asdict(state), is_counted=is_counted))
        if not is_counted:
            continue
        for name, sample in taken.items():
            samples.times[name].append(sample.milliseconds)
    return samples
