"""The plan of a measurement: plain data that another process or machine can execute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.defaults import SPEED_SECONDS
from harness.evaluate import Request
from harness.messages.kinds import BASELINE_KINDS, BaselineKind
from harness.records.comparison import Precision


@dataclass(frozen=True)
class Entry:
    """A submission that is timed.

    Attributes:
        name: A name that is unique among the contenders.
        path: The submission's file.
        precision: The precision class that the check found. Timed outputs must satisfy its bound.
    """

    name: str
    path: Path
    precision: Precision


@dataclass(frozen=True)
class SpeedPlan:
    """One measurement to make.

    Attributes:
        request: A request for the first entry's file on the reference. The file decides which
            arguments constructors take; the request says how to build and how long to wait. Its
            cases are not used.
        entries: The submissions to time.
        kinds: The kinds of baseline to time.
        seconds: The most time that the rounds may take, in seconds.
        width: Relative precision at which the rounds end. Half the 95 % interval of every
            contender's ratio to the first entry must be a smaller fraction than this.
    """

    request: Request
    entries: tuple[Entry, ...]
    kinds: tuple[BaselineKind, ...] = BASELINE_KINDS
    seconds: float = SPEED_SECONDS
    width: float = 0.01
