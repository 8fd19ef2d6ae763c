"""Findings: mistakes that the device detects while kernels run, such as an access out of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceCheck = Literal["memcheck", "initcheck", "racecheck", "synccheck"]
"""The checks of the simulated device."""
Check = DeviceCheck | Literal["own work", "state"]
"""All checks.

`own work` checks that the submission's own kernels do the work. `state` checks changes to the
process, the inputs and the weights.
"""
Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""Severities, from information to an error that makes a submission wrong."""


@dataclass(frozen=True)
class Finding:
    """One kind of mistake, made by one or more threads at one place in the source.

    Attributes:
        check: The sanitizer or integrity check that found the mistake.
        message: One plain line about the first thread that made the mistake.
        kernel: Name of the kernel; empty if the finding is not about a kernel.
        file, line: Source file and line of the mistake; None if the PTX has no line information.
        block, thread: Indices of the first thread that made the mistake; None without a kernel.
        address: The device address, or the offset into shared or local memory; None without a
            kernel.
        count: Number of accesses (one for each thread) that were wrong in the same way.
        severity: `info`, `warning` or `error`; only an `error` makes the submission fail.
        allocation: Size in bytes of the nearest allocation of device memory; None if the finding is
            not about an allocation.
        offset: Offset of the access from the start of that allocation, in bytes.
        access: Kind of access, such as `load` or `store`; empty if the finding is not about an
            access.
        reach: Lowest and highest value of `offset` among the counted accesses that were examined
            one by one; None if `offset` is None.
    """

    check: Check
    message: str
    kernel: str = ""
    file: str | None = None
    line: int | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None
    count: int = 1
    severity: Severity = "error"
    allocation: int | None = None
    offset: int | None = None
    access: str = ""
    reach: tuple[int, int] | None = None

    @property
    def is_failing(self) -> bool:
        """True if the finding makes the submission fail even if all outputs are right."""
        return self.severity == "error"
