"""Tests of `WatchingShapes`, which observes the operators of a call on the meta device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from harness.problems.watching import OperatorCall, WatchingShapes

Seen = list[tuple[str, list[tuple[Any, ...]]]]


class Recording(WatchingShapes):
    """A dispatch mode that records the result of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Seen = []

    def called(self, call: OperatorCall) -> None:
        """Record the operator, and the shape, strides and dtype of each tensor that it returns."""
        tensors = [each for each in tree_leaves(call.result) if isinstance(each, Tensor)]
        self.seen.append((str(call.func), [(x.shape, x.stride(), x.dtype) for x in tensors]))


def call(x: Tensor, n: Tensor) -> Tensor:
    """Run operators that return views, several results or other dtypes, or write in place."""
    x = torch.relu(x.mT.reshape(6, 4))
    largest, places = x.topk(2, dim=1)
    low, high = torch.chunk(x, 2, dim=1)
    x = torch.cat([low.add_(high).sigmoid_(), largest * (n + 1).sum()], 1)
    shape_changed = x.clone().t_().unsqueeze_(0).squeeze_(0)
    result: Tensor = x @ shape_changed + (n + 1.0).mean() + places.sum() + torch.zeros(6, 6)
    return result


def test_what_is_known_is_as_though_it_were_worked_out() -> None:
    """The cached shapes, strides and dtypes of a repeated call equal those of the first call.

    This also holds after a call with other strides.
    """
    with torch.device("meta"), torch.no_grad():
        inputs = torch.empty(4, 6), torch.empty(3, dtype=torch.int64)
        first, again = Recording(), Recording()
        with first:
            call(*inputs)
        with again:
            call(*inputs)
            call(inputs[0].mT.contiguous().mT, inputs[1])
            again.seen.clear()
            output = call(*inputs)
    assert again.seen == first.seen
    assert (output.shape, output.dtype, output.is_meta) == ((6, 6), torch.float32, True)
    assert ("aten.add.Tensor", [((3,), (1,), torch.int64)]) in first.seen
    assert ("aten.add.Tensor", [((3,), (1,), torch.float32)]) in first.seen
