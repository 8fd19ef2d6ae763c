"""Random tensors: inputs of a given distribution, and sets of weights.

All numbers come from a generator that the caller has seeded, and are made on its device.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor, nn

from harness.problems.configuration import Configuration
from harness.problems.runs import Distribution

DrawWeights = Callable[[nn.Module, Configuration, Generator], dict[str, Tensor]]
"""A function that draws one set of weights.

Its arguments are a `Model` as initialised, the configuration of that model, and the generator. It
returns the weights by their names in the state_dict.
"""

# A sum of 4096 integers up to this size is below 2**24, so float32 represents it exactly.
LARGEST_EXACT = 4095
# Larger integers overflow float16. A kernel that computes in float16 must get class fp16, and not
# be found wrong.
_MOST_EXACT = 2**15 - 1
_BEYOND_FLOAT32 = 2**24
# A small multiple of it still fits into float16. A kernel that computes in float16 must get class
# fp16, and not be found wrong.
_FAR_LARGER = 2.0**13
# float32 can represent the exponential of this number.
_RATHER_LARGER = 80.0
# A product of more numbers below 1 is soon too small to be visible.
_FEW = 1 << 8
# Two parts of 11 bits represent integers of this size exactly, wherever they are split (3xTF32).
WIDEST_EXACT = 2**22 - 1


def drawn_alike(
    configuration: Configuration,
    distribution: Distribution,
    generator: Generator,
    largest_exact: int,
) -> tuple[Tensor, ...]:
    """Return a configuration's inputs, all of one distribution; `largest_exact` as in `exact`."""
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
    """Return one input; a tensor that is not floating point contains only 0 and 1."""
    if not dtype.is_floating_point:
        # 0 and 1 are valid as a class, as an index and as a truth value.
        return torch.randint(0, 2, shape, generator=generator, device=generator.device).to(dtype)
    if distribution == "exact":
        return exact(shape, generator, largest_exact).to(dtype)
    return drawn(distribution, shape, generator).to(dtype)


