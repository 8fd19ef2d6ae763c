"""Whether a submission's own kernels do its work on a GPU: the kernels that ran, by name and time.

CUPTI sees every kernel of the process, whoever launched it and from whatever thread. What it cannot
say is who wrote the output; that is the simulated device's to say (integrity.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.gpu.hold import KERNEL as HOLD
from harness.gpu.recording import Launched
from harness.integrity import CHECK, Judged, Need, finding
from harness.kernel_names import (
    forms_products,
    identifier,
    is_by_copy_engine,
    is_defined_in,
    is_of_torch,
    is_surely_library,
    may_be_library,
)

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
        return Judged((finding(CHECK, "its kernels could not be recorded"),), None)
    kernels = [
        each
        for each in launched
        if identifier(each.name) != HOLD and not is_by_copy_engine(each.name)
    ]
    own = [each for each in kernels if _is_own(each.name, built)]
    foreign = [each for each in kernels if each not in own and not is_of_torch(each.name)]
    library = [each for each in foreign if may_be_library(each.name)]
    of_torch = [each for each in kernels if is_of_torch(each.name) and forms_products(each.name)]
    total = max(_time(kernels), 1)
    messages = [
        *_of_library(library, total),
        *_of_torch(of_torch, total),
        *([] if own else ["no kernel of its own was launched"]),
    ]
    share = 1 - (_time(library) + _time(of_torch)) / total if own else 0.0
    return Judged(tuple(finding(CHECK, message) for message in messages), share)


def launched_from(plain: Sequence[Mapping[str, Any]]) -> tuple[Launched, ...]:
    """What a worker told, checked already (harness/worker/answers.py)."""
    return tuple(Launched(each["name"], each["count"], each["nanoseconds"]) for each in plain)


def _is_own(name: str, built: Iterable[bytes]) -> bool:
    if is_of_torch(name) or is_surely_library(name):
        return False
    return any(is_defined_in(name, library) for library in built)


def _time(kernels: Iterable[Launched]) -> int:
    return sum(each.nanoseconds for each in kernels)


def _of_library(library: Iterable[Launched], total: int) -> Iterator[str]:
    for each in library:
        share = _percent(each.nanoseconds / total)
        yield f"a library's kernel ran, {_shortened(each.name)} ({share} of the kernels' time)"


def _of_torch(kernels: Sequence[Launched], total: int) -> Iterator[str]:
    if _time(kernels) > _MOST_SHARE * total:
        names = ", ".join(sorted({identifier(each.name) for each in kernels}))
        yield f"torch's kernels took {_percent(_time(kernels) / total)} of the time ({names})"


def _shortened(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


def _percent(share: float) -> str:
    return f"{100 * min(share, 1.0):.3g} %"
