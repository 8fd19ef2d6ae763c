"""Judgement of whether a submission's kernels did the work, by the operators that torch ran.

This applies to references whose number of products is unknown. The operators that the reference
calls are known. If torch runs one of these operators for a submission, on a large share of the
reference's data, that operator is left to torch. If the reference calls one operator only, that
operator is all of the work. If the reference calls several operators, some may be left to torch,
and the report states their share of the work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from harness.device.executor import KERNEL
from harness.device.operator_names import (
    TRUNCATED,
    computes,
    is_library,
    is_summing,
    looks_up,
    plain_name,
)
from harness.device.record import TO_HOST, Work
from harness.finding import Finding
from harness.judging.division import Division
from harness.judging.integrity import (
    CHECK,
    Judged,
    no_kernel,
    of_lookups,
    operands_on_host_messages,
    output_from_host_messages,
    percent,
)
from harness.judging.operators import called_as
from harness.problems.operations import ReferenceOperation

# An operator is left to torch if torch runs it on this share of what the reference gives it. If the
# reference calls only one operator, the smaller share is already more than preparation or
# finishing.
_MOST_SHARE = 0.5
_MOST_OF_ONE = 0.25
# Operators that only allocate or fill memory, or look at it in another way.
_MAKING_ROOM = """
    empty_like full_like new_empty new_full new_ones new_zeros ones_like scalar_tensor unsafe_chunk
    unsafe_split unsafe_split_with_sizes unsafe_view zeros_like
