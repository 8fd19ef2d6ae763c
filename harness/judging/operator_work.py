"""Whether a submission does its own work, where the reference is a few operators of torch.

How many products its output takes is not known of such a reference, but which operators it calls
is. Those that a submission calls as well, on as much, it leaves to torch. Where the reference calls
one operator, that is all of the work; of several some may be left, and the share is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from torch import Tensor

from harness.device.executor import KERNEL
from harness.device.operator_names import computes, is_library, is_summing, plain_name
from harness.device.record import TO_HOST, Work
from harness.finding import Finding
from harness.judging.integrity import CHECK, Judged, no_kernel, of_host
from harness.judging.operators import called_as
from harness.problems.operations import Operation

# An operator on so much of what the reference gives its own is that one.
_MOST_SHARE = 0.5
# A number that a kernel has computed may be read by the host, which makes the output from it.
_MOST_NUMBERS_BY_HOST = 16
_MOST_BYTES_BY_HOST = 64
_PRODUCTS = "products"


def judge_operators(
    reference: Sequence[Operation],
    during: Sequence[Work],
    before: Sequence[Work],
    output: Tensor,
    writers: Tensor | None,
    source: str = "",
) -> Judged:
    """Judge one call.

    Args:
        reference: What the reference calls.
        during: What was done from the call's beginning to its end.
        before: What was done since the call before.
        output: What it returned, on the CPU.
        writers: Who wrote each element of it; None where that tells nothing.
        source: The submission's text, by whose words operators are called.

    Returns:
        What makes it not the submission's own work, and the share of the reference's operators
        that are not left to torch.
    """
    if not output.numel():
        return Judged((), None)
    essential = [each for each in reference if _is_work(each.name)]
    ran = [each for each in (*before, *during) if each.worker == "operator" and _is_work(each.name)]
    has_kernels = any(work.worker == "kernel" for work in during)
    left = _left_to_torch(essential, ran)
    share = None
    if essential:
        whole = sum(map(_cost, essential))
        share = 1.0 - sum(map(_cost, left)) / whole if has_kernels and whole else 0.0
    messages = [
        *_of_left(left, essential, source),
        *_of_others(essential, ran, output, source),
        *([] if has_kernels else [no_kernel(source)]),
        *of_host(during, output),
        *(_of_writers(writers, during) if writers is not None and has_kernels else ()),
    ]
    return Judged(tuple(Finding(CHECK, message) for message in messages), share)


def _is_work(name: str) -> bool:
    return computes(name) or is_library(name)


def _kind(name: str) -> str:
    """What an operator does; a sum of products goes by many names."""
    return _PRODUCTS if is_summing(name) else plain_name(name)


def _cost(operation: Operation) -> int:
    return operation.products or operation.elements


def _left_to_torch(essential: Sequence[Operation], ran: Sequence[Work]) -> list[Operation]:
    """Those of the reference's operators that torch ran for the submission."""
    elements: Counter[str] = Counter()
    for work in ran:
        elements[_kind(work.name)] += work.elements
    left = []
    for each in essential:
        kind = _kind(each.name)
        if each.elements and elements[kind] >= _MOST_SHARE * each.elements:
            elements[kind] -= each.elements
            left.append(each)
    # Products can be formed one by one, and summed by other operators.
    spare = sum(count for kind, count in elements.items() if kind != _PRODUCTS)
    for each in essential:
        is_left = any(each is other for other in left)
        if not is_left and 0 < _MOST_SHARE * each.products <= spare:
            spare -= each.products
            left.append(each)
    return left


def _of_left(
    left: Sequence[Operation], essential: Sequence[Operation], source: str
) -> Iterator[str]:
    if left and len(left) == len(essential):
        names = ", ".join(dict.fromkeys(called_as(each.name, source) for each in left))
        yield f"torch ran {names} for it, which is all that the reference does"


def _of_others(
    essential: Sequence[Operation], ran: Sequence[Work], output: Tensor, source: str
) -> Iterator[str]:
    known = {_kind(each.name) for each in essential}
    others = [work for work in ran if _kind(work.name) not in known]
    for work in others:
        if is_library(work.name):
            yield f"{called_as(work.name, source)} ran, which is a library's work"
    made = sum(work.elements for work in others if not is_library(work.name))
    if len(essential) == 1 and made >= _MOST_SHARE * max(essential[0].elements, output.numel()):
        names = ", ".join(sorted({work.name for work in others}))
        yield (
            f"operators of torch computed {made:,} numbers ({names}); "
            f"the output has {output.numel():,}"
        )


def _of_writers(writers: Tensor, during: Sequence[Work]) -> Iterator[str]:
    read = sum(work.elements for work in during if work.name == TO_HOST)
    is_number = writers.numel() <= _MOST_NUMBERS_BY_HOST and 0 < read <= _MOST_BYTES_BY_HOST
    if not is_number and not bool((writers == KERNEL).any()):
        yield "none of the output was written by its own kernels, or made of what they wrote"
