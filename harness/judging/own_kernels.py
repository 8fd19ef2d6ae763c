"""Whether a submission's own kernels do its work on a GPU: the kernels that ran, by name and time.

CUPTI sees every kernel of the process, from whatever thread and library. It cannot say which of
them wrote the output; the simulated device can (integrity.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from harness.finding import Finding
from harness.gpu.hold import KERNEL as HOLD
from harness.gpu.recording import Launched
from harness.judging.integrity import CHECK, Judged, percent
from harness.judging.kernel_names import (
    forms_products,
    identifier,
    is_by_copy_engine,
    is_defined_in,
    is_of_torch,
    is_surely_library,
    may_be_library,
)
from harness.problems.families.family import Need

_Worker = Literal["own", "library", "torch", "nobody"]

# Of the time of all kernels that torch's may take, if they form products.
_MOST_SHARE = 0.5


def judge_launched(
    need: Need | None, launched: Sequence[Launched], built: Sequence[bytes]
) -> Judged:
    """Judge the kernels of one call.

    Args:
        need: What it takes; None where that is not known.
        launched: The kernels that ran, and the one that holds the GPU before each call.
        built: The shared objects that were built for the submission.

    Returns:
        What makes it not the submission's own work.
    """
    if need is not None and not need.products:
        return Judged((), None)
    if not any(identifier(each.name) == HOLD for each in launched):
        # This process could record its own, or nobody would have been asked.
        return Judged((Finding(CHECK, "its kernels could not be recorded"),), None)
    kernels = [
        each
        for each in launched
        if identifier(each.name) != HOLD and not is_by_copy_engine(each.name)
    ]
    workers: dict[_Worker, list[Launched]] = {"own": [], "library": [], "torch": [], "nobody": []}
    for each in kernels:
        workers[_worker(each.name, built)].append(each)
    own, library, of_torch = workers["own"], workers["library"], workers["torch"]
    total = max(_time(kernels), 1)
    messages = [
        *_of_library(library, total),
        *_of_torch(of_torch, total),
        *([] if own else ["no kernel of its own was launched"]),
    ]
    share = 1 - (_time(library) + _time(of_torch)) / total if own else 0.0
    return Judged(tuple(Finding(CHECK, message) for message in messages), share)


def launched_from(plain: Sequence[Mapping[str, Any]]) -> tuple[Launched, ...]:
    """What a worker told, checked already (harness/worker/answers.py)."""
    return tuple(Launched(each["name"], each["count"], each["nanoseconds"]) for each in plain)


def _worker(name: str, built: Iterable[bytes]) -> _Worker:
    """Whose products a kernel forms; nobody's where it only moves numbers, or is not known."""
    if is_of_torch(name):
        return "torch" if forms_products(name) else "nobody"
    if not is_surely_library(name) and any(is_defined_in(name, library) for library in built):
        return "own"
    return "library" if may_be_library(name) else "nobody"


def _time(kernels: Iterable[Launched]) -> int:
    return sum(each.nanoseconds for each in kernels)


def _of_library(library: Iterable[Launched], total: int) -> Iterator[str]:
    for each in library:
        share = percent(each.nanoseconds / total)
        yield f"a library's kernel ran, {_shortened(each.name)} ({share} of the kernels' time)"


def _of_torch(kernels: Sequence[Launched], total: int) -> Iterator[str]:
    if _time(kernels) > _MOST_SHARE * total:
        names = ", ".join(sorted({identifier(each.name) for each in kernels}))
        yield f"torch's kernels took {percent(_time(kernels) / total)} of the time ({names})"


def _shortened(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."