"""
_NOBODYS = frozenset(_MAKING_ROOM.split())
_MAKING_NUMBERS = frozenset(("empty", "empty_strided", "fill", "full", "ones", "zero", "zeros"))
_CASTING = frozenset(("copy", "to_copy"))
# An operator on a smaller share of the output's numbers is not work. An example is one that decides
# which way to take.
_LEAST_OF_OUTPUT = 1 / 16
# Operators of one name count from this share of the reference's only operator. Below it, they count
# if all names together reach the second share.
_LEAST_OF_NAME = 1 / 4
_MOST_OF_ALL_NAMES = 3 / 4
# The most partial results of blocks that torch may join. So many blocks keep a GPU busy, however
# little there is to do.
_MOST_PARTIAL_RESULTS = 4096
# In the problem's own configuration, partial results are at most this share of what a reference
# takes that makes as many numbers, such as a softmax. All of them would be a copy of its input.
_MOST_PARTIAL_SHARE = 0.5
# If torch runs the reference's only operator on this share of the data, it does a part of the work,
# and operators of other names may do another.
_PART_OF_ONE = 1 / 16
# Operators of other names replace one of the reference if they make so many times its numbers.
_OTHERS_FOR_ONE = 2
# The host may read a few numbers that a kernel computed, and make a small output from them.
_MOST_NUMBERS_BY_HOST = 16
_MOST_BYTES_BY_HOST = 64
_NUMBER_BYTES = 4
_PRODUCTS, _CONVOLUTION, _LOOK_UP = "products", "convolution", "look-up"


@dataclass(frozen=True)
class Operands:
    """Sizes in bytes of the inputs and weights of a call.

    Attributes:
        inputs: Bytes of all inputs.
        weights: Bytes of all weights.
    """

    inputs: int
    weights: int

    @staticmethod
    def of(inputs: Iterable[Tensor], weights: Iterable[Tensor]) -> Operands:
        """Return the total sizes in bytes of inputs and of weights."""
        return Operands(*(sum(each.nbytes for each in given) for given in (inputs, weights)))


def judge_operators(
    reference: Sequence[ReferenceOperation],
    operands: Operands,
    during: Sequence[Work],
    before: Sequence[Work],
    output: Tensor,
    writers: Tensor | None,
    source: str = "",
    *,
    is_own: bool = False,
) -> Judged:
    """Judge whether a submission's own kernels did the work of one call.

    Args:
        reference: The operators that the reference calls.
        operands: Sizes in bytes of the call's inputs and weights.
        during: Operators, kernels and copies from the call's beginning to its end.
        before: Operators, kernels and copies between the previous call and this one.
        output: Output of the call, on the CPU.
        writers: Kind of writer of each element of the output. None if the submission's kernels need
            not have written any element.
        source: The submission's text; findings name operators as this text does.
        is_own: True in the problem's own configuration.

    Returns:
        Findings if the call is not the submission's own work, and the share of the reference's
        operators that are not left to torch.
    """
    if not output.numel():
        return Judged((), None)
    works = [each for each in reference if _is_work(each.name) and not _is_not_work(each)]
    least = _LEAST_OF_OUTPUT * output.numel()
    essential = [each for each in works if each.elements > least]
    kinds = {_kind(each.name) for each in essential}
    most_partial = _most_partial_results(essential) if is_own else _MOST_PARTIAL_RESULTS
    of_operators = [each for each in (*before, *during) if each.worker == "operator"]
    done = [
        each
        for each in of_operators
        if (_is_work(each.name) or _kind(each.name) in kinds)
        and not _is_cast_of_reference(each.name, reference)
    ]
    ran = [*_without_partial_results(done, most_partial)]
    has_kernels = any(work.worker == "kernel" for work in during)
    left, others = _left_to_torch(essential, ran)
    share = None
    if essential:
        share = _share_of_kernels(essential, left, others) if has_kernels else 0.0
    is_left_by_name = bool(left) and min(left) >= _MOST_SHARE
    is_all = share == 0.0 and has_kernels and not is_left_by_name
    products = sum(each.products for each in works)
    # Numbers that the reference looks up itself are not products.
    own_lookups = sum(each.elements for each in reference if _kind(each.name) == _LOOK_UP)
    numbers = (operands.inputs + operands.weights) // _NUMBER_BYTES + output.numel() + own_lookups
    of_torch = [
        *(of_lookups([*before, *during], products, numbers) if products else ()),
        *_of_left(left, essential, ran, source),
        *_of_others(essential, ran, output, source, left=left, is_all=is_all),
        *([] if has_kernels else [no_kernel(source)]),
        *(_of_writers(writers, during) if writers is not None and has_kernels else ()),
    ]
    operators = sum(not each.is_view for each in reference)
    of_host = [
        *output_from_host_messages(during, output, operators),
        *operands_on_host_messages(during, operands.inputs, operands.weights),
    ]
    # If the reference only moves numbers, so does torch in its place.
    moved = [] if works else [each for each in during if each.worker == "operator"]
    is_moving = bool(reference) and all(map(_only_moves, reference))
    movers = _movers(of_operators, output) if is_moving else ()
    division = Division(
        _counts([*ran, *moved]),
        _counts(works),
        has_kernels,
        is_whole=0 < products <= sum(each.multiplied for each in ran),
        is_of_several=len(essential) > 1,
    )
    mostly = [each for each, part in zip(essential, left, strict=True) if part >= _MOST_SHARE]
    names = dict.fromkeys(called_as(each.name, source) for each in mostly)
    findings = tuple(Finding(CHECK, message) for message in (*of_torch, *of_host))
    # Without operators of torch, something else did the work.
    is_of_torch = bool(of_torch) and not of_host and bool(division.by_torch)
    return Judged(findings, share, division, is_of_torch, tuple(names), movers)


def _share_of_kernels(
    essential: Sequence[ReferenceOperation], left: Sequence[float], others: int
) -> float:
    """Return the share of the work that is not left to torch.

    Operators are weighed by their products, or else by their elements.
    """
    whole = sum(map(_cost, essential))
    parts = zip(essential, _with_others(essential, left, others), strict=True)
    by_torch = sum(_cost(each) * part for each, part in parts)
    return 1.0 - by_torch / whole if whole else 0.0


def _most_partial_results(essential: Sequence[ReferenceOperation]) -> int:
    """Return how many partial results of kernels torch may join in the own configuration.

    A reference that makes fewer numbers than it takes, such as a sum, may be cut down so far that
    it takes fewer numbers than a kernel has blocks.
    """
    if not essential or any(each.made < each.elements for each in essential):
        return _MOST_PARTIAL_RESULTS
    most = _MOST_PARTIAL_SHARE * max(each.elements for each in essential)
    return min(_MOST_PARTIAL_RESULTS, int(most))


def _is_cast_of_reference(name: str, reference: Sequence[ReferenceOperation]) -> bool:
    """Return whether an operator converts numbers to integers, as the reference does, too."""
    return name.endswith(TRUNCATED) and any(plain_name(each.name) in _CASTING for each in reference)


def _without_partial_results(ran: Iterable[Work], most: int) -> Iterator[Work]:
    """Yield torch's work, without counting elements that are partial results of kernels.

    A submission may join partial results in torch, up to `most` for each operator. Any further ones
    are counted.
    """
    joined: Counter[str] = Counter()
    for each in ran:
        partial = min(each.of_kernels, most - joined[each.name])
        joined[each.name] += partial
        yield replace(each, elements=each.elements - partial)


def _counts(operators: Iterable[Work | ReferenceOperation]) -> Counter[str]:
    """Return the number of calls of each kind of operator."""
    counts: Counter[str] = Counter()
    for each in operators:
        counts[_kind(each.name)] += each.count if isinstance(each, Work) else 1
    return counts


def _is_work(name: str) -> bool:
    return computes(name) or is_library(name)


def _is_not_work(operation: ReferenceOperation) -> bool:
    """Return whether a reference's operator only views numbers, or allocates memory.

    The device does not record these operators.
    """
    return operation.is_view or plain_name(operation.name) in _NOBODYS


def _only_moves(operation: ReferenceOperation) -> bool:
    """Return whether a reference's operator only moves numbers, or looks them up in a table."""
    return not _is_work(operation.name) or _kind(operation.name) == _LOOK_UP


