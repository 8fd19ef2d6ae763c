"""What wrong outputs show where no mistake is known: all of them off alike, or wrong in one part.

A part is told only if in every wrong output it is the same, and all that is wrong lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

# What kernels divide an output by: warps, blocks and tiles, the largest first.
_TILES = (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2)
_ENOUGH_OUTPUTS = 3
# Of an output that has channels and rows.
_DIMENSIONS = 2
# Of places with one remainder; fewer have some remainder in common by chance.
_ENOUGH_PLACES = 3

_FLAT = "element"
# Of the flat output: what blocks of threads leave out begins behind the first.
_LEAST_BLOCK = 32

Words = tuple[str, str]
_AXES: Mapping[Words, Callable[[Tensor], Tensor]] = {
    ("position", "positions"): lambda mask: mask.flatten(0, -2).any(0),
    ("output channel", "output channels"): lambda mask: mask.movedim(1, 0).flatten(1).any(1),
    ("row", "rows of the batch"): lambda mask: mask.flatten(1).any(1),
    (_FLAT, "elements of the flat output"): lambda mask: mask.flatten(),
}
"""Gives of a mask (batch, channels, ..., length) where along one axis it holds anywhere."""


def factor_of(actual: Sequence[Tensor], right: Sequence[Tensor]) -> float | None:
    """The one number that turns right outputs into the actual ones, if there is one.

    It is fitted, and says nothing of how near it comes.

    Args:
        actual: Outputs, float64.
        right: What they should be, of the same shapes.
    """
    products = sum(float((a * r).sum()) for a, r in zip(actual, right, strict=True))
    squares = sum(float((r * r).sum()) for r in right)
    return products / squares if squares > 0 else None


def where_wrong(masks: Sequence[Tensor]) -> str:
    """Say where all that is wrong lies, in words that hold of every output; empty for nowhere.

    Args:
        masks: Of each output (batch, channels, ..., length), what is wrong of it.
    """
    if any(mask.dim() < _DIMENSIONS or not bool(mask.any()) for mask in masks):
        return ""
    return next(
        filter(None, (_shared([along(m) for m in masks], words) for words, along in _AXES.items())),
        "",
    )


def where_wrong_along(masks: Sequence[Tensor]) -> str:
    """As `where_wrong`, of outputs whose dimensions have no meaning that is known."""
    if any(not mask.dim() or not bool(mask.any()) for mask in masks):
        return ""
    for dim in reversed(range(masks[0].dim())):
        lines = [mask.movedim(dim, 0).reshape(mask.shape[dim], -1).any(1) for mask in masks]
        part = _shared(lines, ("index", "indices"))
        if part:
            return f"along dimension {dim} {part}"
    return _shared([mask.flatten() for mask in masks], (_FLAT, "elements of the flat output"))


def _shared(lines: Sequence[Tensor], words: Words) -> str:
    """The part of an axis that says most among those which all that is wrong lies in."""
    if any(bool(line.all()) for line in lines):
        return ""
    told = [list(_parts(line, *words)) for line in lines]
    return next((part for part in told[0] if all(part in each for each in told)), "")


def which_part(masks: Sequence[Tensor], parts: Sequence[Mapping[str, Tensor]]) -> str:
    """Say in which known part all that is wrong lies; empty where it lies in none.

    Args:
        masks: Of each output, what is wrong of it.
        parts: Of each output its parts, by the same words; masks that broadcast to its shape.
    """
    for words in parts[0]:
        known = [each[words].expand(mask.shape) for each, mask in zip(parts, masks, strict=True)]
        if any(bool((mask & ~part).any()) for mask, part in zip(masks, known, strict=True)):
            continue
        # Of an output that lies in the part as a whole it says nothing.
        if sum(not bool(part.all()) for part in known) >= _ENOUGH_OUTPUTS:
            return words
    return ""


def _parts(line: Tensor, one: str, many: str) -> Iterator[str]:
    """Parts of an axis that all wrong places lie in; what says most comes first."""
    size = len(line)
    places = line.nonzero().flatten()
    first, last = int(places[0]), int(places[-1])
    if one == _FLAT and first < _LEAST_BLOCK:
        # Whatever is wrong at one end of a row is, in the flat output.
        return
    if len(places) >= _ENOUGH_PLACES:
        for step in _TILES:
            remainders = torch.unique(places % step)
            if len(remainders) == 1:
                yield f"at {many} that leave {int(remainders)} when divided by {step}"
    if first > 0:
        yield f"from {one} {first} on"
        yield f"in the last {size - first} {many}" if first < size - 1 else f"at the last {one}"
    if last < size - 1:
        yield f"at {one} 0" if last == 0 else f"up to {one} {last}"
        yield f"before the last {size - 1 - last} {many}"
    for tile in _TILES:
        if size > tile and size % tile and first >= size // tile * tile:
            yield f"in the last, incomplete {tile} {many}"
