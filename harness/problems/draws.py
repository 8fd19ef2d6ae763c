"""Tensors drawn at random: inputs by their distribution, and sets of weights.

All from a generator that the caller has seeded, and on its device.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor, nn

from harness.problems.configuration import Configuration
from harness.problems.runs import Distribution

DrawWeights = Callable[[nn.Module, Configuration, Generator], dict[str, Tensor]]
"""Draws one set of weights: from a `Model` as initialised, the configuration that it was built
with, and where numbers come from, to weights by their name in its state_dict."""

# Integers of which 4096 sum to less than 2**24, which float32 still holds.
LARGEST_EXACT = 4095
# Above, float16 overflows: who computes in it is of that class, and not wrong.
_MOST_EXACT = 2**15 - 1
_BEYOND_FLOAT32 = 2**24
# Times a few, it is what float16 holds, whose users are of that class and not wrong.
_FAR_LARGER = 2.0**13
# Its exponential is what float32 holds.
_RATHER_LARGER = 80.0
# Of more, products of numbers below 1 are soon too small to see.
_FEW = 1 << 8
# What two parts of 11 bits hold (3xTF32), wherever they are cut.
WIDEST_EXACT = 2**22 - 1


def drawn_alike(
    configuration: Configuration,
    distribution: Distribution,
    generator: Generator,
    largest_exact: int,
) -> tuple[Tensor, ...]:
    """Draw a configuration's inputs, all of one distribution; `largest_exact` as in `exact`."""
    return tuple(
        _draw(distribution, shape, getattr(torch, dtype), generator, largest_exact)
        for shape, dtype in zip(configuration.input_shapes, configuration.input_dtypes, strict=True)
    )


def _draw(
    distribution: Distribution,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    generator: Generator,
    largest_exact: int,
) -> Tensor:
    """Draw an input; one that is not of floating-point numbers is of 0 and 1 alone."""
    if not dtype.is_floating_point:
        # 0 and 1 are valid as a class, an index and a truth value alike.
        return torch.randint(0, 2, shape, generator=generator, device=generator.device).to(dtype)
    if distribution == "exact":
        return exact(shape, generator, largest_exact).to(dtype)
    return drawn(distribution, shape, generator).to(dtype)


