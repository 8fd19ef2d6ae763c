"""Record of the work on a device: torch's operators, kernels, and copies from and to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.device.operator_names import held_by

Worker = Literal["operator", "kernel", "copy"]

FROM_HOST, TO_HOST, IN_MODULES = "from host", "to host", "in modules"
"""Names of copies; `IN_MODULES` counts loaded device code that was built in the same step."""
CHOSEN = "chosen"
"""Name of the copy that counts bytes which only select a value that the device already holds.

Examples are the tensors of a call, and arguments of a launch that an earlier launch had, too.
"""

# The most entries of operators by size. Operators with further sizes share an entry for each name.
_MOST_SIZES = 1024


@dataclass(frozen=True)
class Work:
    """Totals of one kind of work: an operator at one size, a kernel, or one kind of copy.

    Attributes:
        worker: Kind of the work: an operator of torch, a kernel, or a copy from or to the host. Any
            message that carries values counts as a copy.
        name: Name of the operator's schema with its marks (`operator_names.SCALED` and the others),
            mangled name of the kernel, or name of the copy.
        count: Number of calls.
        elements: For an operator, a sum over its calls: the elements of each call's largest tensor,
            or of all the call's tensors if the operator takes a list. Complex elements count four
            times. For a copy, the number of bytes. For a kernel, 0.
        multiplied: Products that an operator formed; 0 if their number is not known.
        of_kernels: The part of `elements` that comes from calls with an argument that a kernel had
            written.
    """

    worker: Worker
    name: str
    count: int
    elements: int = 0
    multiplied: int = 0
    of_kernels: int = 0

    @property
    def held(self) -> int:
        """The number of products of few bits that the `elements` of an operator may hold."""
        return self.elements * held_by(self.name)


class Record:
    """Totals of the work on a device since the last `take`.

    An entry contains all calls of one operator at one size, of one kernel, or of one kind of copy.
    So the record does not grow with the number of calls. A list of calls would need a limit, which
    a submission could reach on purpose. The number of entries is limited, too. Once that limit is
    reached, all calls of an operator at new sizes share one entry.
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
        """Record a copy of `count` bytes under a name such as `FROM_HOST`, unless `count` is 0."""
        if count:
            self.add("copy", name, count)

    def take(self) -> tuple[Work, ...]:
        """Return the totals since the last `take`, and reset them to zero."""
        kinds, self._kinds = self._kinds, {}
        return tuple(Work(worker, name, *sums) for (worker, name, _), sums in kinds.items())
