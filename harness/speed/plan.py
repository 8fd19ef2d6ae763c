"""The plan of a speed measurement: plain data that can be sent to another process or machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.defaults import SPEED_SECONDS
from harness.evaluate import Request
from harness.messages.kinds import BASELINE_KINDS, BaselineKind
from harness.records.comparison import Precision


@dataclass(frozen=True)
class PlannedSubmission:
    """A submission to be timed.

    Attributes:
        name: A name that no other submission or baseline in the plan has.
        path: The submission's file.
        precision: The precision class (fp32, tf32, bf16, fp16) that the check found. Timed outputs
            must satisfy the error bound of this class.
    """

    name: str
    path: Path
    precision: Precision


@dataclass(frozen=True)
class SpeedPlan:
    """A speed measurement to make.

    Attributes:
        request: A request for the first entry's file on the reference. `ModelNew` in that
            file decides which constructor arguments are passed. The request also has the settings
            of builds and the deadlines. The request's cases are not used.
        entries: The submissions to time.
        kinds: The kinds of baseline to time, such as `eager`.
        seconds: Most seconds that the rounds may take together.
        width: Relative precision at which the rounds end. Each other submission or baseline has a
            ratio of its time to the first entry's. The rounds end once half the 95 % interval of
            every ratio is less than this fraction of the ratio.
    """

    request: Request
    entries: tuple[PlannedSubmission, ...]
    kinds: tuple[BaselineKind, ...] = BASELINE_KINDS
    seconds: float = SPEED_SECONDS
    width: float = 0.01
