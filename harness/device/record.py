"""Record of the work on the device: torch's operators, kernels, copies from and to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Worker = Literal["operator", "kernel", "copy"]
WORKERS: tuple[Worker, ...] = get_args(Worker)

FROM_HOST, TO_HOST, IN_MODULES = "from host", "to host", "in modules"
"""Names of copies; `IN_MODULES` counts loaded device code that was built in the same step."""
CHOSEN = "chosen"
"""Name of a copy that counts choices of the host among what the device knows already.

Such choices are the tensors of a call, and arguments of a launch that are known to the device.
"""

# The most entries of operators by size. Operators with further sizes share an entry for each name.
_MOST_SIZES = 1024


@dataclass(frozen=True)
class Work:
    """The sum of all calls of one operator of one size or kernel, or of all copies of one kind.

    Attributes:
        worker: Kind of the work: an operator of torch, a kernel, or a copy from or to the host. Any
            message that carries values counts as a copy.
        name: Name of the operator's schema with its marks (`operator_names.SCALED` and the others),
            mangled name of the kernel, or name of the copy.
        count: Number of calls.
        elements: For an operator, elements of the largest tensor of each call, or of all its
            tensors if it takes a list; complex elements count four times. For a copy, bytes. For a
            kernel, 0.
        multiplied: Products that an operator formed; 0 if their number is not known.
        of_kernels: Part of `elements` from calls with arguments that kernels had written.
    """

    worker: Worker
    name: str
    count: int
    elements: int = 0
    multiplied: int = 0
    of_kernels: int = 0


class Record:
    """Sums of the work since they were last taken.

    There is one entry for each operator and size, kernel and kind of copy, so that the record
    cannot grow with the number of calls. A list of calls would need a limit, and a submission could
    fill it. The sizes have a limit too, but beyond it their sums remain.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[Worker, str, tuple[int, int] | None], list[int]] = {}

    def add(
        self,
        worker: Worker,
        name: str,
        elements: int = 0,
        multiplied: int = 0,
        *,
        is_of_kernels: bool = False,
    ) -> None:
        """Record one call; the arguments have the meanings of `Work`'s attributes."""
        size = (elements, multiplied) if worker == "operator" else None
        if (worker, name, size) not in self._kinds and len(self._kinds) >= _MOST_SIZES:
            size = None
        sums = self._kinds.setdefault((worker, name, size), [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += elements
        sums[2] += multiplied
        sums[3] += elements if is_of_kernels else 0

    def add_bytes(self, name: str, count: int) -> None:
        """Record a copy of some bytes, unless there are none."""
        if count:
            self.add("copy", name, count)

    def take(self) -> tuple[Work, ...]:
        """Return the work since the last call, and begin again."""
        kinds, self._kinds = self._kinds, {}
        return tuple(Work(worker, name, *sums) for (worker, name, _), sums in kinds.items())
