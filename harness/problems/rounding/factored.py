"""The two operands of a reference that is one sum of products, found in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from harness.problems.bounds import Traced
from harness.problems.factors import Factor

_ATEN = torch.ops.aten
_PRODUCTS: Mapping[Any, tuple[int, int]] = {
    _ATEN.mm.default: (0, 1),
    _ATEN.bmm.default: (0, 1),
    _ATEN.addmm.default: (1, 2),
    _ATEN.baddbmm.default: (1, 2),
    _ATEN.convolution.default: (0, 1),
}
"""Operators that sum products, and the positions of their two operands among the arguments."""
# Operators whose result has only numbers of their first operand, and zeros.
_MOVING = frozenset(
    {
        _ATEN.t.default,
        _ATEN.transpose.int,
        _ATEN.permute.default,
        _ATEN.reshape.default,
        _ATEN.squeeze.dim,
        _ATEN.squeeze.dims,
        _ATEN.unsqueeze.default,
        _ATEN.expand.default,
        _ATEN.slice.Tensor,
        _ATEN.select.int,
        _ATEN.clone.default,
        _ATEN.diagonal.default,
        _ATEN.diag_embed.default,
        _ATEN.triu.default,
        _ATEN.tril.default,
    }
)
# The test for lost bits (`judging.kept_bits`) needs rounding errors of independent signs, so the
# numbers have to differ. Some of many uniform numbers of 24 bits are equal, and a symmetric matrix
# has each twice.
_LEAST_DISTINCT = 0.6
_MOST_ALIKE = 16
# More numbers take too long to sort.
_MOST_NUMBERS = 1 << 24


def factors_of(traced: Traced) -> tuple[Factor, ...]:
    """Return the operands of a reference's only matrix product, or of its only convolution.

    The sums may have a bias. Except for moving elements, such as by a transpose, the reference must
    not compute anything else. The numbers within each operand must mostly differ.

    Returns:
        Both operands, or nothing if the reference does not fit.
    """
    calls = [node for node in traced.graph.graph.nodes if node.op == "call_function"]
    products = [node for node in calls if node.target in _PRODUCTS]
    others = [node for node in calls if node.target not in _PRODUCTS]
    if len(products) != 1 or not all(node.target in _MOVING for node in others):
        return ()
    given = [node for node in traced.graph.graph.nodes if node.op == "placeholder"]
    operands = [products[0].args[place] for place in _PRODUCTS[products[0].target]]
    sources = [_source(operand) for operand in operands]
    if sources[0] is sources[1] or not all(source in given for source in sources):
        return ()
    places = [given.index(source) for source in sources if source is not None]
    if not all(_is_drawn(traced.tensors[place]) for place in places):
        return ()
    plain = [_Operand(traced, traced.tensors, place) for place in places]
    # If all numbers of an operand are cut off, the output shifts in proportion to their last bits.
    # Both operands' shifts are taken out of the errors before these are tested.
    shifts = torch.stack([each.image(_last_places(each.values)).flatten() for each in plain], 1)
    even = torch.linalg.qr(shifts)[0]
    return tuple(
        Factor(
            traced.names[place],
            traced.tensors[place].float(),
            _Operand(traced, _around_mean(traced.tensors, other), place).image,
            _Operand(traced, _around_mean(traced.tensors, other), place, even).adjoint,
        )
        for place, other in zip(places, reversed(places), strict=True)
    )


def _source(operand: Any) -> Node | None:
    """Return the graph's node whose elements an operand only rearranges; None if there is none."""
    while isinstance(operand, Node) and operand.target in _MOVING:
        operand = operand.args[0]
    return operand if isinstance(operand, Node) else None


def _around_mean(tensors: Sequence[Tensor], place: int) -> Sequence[Tensor]:
    """Return the tensors, with the mean of the tensor at index `place` subtracted from it.

    Otherwise, the mean of an operand of positive numbers would dominate each output. The mean has
    the same effect for all numbers of the other operand, and would hide how these numbers differ.
    """
    changed = [*tensors]
    changed[place] = changed[place] - changed[place].mean()
    return changed


def _last_places(values: Tensor) -> Tensor:
    """Return, for each value, a number proportional to one unit in the value's last place."""
    return torch.ldexp(values.sign(), torch.frexp(values)[1])


@dataclass(frozen=True)
class _Operand:
    """One of the two operands of the reference's sums of products.

    Attributes:
        traced: The traced reference.
        tensors: The arguments of the traced graph.
        place: Index of the operand in `tensors`.
        even: Two orthonormal columns. They span the output errors that arise if all numbers of the
            first operand, or all of the second, are truncated. `adjoint` removes these errors,
            since they do not show lost bits. If `even` is None, `adjoint` removes nothing.
    """

    traced: Traced
    tensors: Sequence[Tensor]
    place: int
    even: Tensor | None = None

    @property
    def values(self) -> Tensor:
        """The operand's elements; float64."""
        return self.tensors[self.place]

    def image(self, values: Tensor) -> Tensor:
        """Return the output for other values of the operand, minus the output for zeros."""
        return self._output(values) - self._output(torch.zeros_like(values))

    def adjoint(self, errors: Tensor) -> Tensor:
        """Return the adjoint of `image`, applied to errors minus their projection onto `even`."""
        if self.even is not None:
            flat = errors.flatten()
            errors = (flat - self.even @ (self.even.T @ flat)).view_as(errors)
        with torch.enable_grad():
            values = torch.zeros_like(self.values, requires_grad=True)
            (gradient,) = torch.autograd.grad(self._output(values), values, errors)
        return gradient

    def _output(self, values: Tensor) -> Tensor:
        """Return the reference's output with `values` in place of the operand."""
        given = [*self.tensors]
        given[self.place] = values
        output: Tensor = self.traced.graph(*given)
        return output


def _is_drawn(values: Tensor) -> bool:
    """Return whether most non-zero numbers of a tensor are distinct, as random numbers are."""
    if not values.is_floating_point() or values.numel() > _MOST_NUMBERS:
        return False
    numbers = values[values != 0].abs()
    if not len(numbers):
        return False
    distinct, counts = numbers.unique(return_counts=True)  # type: ignore[no-untyped-call]
    return len(distinct) >= _LEAST_DISTINCT * len(numbers) and int(counts.max()) <= _MOST_ALIKE