def drawn(distribution: Distribution, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw float32 numbers; where they are the reference's own, [0, 1) stands for those."""
    return _DISTRIBUTIONS[distribution](shape, generator)


def touch(values: Tensor, generator: Generator) -> None:
    """Put another number at one place of a tensor that has any."""
    if values.numel():
        place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
        flat = values.view(-1)
        flat[place] = _another(flat[place])


def _another(values: Tensor) -> Tensor:
    """Other values than these, of their kind."""
    if values.dtype is torch.bool:
        return ~values
    return (values + 0.5) % 1 if values.is_floating_point() else 1 - values


def largest_exact(terms: int) -> int:
    """Give the largest odd number of which so many, and a bias, have sums that float32 holds.

    >>> largest_exact(1), largest_exact(300), largest_exact(4095)
    (32767, 32767, 4095)
    """
    return min((_BEYOND_FLOAT32 - LARGEST_EXACT) // terms - 1 | 1, _MOST_EXACT)


def exact(shape: tuple[int, ...], generator: Generator, highest: int = LARGEST_EXACT) -> Tensor:
    """Odd integers of either sign, 12 bits or more: TF32 and float16 hold 11, and round them.

    Args:
        shape: The tensor's.
        generator: Where they come from.
        highest: The largest of them, odd; the smallest is about half of it. Those that float16
            has no room for are divided by a power of two, so that all are below 1.
    """
    lowest = highest // 2 | 1
    odd = _counted((highest - lowest) // 2 + 1, shape, generator).mul_(2).add_(lowest)
    if highest > _MOST_EXACT:
        odd.div_(highest + 1)
    return odd.mul_(_signs(shape, generator))


def _counted(count: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Integers from 0 on, as float32: inputs of gigabytes have no room for wider ones."""
    return torch.empty(shape, device=generator.device).random_(0, count, generator=generator)


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """1 and -1."""
    return _counted(2, shape, generator).mul_(2).sub_(1)


def as_initialised(model: nn.Module, _: Configuration, __: Generator) -> dict[str, Tensor]:
    """The weights that `Model` initialises itself to."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def moved(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Parameters up to 0.1 above another initialisation's, which may be the same as the first.

    A norm's weights are ones, however they are initialised.
    """
    weights = as_initialised(model, configuration, generator)
    for name, _ in model.named_parameters():
        weights[name] += 0.1 * torch.rand(
            weights[name].shape, generator=generator, device=generator.device
        )
    return weights


def whole(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Small integers for parameters, and buffers as initialised."""
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        weights[name] = _integers(tuple(value.shape), generator).to(value.dtype)
    return weights


def sparse(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Two terms for each row of a parameter that is a matrix or more; biases around their own.

    A bound grows in every layer with the sum of the absolute weights, and numbers with the root of
    their squares: with many small weights there is nothing left to see of a deep model.
    """
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        if is_matrix(value):
            weights[name] = _two_in_each_row(tuple(value.shape), generator).to(value.dtype)
        else:
            weights[name] += _uniform(tuple(value.shape), generator) - 0.5
    return weights


def is_matrix(parameter: Tensor) -> bool:
    """Whether a parameter has rows of more than two numbers, of which some can be left out."""
    return parameter.dim() > 1 and parameter[:1].numel() > 2


def _two_in_each_row(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Numbers of either sign between 0.5 and 1 at two places of each row, and else 0.

    The places are random, but for every fourth row's last: what is left out most often is that.
    """
    rows = torch.zeros(shape, device=generator.device).flatten(1)
    kept = (rows.shape[0], 2)
    places = torch.randint(rows.shape[1], kept, generator=generator, device=generator.device)
    places[::4, 1] = rows.shape[1] - 1
    rows.scatter_(1, places, _signs(kept, generator) * (0.5 + 0.5 * _uniform(kept, generator)))
    return rows.view(shape)


def _uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device)


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Values of both signs, whose products cancel in the sums."""
    return torch.randn(shape, generator=generator, device=generator.device)


def _impulse(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """A single 1 at a random place: the output is one column of weights, and else the bias."""
    values = torch.zeros(shape, device=generator.device)
    if not values.numel():
        return values
    place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
    values.view(-1)[place] = 1.0
    return values


def _small(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return _uniform(shape, generator) * 1e-3


def _large(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Of either sign: an exponential overflows on one side, and what starts at 0 fails on one."""
    return _positive(shape, generator).mul_(_signs(shape, generator))


def _positive(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Of 8 bits, so that no class rounds them: by more than all that depends on them, maybe.

    They are of one magnitude, between 1e3 and 6e4; float16 ends at 65504.
    """
    return (_uniform(shape, generator) * _magnitude(3, 4.8, generator)).bfloat16().float()


def _tiny(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Of one magnitude, between 1e-20 and 1e-3: who drops what is small drops all of it."""
    return _uniform(shape, generator) * _magnitude(-20, -3, generator)


def _huge(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Of one magnitude, between 1e3 and 1e30: their sums are still far from float32's largest."""
    return _uniform(shape, generator) * _magnitude(3, 30, generator)


def _magnitude(lowest: float, highest: float, generator: Generator) -> float:
    """A number between two powers of ten, which are given; any order of magnitude is as likely."""
    drawn = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    return float(10 ** (lowest + (highest - lowest) * drawn))


def _ties(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """A few values, each of which comes often: the largest is never alone.

    Many are 1 and -1 alone: one that is missing shows in a product of thousands, too.
    """
    if math.prod(shape) > _FEW:
        return _signs(shape, generator)
    return (
        torch.randint(-2, 3, shape, generator=generator, device=generator.device).to(torch.float32)
        / 2
    )


def _integers(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Integers of either sign whose products and sums stay integers that float32 holds."""
    return torch.randint(-7, 8, shape, generator=generator, device=generator.device).to(
        torch.float32
    )


def _spike(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """A number that is larger than all others, and far larger ones at the ends, of both signs."""
    values = _normal(shape, generator)
    if values.numel() > 1:
        place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
        values.view(-1)[place] = 100.0
        sign = _signs((1,), generator)
        _set_ends(values, torch.cat((-sign, -sign, sign)) * _FAR_LARGER, generator)
    return values


def _bump(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """The same of positive numbers, none of which is too large for an exponential."""
    values = _uniform(shape, generator)
    if values.numel() > 1:
        _set_ends(values, torch.full((3,), _RATHER_LARGER, device=generator.device), generator)
    return values


def _set_ends(values: Tensor, ends: Tensor, generator: Generator) -> None:
    """Set the last number of the first slice, the first of the last one, and its last.

    In all dimensions but the first, two of them are at the end. In two tensors they differ, by up
    to a half; all are of 8 bits, which bfloat16 holds: it would know nothing beside them else.
    """
    size = values[0].numel()
    heights = ends * (1 - _counted(64, (3,), generator) / 128)
    for place, height in zip((size - 1, -size, -1), heights, strict=True):
        values.view(-1)[place] = height


_DISTRIBUTIONS: Mapping[Distribution, Callable[[tuple[int, ...], Generator], Tensor]] = {
    "own": _uniform,
    "uniform": _uniform,
    "normal": _normal,
    "impulse": _impulse,
    "small": _small,
    "large": _large,
    "positive": _positive,
    "tiny": _tiny,
    "huge": _huge,
    "ties": _ties,
    "integers": _integers,
    "spike": _spike,
    "bump": _bump,
    "exact": exact,
}
