"""The kernels that ran on a GPU, by name: what CUPTI tells torch's profiler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.autograd.profiler import profile


@dataclass(frozen=True)
class Launched:
    """Kernels of one name.

    Attributes:
        name: As CUPTI gives it, demangled with its template arguments and parameters.
        count: How often it was launched.
        nanoseconds: Of the GPU, in all of them together.
    """

    name: str
    count: int
    nanoseconds: int


class Recording:
    """What runs on the GPU between its two ends, from any thread and in any stream.

    Use as a context manager. Copies and fills by the copy engines come under names of their own.
    """

    def __init__(self) -> None:
        self.launched: tuple[Launched, ...] = ()

    def __enter__(self) -> Recording:
        torch.cuda.synchronize()
        # torch.profiler.profile would import torch's compiler, which changes torch.
        self._profile = profile(use_cpu=False, use_device="cuda", use_kineto=True)
        self._profile.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # Else a kernel that still runs is in no record, or in the next one.
            torch.cuda.synchronize()
        finally:
            self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.launched = _summed(self._profile.function_events or ())


@cache
def works() -> bool:
    """Whether this machine lets kernels be recorded at all, tried in this process."""
    with Recording() as recording:
        torch.ones(1, device="cuda")
    return bool(recording.launched)


def _summed(events: Iterable[Any]) -> tuple[Launched, ...]:
    found: dict[str, Launched] = {}
    for event in events:
        if event.device_type.name != "CUDA":
            continue
        known = found.get(event.name, Launched(event.name, 0, 0))
        took = round(1e3 * event.time_range.elapsed_us())
        found[event.name] = Launched(event.name, known.count + 1, known.nanoseconds + took)
    return tuple(found.values())
