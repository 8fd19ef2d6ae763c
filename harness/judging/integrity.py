"""Judgement of whether a submission's kernels did the work, by the number of products formed.

A finding of the check "own work" says that something other than the submission's kernels computed
the output, such as a library. The device records every operator of torch, kernel and copy of a
call, and the writer of each output element. For some families, the number of products that are
summed in an output is known. Forming these products is the work. Moving data, casting and padding
are not work. Adding a bias and scaling an input are a small share of the work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from harness.device.executor import KERNEL
from harness.device.operator_names import computes, is_library, looks_up
from harness.device.record import CHOSEN, FROM_HOST, IN_MODULES, TO_HOST, Work
from harness.device.requests import Evidence
from harness.finding import Check, Finding
from harness.judging.division import Division
from harness.judging.operators import called_as
from harness.messages.digests import digest
from harness.problems.families.interfaces import Need

CHECK: Final[Check] = "own work"

# Torch may form up to this share of the products, or up to this many for each number that goes in
# or comes out. A few passes over input, weight and output are preparation, however small the case
# is.
_MOST_SHARE = 0.25
_MOST_PASSES = 4
# The fewest floating-point operations of kernels for each product. Algorithms that save products
# save a small factor and not more.
_LEAST_OPERATIONS = 0.25
# Largest share of an output's bytes that may come from the host: four bits of each number, with
# which no precision class holds. Tables and sizes of a call may come in any case, up to the second
# constant.
_MOST_OF_OUTPUT = 1 / 8
LEAST_HOST_BYTES = 4096
"""Bytes that may go from the host to the device, or back, in any case."""

# Bytes of choices, such as addresses, that a call may make for each operator of the reference. A
# loop over steps launches kernels in each of them, and may have a small output.
_CHOICES_OF_AN_OPERATOR = 32
# Largest share of the inputs' bytes that may go to the host: eight bits of each number.
_MOST_OF_INPUTS = 1 / 4
_NUMBER_BYTES = 4
_MODE = re.compile(r"\bself\.training\b")


@dataclass(frozen=True)
class Judged:
    """The judgement of whether a call was the submission's own work.

    Attributes:
        findings: Signs that the call is not the submission's own work.
        share: The share of the work that the submission's kernels did; None if unknown.
        division: The work of torch and of the kernels; None if the number of products is known, or
            if the output is empty.
        is_of_torch: True if the findings are about work of torch's operators alone.
        left: Operators of the reference that are left to torch, in the source's words.
        movers: Operators of torch that moved many numbers, if the reference only moves numbers.
    """

    findings: tuple[Finding, ...]
    share: float | None
    division: Division | None = None
    is_of_torch: bool = False
    left: tuple[str, ...] = ()
    movers: tuple[str, ...] = ()


def judge_work(
    need: Need,
    during: Sequence[Work],
    before: Sequence[Work],
    output: Tensor,
    writers: Tensor | None,
    source: str = "",
) -> Judged:
    """Judge whether a submission's own kernels did the work of one call.

    Args:
        need: Number of products that the call sums, and numbers of elements of its operands.
        during: Operators, kernels and copies from the call's beginning to its end.
        before: Operators, kernels and copies between the previous call and this one.
        output: Output of the call, on the CPU.
        writers: For each element of the output, the kind of its writer, as in `Output.writers`.
            None if the submission's kernels need not have written every element.
        source: The submission's text; findings name operators as this text does.

    Returns:
        Findings if the call is not the submission's own work, and the share of the products that
        its kernels formed.
    """
    if not output.numel() or not need.products:
        return Judged((), None)
    everything = [*before, *during]
    library = [work for work in everything if _is_library(work)]
    torch_products = sum(work.multiplied or work.elements for work in library)
    torch_products += sum(work.held for work in everything if _computes(work))
    has_kernels = any(work.worker == "kernel" for work in during)
    from_host = [*output_from_host_messages(during, output)]
    share = 0.0
    if has_kernels and not from_host:
        share = max(0.0, 1.0 - torch_products / need.products)
    messages = [
        *_of_library(library, need, source),
        *_of_operators(everything, torch_products, need if not library else None),
        *([] if has_kernels else [no_kernel(source)]),
        *of_lookups(everything, need.products, need.numbers),
        *from_host,
        *operands_on_host_messages(
            during, _NUMBER_BYTES * need.inputs, _NUMBER_BYTES * (need.operands - need.inputs)
        ),
        *(_of_writers(writers, need) if writers is not None and has_kernels else ()),
    ]
    return Judged(tuple(Finding(CHECK, message) for message in messages), share)


def judge_arithmetic(need: Need | None, operations: int, when: str = "") -> tuple[Finding, ...]:
    """Return a finding if a call's kernels did too few operations for the output's products.

    Args:
        need: Number of products that the call sums, and numbers of elements of its operands; None
            if unknown.
        operations: Floating-point operations of all kernels of the call.
        when: Beginning of the message, such as a condition of the call; empty for none.
    """
    if need is None or operations >= _LEAST_OPERATIONS * need.products:
        return ()
    message = (
        f"{when}its kernels did only {operations:,} floating-point operations, but the "
        f"output needs {need.products:,} products"
    )
    return (Finding(CHECK, message),)


def changed_values(
    evidence: Evidence, inputs: Sequence[Tensor], weights: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return findings for inputs and weights that a call changed in place.

    Args:
        evidence: What the device did, with digests of inputs and weights after the call.
        inputs: Inputs before the call.
        weights: Digests of the weights before the call, by ModelNew's names.
    """
    found = []
    if evidence.inputs != tuple(digest(each) for each in inputs):
        found.append(Finding("state", "the input was changed in place"))
    now = evidence.weights
    changed = [name for name, before in weights.items() if now.get(name) != before]
    if changed:
        found.append(Finding("state", f"{', '.join(changed)} changed in place"))
    return tuple(found)


