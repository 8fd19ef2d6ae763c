"""Descriptions of wrong outputs without a known mistake: one factor for all, or one wrong part.

A part is reported only if it is the same in every wrong output, and all wrong elements lie in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

# Sizes by which kernels divide an output: warps, blocks and tiles, the largest first.
_TILES = (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2)
# The fewest outputs that have right elements outside a part.
_ENOUGH_OUTPUTS = 3
# The fewest dimensions of an output with channels and rows.
_DIMENSIONS = 2
# The fewest positions with one remainder. Fewer share some remainder by chance.
_ENOUGH_PLACES = 3

_FLAT = "element"
# The fewest elements of a block of threads. What blocks leave out of the flat output begins behind
# the first block.
_LEAST_BLOCK = 32

Words = tuple[str, str]
_AXES: Mapping[Words, Callable[[Tensor], Tensor]] = {
    ("position", "positions"): lambda mask: mask.flatten(0, -2).any(0),
    ("output channel", "output channels"): lambda mask: mask.movedim(1, 0).flatten(1).any(1),
    ("row", "rows of the batch"): lambda mask: mask.flatten(1).any(1),
    (_FLAT, "elements of the flat output"): lambda mask: mask.flatten(),
}
"""Reductions of a mask (batch, channels, ..., length) to one axis, by the words for that axis.

The result is true at each index of the axis at which the mask holds anywhere.
"""


def factor_of(actual: Sequence[Tensor], right: Sequence[Tensor]) -> float | None:
    """Return the factor from right to actual outputs, fitted by least squares.

    The caller must check how well the factor fits.

    Args:
        actual: Outputs, float64.
        right: The right outputs, of the same shapes.

    Returns:
        The factor; None if all right outputs are 0.
    """
    products = sum(float((a * r).sum()) for a, r in zip(actual, right, strict=True))
    squares = sum(float((r * r).sum()) for r in right)
    return products / squares if squares > 0 else None


def where_wrong(masks: Sequence[Tensor]) -> str:
    """Describe the part of an output in which all wrong elements lie; empty if there is none.

    Args:
        masks: For each output, a mask of its wrong elements, of shape (batch, channels, ...,
            length).
    """
    if any(mask.dim() < _DIMENSIONS or not bool(mask.any()) for mask in masks):
        return ""
    return next(
        filter(None, (_shared([along(m) for m in masks], words) for words, along in _AXES.items())),
        "",
    )


def where_wrong_along(masks: Sequence[Tensor]) -> str:
    """Describe the part in which all wrong elements lie: a dimension's number, and its indices.

    Args:
        masks: For each output, a mask of its wrong elements.
    """
    if any(not mask.dim() or not bool(mask.any()) for mask in masks):
        return ""
    for dim in reversed(range(masks[0].dim())):
        lines = [mask.movedim(dim, 0).reshape(mask.shape[dim], -1).any(1) for mask in masks]
        part = _shared(lines, ("index", "indices"))
        if part:
            return f"along dimension {dim} {part}"
    return _shared([mask.flatten() for mask in masks], (_FLAT, "elements of the flat output"))


def _shared(lines: Sequence[Tensor], words: Words) -> str:
    """Describe the part of an axis that contains the errors of all outputs; empty if none does."""
    if any(bool(line.all()) for line in lines):
        return ""
    told = [list(_parts(line, *words)) for line in lines]
    return next((part for part in told[0] if all(part in each for each in told)), "")


def which_part(masks: Sequence[Tensor], parts: Sequence[Mapping[str, Tensor]]) -> str:
    """Return the name of the given part in which all wrong elements lie; empty if there is none.

    Args:
        masks: For each output, a mask of its wrong elements.
        parts: For each output, masks of its parts by name. The names are the same for all outputs,
            and the masks broadcast to the output's shape.
    """
    for words in parts[0]:
        known = [each[words].expand(mask.shape) for each, mask in zip(parts, masks, strict=True)]
        if any(bool((mask & ~part).any()) for mask, part in zip(masks, known, strict=True)):
            continue
        # An output that lies in the part as a whole is no evidence for it.
        if sum(not bool(part.all()) for part in known) >= _ENOUGH_OUTPUTS:
            return words
    return ""


def _parts(line: Tensor, one: str, many: str) -> Iterator[str]:
    """Yield descriptions of parts of an axis that contain all wrong positions, best first."""
    size = len(line)
    places = line.nonzero().flatten()
    first, last = int(places[0]), int(places[-1])
    if one == _FLAT and first < _LEAST_BLOCK:
        # A mistake at one end of each row also begins here in the flat output.
        return
    if len(places) >= _ENOUGH_PLACES:
        for step in _TILES:
            remainders = torch.unique(places % step)
            if len(remainders) == 1:
                yield f"at {many} with remainder {int(remainders)} modulo {step}"
    if first > 0:
        yield f"from {one} {first} on"
        yield f"in the last {size - first} {many}" if first < size - 1 else f"at the last {one}"
    if last < size - 1:
        yield f"at {one} 0" if last == 0 else f"up to {one} {last}"
        yield f"before the last {size - 1 - last} {many}"
    for tile in _TILES:
        if size > tile and size % tile and first >= size // tile * tile:
            yield f"in the last, incomplete {tile} {many}"
