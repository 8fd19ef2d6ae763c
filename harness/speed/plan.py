"""What is to be measured: plain data, which another process or machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.defaults import SPEED_SECONDS
from harness.evaluate import Request
from harness.messages.kinds import BASELINE_KINDS, BaselineKind
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
        request: Of the first entry's file, which tells what arguments constructors take, on the
            reference: how to build and how long to wait. Its cases are not looked at.
        entries: Who takes part.
        kinds: Which baselines do.
        seconds: For the rounds, at most.
        width: The rounds end when half the 95 % interval of every contender's ratio to the first
            entry is a smaller fraction than this.
    """

    request: Request
    entries: tuple[Entry, ...]
    kinds: tuple[BaselineKind, ...] = BASELINE_KINDS
    seconds: float = SPEED_SECONDS
    width: float = 0.01