def _is_library(work: Work) -> bool:
    return work.worker == "operator" and is_library(work.name)


def _computes(work: Work) -> bool:
    return work.worker == "operator" and computes(work.name)


def _of_library(library: Sequence[Work], need: Need, source: str) -> Iterator[str]:
    """Yield a message for each library operator, such as a convolution, that torch ran."""
    multiplied: Counter[str] = Counter()
    for work in library:
        multiplied[work.name] += work.multiplied
    for operator, products in multiplied.items():
        name = called_as(operator, source)
        if not products:
            yield f"{name} ran, so a library did the work"
        else:
            yield (
                f"{name} did {percent(products / need.products)} of the work, not its own kernels"
            )


def _of_operators(everything: Iterable[Work], products: int, need: Need | None) -> Iterator[str]:
    """Yield a message if torch's operators formed too large a share of the output's products."""
    if need is None:
        return
    if products > max(_MOST_SHARE * need.products, _MOST_PASSES * need.numbers):
        names = ", ".join(sorted({work.name for work in everything if _computes(work)}))
        yield (
            f"torch operators computed {percent(products / need.products)} of the "
            f"products that the output needs ({names})"
        )


def of_lookups(everything: Iterable[Work], products: int, numbers: int) -> Iterator[str]:
    """Yield a message if torch looked up more numbers than there are products.

    So many lookups may have done the work. A table can replace products and sums of numbers of a
    few bits, with several lookups for each product. An element of 64 bits counts as several
    numbers (`Work.held`).

    Args:
        everything: Operators, kernels and copies of the call.
        products: Number of products that the output needs.
        numbers: Number of elements of the inputs, the weights and the output.
    """
    looked_up = sum(w.held for w in everything if w.worker == "operator" and looks_up(w.name))
    if looked_up > products + _MOST_PASSES * numbers:
        yield (
            f"torch operators looked up {looked_up:,} numbers in tables, for {products:,} products"
        )


def no_kernel(source: str) -> str:
    """Return the message for a call in which no kernel was launched.

    The message mentions the training mode if the source does. A submission may launch kernels in
    one mode only, and a new model is in training mode.

    Args:
        source: The submission's text.
    """
    said = "none of its own kernels was launched"
    if not _MODE.search(source):
        return said
    return f"{said}; the file uses self.training, and a new model is in training mode"


def output_from_host_messages(
    during: Sequence[Work], output: Tensor, operators: int = 1
) -> Iterator[str]:
    """Yield messages if the output, or device code that may contain it, came from the host.

    Args:
        during: Operators, kernels and copies from the call's beginning to its end.
        output: Output of the call.
        operators: Number of the reference's operators.
    """
    most = max(_MOST_OF_OUTPUT * output.nbytes, LEAST_HOST_BYTES)
    values, chosen, built = (
        sum(work.elements for work in during if work.name == name)
        for name in (FROM_HOST, CHOSEN, IN_MODULES)
    )
    came = values + max(0, chosen - _CHOICES_OF_AN_OPERATOR * operators)
    if built >= most:
        yield f"{built:,} bytes of device code were built during a later call than the first"
    if came >= most:
        yield (
            f"{came:,} bytes were copied from the host during the call; the output has "
            f"{output.nbytes:,} bytes"
        )


def operands_on_host_messages(during: Iterable[Work], inputs: int, weights: int) -> Iterator[str]:
    """Yield a message if a call copied so many operands to the host that the host may do the work.

    A submission may copy the weights alone, since it may change their layout on the host.

    Args:
        during: Operators, kernels and copies from the call's beginning to its end.
        inputs: Bytes of the inputs.
        weights: Bytes of the weights.
    """
    went = sum(work.elements for work in during if work.name == TO_HOST)
    if went >= max(weights + _MOST_OF_INPUTS * inputs, LEAST_HOST_BYTES):
        of_all = inputs + weights
        yield (
            f"{went:,} bytes were copied to the host during the call; inputs and weights have "
            f"{of_all:,} bytes"
        )


def _of_writers(writers: Tensor, need: Need) -> Iterator[str]:
    """Yield a message unless the submission's kernels wrote every element that sums products."""
    if writers.shape[-1:] != need.has_terms.shape:
        return
    by_kernels = (writers == KERNEL)[..., need.has_terms.to(writers.device)]
    if not bool(by_kernels.all()):
        yield (
            f"of {by_kernels.numel():,} output elements that have terms, only "
            f"{int(by_kernels.sum()):,} come from its own kernels"
        )


def percent(share: float) -> str:
    """Return a share as a percentage of three digits, 100 % at most."""
    return f"{100 * min(share, 1.0):.3g} %"
