"""What the simulated device has seen go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Check = Literal["memcheck", "initcheck", "racecheck", "synccheck"]
Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From what is only worth knowing to what makes a submission wrong."""


Fault = Literal["illegal address", "misaligned address"]
"""What makes real hardware stop a kernel. A finding does not have to: what lies a few bytes beside
an allocation is memory as well."""


@dataclass(frozen=True)
class Finding:
    """One kind of mistake at one place in the source, made by one or more threads.

    `message` is one plain line about the first thread that made it, named by `block` and `thread`;
    `count` is how many thread accesses were wrong in the same way. `file` and `line` are None where
    the PTX has no line information. `address` is the device address, or the offset into shared or
    local memory.
    """

    check: Check
    message: str
    kernel: str
    file: str | None
    line: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    count: int
    severity: Severity = "error"
