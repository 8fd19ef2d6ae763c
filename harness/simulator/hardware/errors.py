"""What can stop the simulated device."""

from __future__ import annotations

from harness.finding import Finding
from harness.simulator.ptx.ptx import Location

ASSERTION_FAILED = "assertion failed"
"""Reason of the trap that ends a failed `assert`."""


class UnsupportedInstruction(NotImplementedError):
    """The kernel needs an instruction that the simulator does not know.

    Attributes:
        instruction: the instruction as PTX text.
        kernel: readable name of the kernel.
        file, line: the place in the source, where the PTX tells it.
    """

    def __init__(self, instruction: str, kernel: str, location: Location | None) -> None:
        self.instruction = instruction
        self.kernel = kernel
        place = location.outermost if location else None
        self.file = place.file if place else None
        self.line = place.line if place else None
        where = f" ({self.file}:{self.line})" if place else ""
        super().__init__(f"the simulator lacks `{instruction}`, which {kernel} needs{where}")


class UnsupportedCall(NotImplementedError):
    """The submission's host code asks for something that the harness's device does not have.

    Attributes:
        what: a function's name, or what was asked for in words.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the harness's device has no {what}{'()' if what.isidentifier() else ''}")


class LibraryCall(RuntimeError):
    """The submission's host code calls a library that would do the work instead of a kernel.

    Attributes:
        function: its name, such as cublasSgemm.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        super().__init__(f"{function} did the work")


class BarrierDeadlock(RuntimeError):
    """No thread of a block can go on: all that are left wait for what cannot happen.

    Attributes:
        kernel: readable name of the kernel.
        block: the block that is in the deadlock.
        waiting: for each barrier that threads wait at, its number and how many wait.
        findings: what was found in the launch, with who waits where.
        places: who waits where: "3 threads at barrier 1, kernel.cu:12 (threads 0-2)", "1 thread
            spinning at kernel.cu:30 (threads 7)".
    """

    findings: tuple[Finding, ...] = ()

    def __init__(
        self,
        kernel: str,
        block: tuple[int, int, int],
        waiting: tuple[tuple[int, int], ...],
        who_waits: tuple[str, ...],
    ) -> None:
        self.kernel = kernel
        self.block = block
        self.waiting = waiting
        self.places = who_waits
        places = "; ".join(who_waits)
        super().__init__(f"{kernel}: block {block} is stuck in a deadlock: {places}")


class UnmetCondition(RuntimeError):
    """Threads wait at an instruction for what cannot happen.

    Either the other threads of their warp or warpgroup never come to it, or the mbarrier's phase
    never completes.

    Attributes:
        kernel: readable name of the kernel.
        instruction: the instruction as PTX text.
        block, thread: the first thread that waits.
        waiting: how many threads of that block do.
        file, line: the place in the source, where the PTX tells it.
        findings: what was found in the launch, with who waits where.
    """

    findings: tuple[Finding, ...] = ()

    def __init__(
        self,
        kernel: str,
        instruction: str,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
        waiting: int,
        group: int,
        location: Location | None,
    ) -> None:
        self.kernel = kernel
        self.instruction = instruction
        self.block = block
        self.thread = thread
        self.waiting = waiting
        self.location = location
        place = location.outermost if location else None
        self.file = place.file if place else None
        self.line = place.line if place else None
        where = f" ({self.file}:{self.line})" if place else ""
        names = {32: "warp", 128: "warpgroup"}
        what = f"the rest of a {names[group]}" if group in names else "what never happens"
        super().__init__(
            f"{kernel}: {waiting} threads of block {block}, thread {thread} the first of them, "
            f"wait for {what} at `{instruction}`{where}"
        )


class KernelTrap(RuntimeError):
    """A thread executed `trap`, as `__trap()` and a failed `assert` do.

    Attributes:
        kernel: readable name of the kernel.
        block, thread: who did.
        reason: what happened: "trap", "assertion failed" or another plain word.
        file, line: the place in the source, where the PTX tells it.
    """

    def __init__(
        self,
        kernel: str,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
        location: Location | None,
        reason: str = "trap",
    ) -> None:
        self.kernel = kernel
        self.block = block
        self.thread = thread
        self.reason = reason
        place = location.outermost if location else None
        self.file = place.file if place else None
        self.line = place.line if place else None
        where = f" at {self.file}:{self.line}" if place else ""
        super().__init__(f"{kernel}: {reason} in block {block}, thread {thread}{where}")


class InvalidLaunch(ValueError):
    """A launch that CUDA would refuse: a wrong number of arguments, an empty or oversized block."""
