"""What is to be measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.evaluate import Request
from harness.messages.kinds import BASELINE_KINDS, BaselineKind
from harness.problems.discovery import Submission
from harness.problems.problem import Problem
from harness.records.comparison import Precision


@dataclass(frozen=True)
class Entry:
    """A submission that takes part.

    Attributes:
        name: Unique among the contenders.
        path: Its file.
        precision: The class that it was found to be of; its outputs are held to it.
    """

    name: str
    path: Path
    precision: Precision


@dataclass(frozen=True)
class SpeedPlan:
    """What is to be measured.

    Attributes:
        problem: The reference.
        submission: As discovered; tells which arguments the constructor takes.
        entries: Who takes part.
        kinds: Which baselines do.
        request: How to build and how long to wait.
        seconds: For the rounds, at most.
        width: The rounds end when half the 95 % interval of every contender's ratio to the first
            entry is a smaller fraction than this.
    """

    problem: Problem
    submission: Submission
    entries: tuple[Entry, ...]
    request: Request
    kinds: tuple[BaselineKind, ...] = BASELINE_KINDS
    seconds: float = 30.0
    width: float = 0.01
