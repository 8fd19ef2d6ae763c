"""Who worked on the device: torch's operators, kernels, copies from and to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Worker = Literal["operator", "kernel", "copy"]
WORKERS: tuple[Worker, ...] = get_args(Worker)

FROM_HOST, TO_HOST, IN_MODULES = "from host", "to host", "in modules"
"""The names of copies; the last is of device code that was built in the very step."""


@dataclass(frozen=True)
class Work:
    """One kind of work on the device, all of it summed.

    Attributes:
        worker: An operator of torch, a kernel, or a copy from or to the host, in whatever message.
        name: The operator's schema, with ` (scaled)` where it also multiplies by a number and
            ` (joined)` where it joins what it moves with what was there; the kernel's mangled name;
            the name of a copy.
        count: How often.
        elements: Of the largest tensor of each call; bytes that went to the host or came from it;
            0 for kernels.
        multiplied: Products that an operator formed, where that is known.
        of_kernels: Of the elements, those of calls that took what kernels have written.
    """

    worker: Worker
    name: str
    count: int
    elements: int = 0
    multiplied: int = 0
    of_kernels: int = 0


class Record:
    """What was done since it was last taken. There are no more kinds than operators and kernels."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Worker, str], list[int]] = {}

    def add(
        self,
        worker: Worker,
        name: str,
        elements: int = 0,
        multiplied: int = 0,
        *,
        is_of_kernels: bool = False,
    ) -> None:
        """Record one call; the arguments are as in `Work`."""
        sums = self._kinds.setdefault((worker, name), [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += elements
        sums[2] += multiplied
        sums[3] += elements if is_of_kernels else 0

    def take(self) -> tuple[Work, ...]:
        """What was done since the last call."""
        kinds, self._kinds = self._kinds, {}
        return tuple(Work(worker, name, *sums) for (worker, name), sums in kinds.items())