def _movers(ran: Iterable[Work], output: Tensor) -> tuple[str, ...]:
    """Return the operators of torch that moved half as many numbers as the output has, or more."""
    least = _MOST_SHARE * output.numel()
    by_name = Counter[str]()
    for each in ran:
        by_name[each.name] += each.elements
    return tuple(name for name, count in by_name.items() if count >= least and _moves(name))


def _moves(name: str) -> bool:
    return not _is_work(name) and plain_name(name) not in _MAKING_NUMBERS


def _kind(name: str) -> str:
    """Return one name for all operators that sum products, and one for all lookups in tables.

    Any other operator keeps its own name, without namespace and affixes (`plain_name`).
    """
    if is_summing(name):
        return _PRODUCTS
    plain = plain_name(name)
    return _LOOK_UP if plain == "embedding" or looks_up(name) else plain


def _is_convolution(name: str) -> bool:
    return is_summing(name) and "conv" in name


def _counted_as(name: str) -> str:
    """Return the name under which an operator's elements are counted.

    This is the name that `_kind` returns, except for convolutions. They have a name of their own,
    because the device does not count the products of a transposed convolution as the reference
    does.
    """
    return _CONVOLUTION if _is_convolution(name) else _kind(name)


def _cost(operation: ReferenceOperation) -> int:
    return operation.products or operation.elements


def _left_to_torch(
    essential: Sequence[ReferenceOperation], ran: Sequence[Work]
) -> tuple[Sequence[float], int]:
    """Return the share of each of the reference's operators that torch ran for the submission.

    Products and elements that torch computed are assigned to the reference's operators. Operators
    that torch ran at the reference's size come first. Each product or element is assigned once, so
    one layer that is left to torch does not count for two.

    Returns:
        A share from 0 to 1 for each operator of the reference; and the number of unassigned
        elements, without those of operators that sum products.
    """
    products = sum(work.multiplied for work in ran)
    elements: Counter[str] = Counter()
    # Matrix products count by their products, unless torch does not count those of the reference.
    is_counted = any(each.products for each in essential)
    for work in ran:
        if not (work.multiplied and is_counted) or _is_convolution(work.name):
            elements[_counted_as(work.name)] += work.elements
    left = [0.0] * len(essential)
    for number in _known_by_size_first(essential, ran):
        each = essential[number]
        kind, share = _counted_as(each.name), 0.0
        if each.products:
            taken = min(products, each.products)
            products -= taken
            share = taken / each.products
        if each.elements:
            taken = min(elements[kind], each.elements)
            elements[kind] -= taken
            share = max(share, taken / each.elements)
        left[number] = share
    # Other operators can also form products one by one, or several in each number, and sum them.
    sums = (_PRODUCTS, _CONVOLUTION)
    spare = sum(count for kind, count in elements.items() if kind not in sums)
    # The reference's own operators, such as one that returns indices, are no such work.
    own = {_kind(each.name) for each in essential}
    packed = sum(work.held - work.elements for work in ran if _kind(work.name) not in {*sums, *own})
    for number, each in enumerate(essential):
        missing = round((1.0 - left[number]) * each.products)
        if 0 < _MOST_SHARE * missing <= spare + packed:
            spare -= max(0, missing - packed)
            packed = max(0, packed - missing)
            left[number] = 1.0
    return left, max(0, spare)


