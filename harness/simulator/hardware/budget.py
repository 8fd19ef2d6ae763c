"""How much work a call may be: simulating takes a thousand times as long as a GPU does.

What is counted is the simulator's own effort, so that the same kernel on the same sizes is within
its budget, or beyond it, on every machine.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

# An instruction takes about so long for one thread more, and so much longer for the first.
_OF_AN_INSTRUCTION = 4096
_OF_A_LAUNCH = 1 << 20


def work_of(thread_instructions: int, issued: int) -> int:
    """What executing instructions takes, in thread-instructions of a large launch.

    Args:
        thread_instructions: Summed over threads.
        issued: Each once for all threads that ran it together.
    """
    return thread_instructions + _OF_AN_INSTRUCTION * issued


class OverBudget(RuntimeError):
    """A call does more than it may.

    Attributes:
        work: What it had done by then.
    """

    def __init__(self, work: int, why: str = "") -> None:
        self.work = work
        super().__init__(why or f"more than {work / 1e9:.1f} G thread-instructions")


@dataclass
class Budget:
    """Of one call.

    Attributes:
        limit: What it may take; None for anything.
        spent: What its launches have taken.
        most_resident: Bytes of memory that this process may ever have had; None for any. A kernel
            may touch all of what is not there until it is touched.
    """

    limit: int | None = None
    spent: int = 0
    most_resident: int | None = None

    def check(self, under_way: int) -> None:
        """Stop a launch that has come so far, where that is too far.

        Raises:
            OverBudget: it is.
        """
        if self.limit is not None and self.spent + under_way > self.limit:
            raise OverBudget(self.spent + under_way)
        if self.most_resident is not None and resident_bytes() > self.most_resident:
            raise OverBudget(self.spent + under_way, "more memory touched than shall be there")

    def spend(self, work: int) -> None:
        """Count a launch that has ended.

        Raises:
            OverBudget: it was too much.
        """
        self.check(work)
        self.spent += work + _OF_A_LAUNCH


def resident_bytes() -> int:
    """The most memory that this process has ever had, shared memory included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
