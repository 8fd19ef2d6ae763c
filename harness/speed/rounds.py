"""Rounds of timed calls, contenders in random order, every call with values of its own."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.gpu.driver import Driver
from harness.gpu.recording import works
from harness.gpu.state import Monitor, State
from harness.problems.problem import Problem
from harness.problems.runs import Distribution
from harness.problems.values import runs_for
from harness.speed.contender import Contender, Sample
from harness.worker.shared import Exported, any_place

# Warm-up ends when so many calls in a row bring no time below the least by more than this.
_STEADY_CALLS = 3
_STEADY = 0.01
_MOST_WARM_UPS = 30

# Times of a cache's size that are read and written to empty it.
_FLUSHES = 2

# Of the calls, so many have their inputs elsewhere than the call before.
_MOVED_SHARE = 0.5
# Of the calls of warm-up, so many have their kernels recorded.
_RECORDED_SHARE = 0.5

Verify = Callable[[Contender, Sample], None]


class Stage:
    """The GPU and the shared tensors; sees to it that every call finds the same conditions.

    Inputs are drawn from what checked calls are drawn from, so that no look at them tells a timed
    call.
    """

    def __init__(self, driver: Driver, shared: Exported) -> None:
        self._driver = driver
        self._shared = shared
        self.places = [0] * len(shared.tensors)
        self.inputs = shared.tensors[:-1]
        self.output = shared.tensors[-1]
        self._kept = [tensor.clone() for tensor in self.inputs]
        self._generator = torch.Generator("cuda")
        self._chance = secrets.SystemRandom()
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._flush = torch.zeros(_FLUSHES * cache, dtype=torch.uint8, device="cuda")

    def set(self, distribution: Distribution = "uniform") -> None:
        """New inputs, an output that nothing wrote, a cold L2 cache, an idle device.

        Half the time the inputs lie where they did: who remembers what came of an address is
        wrong then, and who computes from an earlier one else.
        """
        if self._chance.random() < _MOVED_SHARE:
            self.places = [*(any_place() for _ in self.inputs), 0]
            self.inputs = self._shared.at(self.places)[:-1]
        self._generator.manual_seed(secrets.randbits(63))
        for tensor, kept in zip(self.inputs, self._kept, strict=True):
            if tensor.dtype.is_floating_point:
                draw(distribution, tensor, self._generator)
            else:
                tensor.random_(0, 2, generator=self._generator)
            kept.copy_(tensor)
        self.output.fill_(math.nan)
        self._driver.forget_persisting_lines()
        self._flush.add_(1)
        torch.cuda.synchronize()

    def is_changed(self) -> bool:
        """Whether the inputs are no more what they were set to."""
        pairs = zip(self.inputs, self._kept, strict=True)
        return not all(torch.equal(tensor, kept) for tensor, kept in pairs)


def _impulse(tensor: Tensor, generator: torch.Generator) -> None:
    place = torch.randint(tensor.numel(), (1,), generator=generator, device=tensor.device)
    tensor.zero_().view(-1)[place] = 1.0


def _spike(tensor: Tensor, generator: torch.Generator) -> None:
    tensor.normal_(generator=generator).flatten()[:1] = 100.0


_DRAW: Mapping[Distribution, Callable[[Tensor, torch.Generator], object]] = {
    "own": lambda tensor, generator: tensor.uniform_(generator=generator),
    "uniform": lambda tensor, generator: tensor.uniform_(generator=generator),
    "normal": lambda tensor, generator: tensor.normal_(generator=generator),
    "impulse": _impulse,
    "small": lambda tensor, generator: tensor.uniform_(0, 1e-3, generator=generator),
    "large": lambda tensor, generator: tensor.uniform_(0, 1e3, generator=generator),
    "tiny": lambda tensor, generator: tensor.uniform_(0, 1e-12, generator=generator),
    "huge": lambda tensor, generator: tensor.uniform_(0, 1e12, generator=generator),
    "ties": lambda tensor, generator: tensor.random_(-2, 3, generator=generator).div_(2),
    "integers": lambda tensor, generator: tensor.random_(-7, 8, generator=generator),
    "spike": _spike,
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
        idles: How much later the whole device was idle, likewise.
        waits: How long the answer took, by this side's clock, likewise.
        discarded: Rounds that were thrown away because the GPU was throttled.
        states: A look at the GPU after each round.
    """

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    idles: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    discarded: int = 0
    states: list[State] = field(default_factory=list)


def warm_up(stage: Stage, contender: Contender, first_call_seconds: float, verify: Verify) -> None:
    """Call until the times stop falling."""
    chance = secrets.SystemRandom()
    least = math.inf
    steady = calls = 0
    while steady < _STEADY_CALLS and calls < _MOST_WARM_UPS:
        stage.set()
        sample = contender.time(
            stage.places,
            None if calls else first_call_seconds,
            recorded=works() and (not calls or chance.random() < _RECORDED_SHARE),
        )
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
            stage.set(distribution)
            sample = contender.time(stage.places)
            verify(contender, sample)
            taken[contender.name] = sample
        state = monitor.state()
        if state.is_throttled:
            samples.discarded += 1
            continue
        samples.states.append(state)
        for name, sample in taken.items():
            samples.times[name].append(sample.milliseconds)
            samples.idles[name].append(sample.idle_ms)
            samples.waits[name].append(sample.waited_ms)
    return samples
