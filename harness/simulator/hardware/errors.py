"""The exceptions that stop a kernel, or a call of a submission, on the simulated device."""

from __future__ import annotations

from harness.finding import Finding
from harness.simulator.ptx.ptx import Location

ASSERTION_FAILED = "assertion failed"
"""The reason of the trap that a failed `assert` executes."""


class UnsupportedInstruction(NotImplementedError):
    """The kernel has an instruction that the simulator does not implement.

    Attributes:
        instruction: The instruction as PTX text.
        kernel: Readable name of the kernel.
        file, line: The instruction's source line in the kernel, or None if the PTX does not name
            it.
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
    """The submission's host code uses a feature of CUDA that the simulated device does not have.

    Attributes:
        what: The name of a function, or a description of the feature.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"the harness's device does not support {what}{'()' if what.isidentifier() else ''}"
        )


class LibraryCall(RuntimeError):
    """The submission's host code calls a library function that would compute in place of a kernel.

    Attributes:
        function: The name of the library's function, such as cublasSgemm.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        super().__init__(f"the library function {function} did the work")


class BarrierDeadlock(RuntimeError):
    """All threads of a block that have not ended wait for events that cannot happen.

    Attributes:
        kernel: Readable name of the kernel.
        block: Coordinates of the block.
        waiting: The number of each barrier that threads wait at, and how many threads wait there.
        findings: The errors found in the launch, which include the places of the waiting threads.
        places: The waiting threads with their source lines: "3 threads at barrier 1, kernel.cu:12
            (threads 0-2)", "1 thread spinning at kernel.cu:30 (threads 7)".
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
    """Threads wait at an instruction for an event that cannot happen.

    Either other threads of the same warp or warpgroup never execute the instruction, or a phase of
    an mbarrier never completes.

    Attributes:
        kernel: Readable name of the kernel.
        instruction: The instruction as PTX text.
        block, thread: Coordinates of the first thread that waits.
        waiting: How many threads of that block wait at the instruction.
        file, line: The instruction's source line in the kernel, or None if the PTX does not name
            it.
        findings: The errors found in the launch, which include the places of the waiting threads.
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
        what = (
            f"the rest of a {names[group]}"
            if group in names
            else "a condition that never becomes true"
        )
        super().__init__(
            f"{kernel}: {waiting} threads of block {block}, the first of them thread "
            f"{thread}, wait for {what} at `{instruction}`{where}"
        )


class KernelTrap(RuntimeError):
    """A thread executed `trap`, as `__trap()` and a failed `assert` do.

    Attributes:
        kernel: Readable name of the kernel.
        block, thread: Coordinates of the thread.
        reason: The cause, such as "trap" or "assertion failed".
        file, line: The instruction's source line in the kernel, or None if the PTX does not name
            it.
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


class StackOverflow(KernelTrap):
    """A recursion needs more than a thread's stack, so it accesses an illegal address."""


class InvalidLaunch(ValueError):
    """CUDA would refuse the launch of a kernel.

    The reason is an empty grid or block, a block with too many threads, or a wrong number or size
    of the arguments.
    """
