"""A finding: one kind of mistake at one place. The device makes it, and the report shows it."""

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
        check: The check that found it.
        message: One plain line about the first thread that made the mistake.
        kernel: Name of the kernel; empty if the finding is not about a kernel.
        file, line: Place in the source; None if the PTX has no line information.
        block, thread: Indices of the first thread that made the mistake; None without a kernel.
        address: The device address, or the offset into shared or local memory; None without a
            kernel.
        count: Number of accesses of threads that were wrong in the same way.
        severity: Severity of the mistake.
        allocation: Size in bytes of the nearest allocation of device memory; None if the finding is
            not about an allocation.
        offset: Offset of the access from the start of that allocation, in bytes.
        access: Kind of access, such as `load` or `store`; empty if the finding is not about an
            access.
        reach: Lowest and highest offset among the counted accesses that were examined one by one;
            None like `offset`.
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
        """True if the finding makes a submission wrong, whatever its numbers are."""
        return self.severity == "error"
