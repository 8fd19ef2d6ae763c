"""A finding: one kind of mistake at one place, from where it is found to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceCheck = Literal["memcheck", "initcheck", "racecheck", "synccheck"]
"""Of the simulated device."""
Check = DeviceCheck | Literal["own work", "state"]
"""The others tell whose work it is, and what was done to the process, to inputs and to weights."""
Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From what is only worth knowing to what makes a submission wrong."""


@dataclass(frozen=True)
class Finding:
    """One kind of mistake, made by one or more threads at one place in the source.

    Attributes:
        check: Who found it.
        message: One plain line, about the first thread that made it.
        kernel: In which kernel; empty for what is about no kernel.
        file, line: Where in the source; None where the PTX has no line information.
        block, thread: The first thread that made it; None without a kernel.
        address: The device address, or the offset into shared or local memory; None without a
            kernel.
        count: How many accesses of threads were wrong in the same way.
        severity: How grave it is.
        allocation: Bytes of the allocation of device memory that it is nearest to; None where it is
            about none.
        offset: Of the access from the start of that allocation, in bytes.
        access: What it did there, such as `load` or `store`; empty where it is about no access.
        reach: The lowest and the highest offset among all accesses that it counts, of those that
            were looked at one by one; None as `offset` is.
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
        """Whether it makes a submission wrong, whatever its numbers say."""
        return self.severity == "error"
