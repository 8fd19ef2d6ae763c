"""The inputs of timed calls, and the rounds of a measurement."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from harness.gpu.state import GpuState, Monitor
from harness.problems.problem import load
from harness.problems.runs import Distribution
from harness.problems.values import runs_for
from harness.speed.contender import Contender, Sample
from harness.speed.result import GpuReading
from harness.speed.rounds import Samples, Stage, any_distribution, draw, run_rounds
from tests.support import REFERENCE

PROBLEM = load(REFERENCE / "conv_transpose1d.py")


def test_rounds_have_what_checks_have() -> None:
    """Timed calls get every distribution of inputs that checks use and that fits float16.

    About 80 % of them get the problem's own uniform distribution.
    """
    chance = random.Random(3)  # noqa: S311 - nothing is secret here
    drawn = [any_distribution(PROBLEM, chance) for _ in range(2000)]
    assert set(drawn) == {run.distribution for run in runs_for(PROBLEM) if not run.is_beyond_half}
    assert 0.7 < drawn.count("uniform") / len(drawn) < 0.9


@pytest.mark.parametrize(
    ("distribution", "least", "most"),
    [
        ("uniform", 0, 1),
        ("small", 0, 1e-3),
        ("large", -4e3, 4e3),
        ("positive", 0, 4e3),
        ("bump", 0, 80),
        ("peaks", -8192, 8192),
        ("positive peaks", 0, 8192),
        ("low peaks", 0, 80),
        ("tiny", 0, 1e-12),
        ("exact", -4095, 4095),
    ],
)
def test_values_are_of_their_kind(distribution: Distribution, least: float, most: float) -> None:
    """Inputs of timed calls are in the range of their distribution.

    Inputs of the distribution `exact` are odd integers.
    """
    x = torch.empty(2, 3, 500)
    draw(distribution, x, torch.Generator().manual_seed(1))
    assert x.min() >= least
    assert x.max() <= most
    assert x.abs().max() > most / 2
    assert distribution != "exact" or bool((x % 2 == 1).all())


def test_an_impulse_is_a_single_one() -> None:
    """An impulse, as input of a timed call, has a single 1 and zeros elsewhere."""
    x = torch.full((2, 3, 50), torch.nan)
    draw("impulse", x, torch.Generator().manual_seed(1))
    assert x.sum() == 1
    assert x.count_nonzero() == 1


class _Named:
    """A contender (a timed implementation) whose calls take 1 ms, 2 ms, and so on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls = 0

    def time(
        self, inputs: Sequence[Tensor], *, moved: bool, seconds: float | None = None
    ) -> Sample:
        del inputs, moved, seconds
        self._calls += 1
        return Sample(float(self._calls), torch.empty(0))


class _StageOfNothing(Stage):
    """A `Stage` (the inputs of timed calls) without any tensor, which therefore needs no GPU."""

    def __init__(self) -> None:
        pass

    def time(
        self,
        contender: Contender,
        distribution: Distribution = "uniform",
        seconds: float | None = None,
    ) -> Sample:
        del distribution, seconds
        return contender.time((), moved=False)


class _MonitorOf(Monitor):
    """A monitor of a GPU that returns the given states, one after another."""

    def __init__(self, states: Iterator[GpuState]) -> None:
        self._states = states

    def state(self) -> GpuState:
        return next(self._states)


def test_every_round_has_a_look_at_the_gpu() -> None:
    """A round under thermal throttling is discarded for all contenders.

    A round under a power limit alone is kept. The state of the GPU is stored for every round.
    """
    reasons = [("power limit",), (), ("heat, by the hardware", "power limit"), ()]
    states = [GpuState(1900.0 + at, 500.0, 50.0, held) for at, held in enumerate(reasons)]

    def is_enough(samples: Samples) -> bool:
        return len(samples.looks) == len(states)

    samples = run_rounds(
        _StageOfNothing(), PROBLEM, [_Named("a"), _Named("b")], _MonitorOf(iter(states)),
        lambda *_: None, is_enough, 60.0,
    )  # fmt: skip
    assert samples.looks == [
        GpuReading(1900.0 + at, 500.0, 50.0, held, at != 2) for at, held in enumerate(reasons)
    ]
    assert samples.times == {"a": [1.0, 2.0, 4.0], "b": [1.0, 2.0, 4.0]}
    assert (len(samples.counted), samples.discarded) == (3, 1)