def drawn(distribution: Distribution, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return float32 numbers of a distribution; uniform ones in [0, 1) for the reference's own."""
    return _DISTRIBUTIONS[distribution](shape, generator)


def with_zeros(values: Tensor, generator: Generator) -> Tensor:
    """Return a tensor with a quarter of its pairs of neighbours in the last dimension joined.

    The second number of such a pair is 0, and the first is their sum. So the rows of a distribution
    remain distributions.
    """
    if not values.dim() or values.shape[-1] < 2:
        return values
    joined = values.clone()
    firsts, seconds = joined[..., 0:-1:2], joined[..., 1::2]
    is_one = _counted(4, tuple(seconds.shape), generator) == 0
    # At least one pair is joined.
    is_one.view(-1)[:1] = True
    firsts += torch.where(is_one, seconds, 0.0)
    seconds.masked_fill_(is_one, 0.0)
    return joined


def touch(values: Tensor, generator: Generator) -> None:
    """Replace one random element of a tensor, unless the tensor is empty."""
    if values.numel():
        place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
        flat = values.view(-1)
        flat[place] = _another(flat[place])


def _another(values: Tensor) -> Tensor:
    """Return values of the same dtype that differ from the given ones."""
    if values.dtype is torch.bool:
        return ~values
    return (values + 0.5) % 1 if values.is_floating_point() else 1 - values


def largest_exact(terms: int) -> int:
    """Return the largest odd number for exact sums of `terms` such numbers and a bias in float32.

    >>> largest_exact(1), largest_exact(300), largest_exact(4095)
    (32767, 32767, 4095)
    """
    # The bias takes up to LARGEST_EXACT of the range. `- 1 | 1` rounds down to an odd number.
    return min((_BEYOND_FLOAT32 - LARGEST_EXACT) // terms - 1 | 1, _MOST_EXACT)


def exact(shape: tuple[int, ...], generator: Generator, highest: int = LARGEST_EXACT) -> Tensor:
    """Return odd integers of either sign with 12 bits or more.

    TF32 and float16 have 11 bits, so they round these integers; float32 does not.

    Args:
        shape: Shape of the tensor.
        generator: The random generator.
        highest: The largest of the integers, odd; the smallest is about half of it. Integers too
            large for float16 are divided by a power of two, so that all are below 1.
    """
    lowest = highest // 2 | 1
    odd = _counted((highest - lowest) // 2 + 1, shape, generator).mul_(2).add_(lowest)
    if highest > _MOST_EXACT:
        odd.div_(highest + 1)
    return odd.mul_(_signs(shape, generator))


def _counted(count: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return integers in [0, count) as float32.

    Inputs of gigabytes leave no memory for a wider type.
    """
    return torch.empty(shape, device=generator.device).random_(0, count, generator=generator)


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return random signs, 1 and -1."""
    return _counted(2, shape, generator).mul_(2).sub_(1)


def as_initialised(model: nn.Module, _: Configuration, __: Generator) -> dict[str, Tensor]:
    """Return the weights that `Model` initialises itself with."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def moved(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Return new initial weights with parameters raised by up to 0.1.

    A new initialisation alone may equal the first: a norm's weights are always ones.
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
    """Return small integers as parameters, and buffers as initialised."""
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        weights[name] = _integers(tuple(value.shape), generator).to(value.dtype)
    return weights


def sparse(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Return weights with two non-zero elements in each row of a matrix.

    Other parameters stay within 0.5 of their initial value. Every layer multiplies the error bound
    by the sum of the absolute weights, but values only by the root of the sum of squares. With many
    small weights, the bound of a deep model therefore exceeds its output. With two terms a row, the
    bound stays informative.
    """
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        if is_matrix(value):
            weights[name] = _two_in_each_row(tuple(value.shape), generator).to(value.dtype)
        else:
            weights[name] += _uniform(tuple(value.shape), generator) - 0.5
    return weights


def is_matrix(parameter: Tensor) -> bool:
    """Return whether a parameter has rows of more than two elements, so that some can be 0."""
    return parameter.dim() > 1 and parameter[:1].numel() > 2


def _two_in_each_row(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return a matrix that is 0 except for two elements of each row, which have 0.5 <= |x| <= 1.

    Their positions are random. In every fourth row one of them is the last, because kernels most
    often omit the end of a row.
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
    """Return values of both signs, whose products cancel in sums."""
    return torch.randn(shape, generator=generator, device=generator.device)


def _impulse(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return a single 1 at a random position.

    The output of a linear model is then one column of weights, and elsewhere the bias.
    """
    values = torch.zeros(shape, device=generator.device)
    if not values.numel():
        return values
    place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
    values.view(-1)[place] = 1.0
    return values


def _small(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return _uniform(shape, generator) * 1e-3


def _large(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return large numbers of either sign.

    An exponential overflows for one sign, and a maximum that starts at 0 fails for the other.
    """
    return _positive(shape, generator).mul_(_signs(shape, generator))


def _positive(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return positive numbers of one magnitude between 1e3 and 6e4; float16 ends at 65504.

    They have 8 bits, so that no precision class rounds them. A rounding of such large inputs could
    exceed everything that depends on them.
    """
    return (_uniform(shape, generator) * _magnitude(3, 4.8, generator)).bfloat16().float()


def _tiny(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return numbers of one magnitude between 1e-20 and 1e-3.

    A kernel that drops small numbers drops all of them.
    """
    return _uniform(shape, generator) * _magnitude(-20, -3, generator)


def _huge(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return numbers of one magnitude between 1e3 and 1e30.

    Their sums are far below float32's largest number.
    """
    return _uniform(shape, generator) * _magnitude(3, 30, generator)


def _magnitude(lowest: float, highest: float, generator: Generator) -> float:
    """Return a number between 10**lowest and 10**highest, log-uniform."""
    drawn = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    return float(10 ** (lowest + (highest - lowest) * drawn))


def _ties(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return few distinct values, each of which occurs often, so that the maximum is never unique.

    Large tensors contain only 1 and -1: a factor that is missing then shows even in a product of
    thousands.
    """
    if math.prod(shape) > _FEW:
        return _signs(shape, generator)
    return (
        torch.randint(-2, 3, shape, generator=generator, device=generator.device).to(torch.float32)
        / 2
    )


def _integers(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return integers from -7 to 7; float32 represents their products and sums exactly."""
    return torch.randint(-7, 8, shape, generator=generator, device=generator.device).to(
        torch.float32
    )


def _spike(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return normal numbers with one much larger, and far larger ones of both signs at the ends."""
    values = _normal(shape, generator)
    if values.numel() > 1:
        place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
        values.view(-1)[place] = 100.0
        sign = _signs((1,), generator)
        _set_ends(values, torch.cat((-sign, -sign, sign)) * _FAR_LARGER, generator)
    return values


def _bump(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return positive numbers with larger ones at the ends, none too large for an exponential."""
    values = _uniform(shape, generator)
    if values.numel() > 1:
        _set_ends(values, torch.full((3,), _RATHER_LARGER, device=generator.device), generator)
    return values


def _set_ends(values: Tensor, ends: Tensor, generator: Generator) -> None:
    """Set the last element of the first slice, and both ends of the last slice.

    In all dimensions but the first, two of these are at the end. Their heights are reduced at
    random by up to a half, so that they differ between tensors. They have 8 bits, which bfloat16
    represents exactly. A rounding of such large numbers would hide everything beside them.
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
    "zeros": _bump,
    "first zeros": _bump,
    "later zeros": _bump,
    "exact": exact,
}
