"""Why a step of a submission failed, as every process of the harness describes it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.messages.kinds import FaultKind


@dataclass(frozen=True)
class Fault:
    """The reason why a step of a submission failed.

    Attributes:
        kind: Kind of the reason, such as `build` or `refusal`.
        message: The reason in one line.
        detail: The compiler's output, or the traceback within the submission.
        exceeds_grid: True if a launch of the step had more blocks along y or z than a grid has.
    """

    kind: FaultKind
    message: str
    detail: str = ""
    exceeds_grid: bool = False
