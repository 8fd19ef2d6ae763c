"""The limit on the simulated work of one call of a submission.

A budget is needed because simulation takes a thousand times as long as a GPU. Work is counted in
simulated instructions and not in seconds. So the limit does not depend on the machine: a call is
stopped either on every machine or on none.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

# The simulator executes an instruction for many threads at once. Issuing it takes about as long as
# executing it for this many threads.
_OF_AN_INSTRUCTION = 4096
_OF_A_LAUNCH = 1 << 20
"""The work of a launch besides its instructions."""


def work_of(thread_instructions: int, issued: int) -> int:
    """Return the simulator's effort for executing instructions, in thread-instructions.

    One unit is the effort for one instruction of one thread in a large launch.

    Args:
        thread_instructions: Executed instructions, summed over threads.
        issued: Executed instructions, each counted once for all threads that execute it together.
    """
    return thread_instructions + _OF_AN_INSTRUCTION * issued


class OverBudget(RuntimeError):
    """A call of a submission exceeds its budget.

    Attributes:
        work: The work that the call had done by then, in thread-instructions (see `work_of`).
    """

    def __init__(self, work: int, why: str = "") -> None:
        self.work = work
        super().__init__(why or f"more than {work / 1e9:.1f} G thread-instructions")


@dataclass
class Budget:
    """The budget of one call of a submission; work is in thread-instructions (see `work_of`).

    Attributes:
        limit: The most work of the call; None for no limit.
        spent: The work of the call's launches that have ended.
        most_resident: The limit of this process's peak memory in bytes; None for no limit. The
            limit stops a kernel that touches too many pages of a sparse allocation, which takes
            memory only for touched pages.
    """

    limit: int | None = None
    spent: int = 0
    most_resident: int | None = None

    def check(self, under_way: int) -> None:
        """Check that the call is within its budget while a launch is running.

        Args:
            under_way: The work of the running launch so far.

        Raises:
            OverBudget: The call has done too much work, or the process has used too much memory.
        """
        if self.limit is not None and self.spent + under_way > self.limit:
            raise OverBudget(self.spent + under_way)
        if self.most_resident is not None and resident_bytes() > self.most_resident:
            raise OverBudget(
                self.spent + under_way, "more memory touched than a sparse tensor may have"
            )

    def spend(self, work: int) -> None:
        """Add the work of a launch that has ended, plus a fixed amount for the launch itself.

        Raises:
            OverBudget: The call has exceeded its budget.
        """
        self.check(work)
        self.spent += work + _OF_A_LAUNCH


def resident_bytes() -> int:
    """Return the peak of this process's resident memory in bytes, including shared memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