def _known_by_size_first(
    essential: Sequence[ReferenceOperation], ran: Sequence[Work]
) -> Sequence[int]:
    """Return the indices of the reference's operators, in the order in which work is assigned.

    An operator comes first if torch ran an operator of the same kind and size.
    """
    calls: Counter[tuple[str, bool, int]] = Counter()
    for work in ran:
        total = work.multiplied or work.elements
        calls[_kind(work.name), bool(work.multiplied), total // work.count] += work.count
    known: list[int] = []
    others: list[int] = []
    for number, each in enumerate(essential):
        size = _kind(each.name), bool(each.products), _cost(each)
        (known if calls[size] > 0 else others).append(number)
        calls[size] -= 1
    return [*known, *others]


def _with_others(
    essential: Sequence[ReferenceOperation], left: Sequence[float], others: int
) -> Iterator[float]:
    """Yield, for each operator of the reference, the share of its work that torch does.

    Torch operators of other names count too, since they may replace the reference's operator. For
    example, an exponential, a sum and a quotient may replace a softmax.
    """
    for each, share in zip(essential, left, strict=True):
        missing = _OTHERS_FOR_ONE * (1.0 - share) * each.elements
        if each.products or not 0 < missing <= others:
            yield share
        else:
            others -= round(missing)
            yield 1.0


def _of_left(
    left: Sequence[float],
    essential: Sequence[ReferenceOperation],
    ran: Sequence[Work],
    source: str,
) -> Iterator[str]:
    """Yield a message if the submission leaves all of the reference's operators to torch."""
    most = _MOST_OF_ONE if len(essential) == 1 else _MOST_SHARE
    if not left or min(left) < most:
        return
    names = ", ".join(dict.fromkeys(_name_of(each, ran, source) for each in essential))
    if min(left) < _MOST_SHARE:
        yield (
            f"torch ran {names} on {percent(min(left))} of the data; the reference does "
            "nothing else"
        )
    else:
        yield f"torch ran {names}, which is all that the reference does"


def _name_of(operation: ReferenceOperation, ran: Sequence[Work], source: str) -> str:
    """Return the name of an operator of the reference that torch ran, or of a look-up in its place.

    For a look-up by another name, both names are returned.
    """
    own = plain_name(operation.name)
    others = [each.name for each in ran if _kind(each.name) == _LOOK_UP]
    if _kind(operation.name) != _LOOK_UP or own in map(plain_name, others) or not others:
        return called_as(operation.name, source)
    most = max(ran, key=lambda each: each.elements if each.name in others else -1)
    return f"{most.name} in place of {operation.name}"


def _of_others(
    essential: Sequence[ReferenceOperation],
    ran: Sequence[Work],
    output: Tensor,
    source: str,
    *,
    left: Sequence[float],
    is_all: bool,
) -> Iterator[str]:
    """Yield messages about torch operators that ran and that the reference does not call.

    Args:
        essential: The reference's operators.
        ran: The operators that torch ran.
        output: Output of the call.
        source: The submission's text.
        left: The share of each of the reference's operators that torch ran.
        is_all: True if torch's operators account for all work of the reference.
    """
    known = {_kind(each.name) for each in essential}
    others = [work for work in ran if _kind(work.name) not in known]
    for name in dict.fromkeys(work.name for work in others if is_library(work.name)):
        yield f"{called_as(name, source)} ran, so a library did the work"
    by_name = Counter[str]()
    for work in others:
        by_name[work.name] += 0 if is_library(work.name) else work.elements
    made = by_name.total()
    whole = max(essential[0].elements, output.numel()) if len(essential) == 1 else 0
    # Names with few numbers count less. A dozen operators on one number for each channel may
    # prepare or finish a norm, however small the channels are.
    telling = sum(count for count in by_name.values() if count >= _LEAST_OF_NAME * whole)
    if whole and left[0] >= _PART_OF_ONE:
        telling = made + round(left[0] * whole)
    if whole and (telling >= _MOST_SHARE * whole or made >= _MOST_OF_ALL_NAMES * whole):
        names = ", ".join(sorted({work.name for work in others}))
        yield (
            f"torch operators computed {made:,} numbers ({names}); the output has "
            f"{output.numel():,}"
        )
    elif is_all and made:
        names = ", ".join(sorted({work.name for work in others}))
        yield (
            f"torch operators computed {made:,} numbers ({names}), so its own kernels "
            "computed nothing of the reference"
        )


def _of_writers(writers: Tensor, during: Sequence[Work]) -> Iterator[str]:
    """Yield a message if the submission's kernels wrote no element of the output.

    There is no message for an output of a few numbers, if the host read a few bytes. The host may
    then have made the output from a kernel's results.
    """
    read = sum(work.elements for work in during if work.name == TO_HOST)
    is_number = writers.numel() <= _MOST_NUMBERS_BY_HOST and 0 < read <= _MOST_BYTES_BY_HOST
    if not is_number and not bool((writers == KERNEL).any()):
        yield "no element of the output comes from its own kernels"
