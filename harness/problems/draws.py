"""Random tensors: inputs of a given distribution, and sets of weights.

The caller passes a seeded generator. All numbers are drawn from it, on the generator's device.
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
RATHER_LARGER = 80.0
"""A number that is far larger than 1, and whose exponential float32 can represent."""
# The number of elements for each peak of a long input.
_STRETCH = 1 << 10
_FEWEST_PEAKS = 8
# A product of more numbers below 1 is soon too small to be visible.
_FEW = 1 << 8
# Two parts of 11 bits represent integers of this size exactly, wherever they are split (3xTF32).
WIDEST_EXACT = 2**22 - 1
# Exponents of ten of normal numbers of float16, and of larger ones. Some kernels start a maximum
# from -1e9 or -1e10, which is good enough for any data.
_OF_HALF, _BEYOND_HALF = (-4.0, 4.75), (5.0, 9.0)
_LOG_10 = math.log(10.0)


def drawn_alike(
    configuration: Configuration,
    distribution: Distribution,
    generator: Generator,
    largest_exact: int,
) -> tuple[Tensor, ...]:
    """Draw all inputs of a configuration from one distribution.

    Only the distribution `exact` uses `largest_exact`, the largest integer that it may draw.
    """
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
    """Draw one input tensor; one that is not floating point contains only 0 and 1."""
    if not dtype.is_floating_point:
        # 0 and 1 are valid as a class, as an index and as a truth value.
        return torch.randint(0, 2, shape, generator=generator, device=generator.device).to(dtype)
    if distribution == "exact":
        return exact(shape, generator, largest_exact).to(dtype)
    return drawn(distribution, shape, generator).to(dtype)


def drawn(distribution: Distribution, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw float32 numbers from a distribution; for `own`, uniform numbers in [0, 1)."""
    return _DISTRIBUTIONS[distribution](shape, generator)


def with_zeros(values: Tensor, generator: Generator) -> Tensor:
    """Return a copy in which about a quarter of the pairs of neighbours become (sum, 0).

    A pair has two adjacent numbers of the last dimension. At least one pair is changed. The sum of
    each row stays, so a row that is a probability distribution remains one.
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
    """Replace one random element of a tensor in place; an empty tensor stays as it is."""
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
    """Return the largest odd integer L such that float32 sums `terms` integers up to L exactly.

    The sum may include a bias of up to 4095. L is at most 32767, within float16's range.

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
        highest: The largest absolute value, odd; the smallest one is about half of `highest`. If
            `highest` is too large for float16, all results are divided by a power of two, so that
            they are below 1.
    """
    lowest = highest // 2 | 1
    odd = _counted((highest - lowest) // 2 + 1, shape, generator).mul_(2).add_(lowest)
    if highest > _MOST_EXACT:
        odd.div_(highest + 1)
    return odd.mul_(_signs(shape, generator))


def _counted(count: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw integers in [0, count) as float32.

    They are drawn directly as float32: inputs of gigabytes leave no memory for a wider type.
    """
    return torch.empty(shape, device=generator.device).random_(0, count, generator=generator)


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw random signs, 1 and -1, as float32."""
    return _counted(2, shape, generator).mul_(2).sub_(1)


def as_initialised(model: nn.Module, _: Configuration, __: Generator) -> dict[str, Tensor]:
    """Return a copy of the weights with which `Model` was initialised."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def moved(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Return the initial weights, with a random number in [0, 0.1) added to each parameter element.

    The model is not just initialised again, because that might not change its weights. For example,
    the weights of a norm are always initialised to 1.
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
    """Return weights whose parameters are integers from -7 to 7; buffers stay as initialised."""
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        weights[name] = _integers(tuple(value.shape), generator).to(value.dtype)
    return weights


def sparse(
    model: nn.Module, configuration: Configuration, generator: Generator
) -> dict[str, Tensor]:
    """Return weights with at most two non-zero elements in each row of a matrix.

    Other parameters stay within 0.5 of their initial value. Every layer multiplies the error bound
    by a row's sum of absolute weights. The layer multiplies the values only by the root of the
    row's sum of squares. With many small weights, the bound of a deep model therefore exceeds its
    output. With two non-zero weights in each row, the bound stays small enough to reject wrong
    outputs.
    """
    weights = as_initialised(model, configuration, generator)
    for name, value in model.named_parameters():
        if is_matrix(value):
            weights[name] = _two_in_each_row(tuple(value.shape), generator).to(value.dtype)
        else:
            weights[name] += _uniform(tuple(value.shape), generator) - 0.5
    return weights


def is_matrix(parameter: Tensor) -> bool:
    """Return whether a parameter has rows of more than two elements, which `sparse` thins out."""
    return parameter.dim() > 1 and parameter[:1].numel() > 2


def _two_in_each_row(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return a matrix that is 0 except for two elements of each row, which have 0.5 <= |x| <= 1.

    The positions of these elements are random. In every fourth row, one of the two is at the end,
    because wrong kernels most often omit the end of a row.
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
    """Draw standard normal numbers; their signs differ, so products cancel in sums."""
    return torch.randn(shape, generator=generator, device=generator.device)


def _impulse(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return zeros with a single 1 at a random position.

    Each output of a linear layer is then the bias plus at most one weight.
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
    """Draw numbers as `_positive` does, with random signs.

    An exponential overflows for the positive numbers; a maximum that wrongly starts at 0 fails for
    the negative ones.
    """
    return _positive(shape, generator).mul_(_signs(shape, generator))


def _positive(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform numbers in [0, m] for a random m between 1e3 and 6e4; float16 ends at 65504.

    The numbers have 8 bits, so no precision class (fp32, tf32, fp16, bf16) rounds them. The error
    of rounding such large inputs could exceed everything else in an output.
    """
    return (_uniform(shape, generator) * _magnitude(3, 4.8, generator)).bfloat16().float()


def _tiny(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform numbers in [0, m) for a random m between 1e-20 and 1e-3.

    A kernel that replaces small numbers by 0 then replaces all inputs.
    """
    return _uniform(shape, generator) * _magnitude(-20, -3, generator)


def _huge(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform numbers in [0, m) for a random m between 1e3 and 1e30.

    Sums of these numbers stay far below the largest number of float32.
    """
    return _uniform(shape, generator) * _magnitude(3, 30, generator)


def _wide(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw numbers of either sign, log-uniform between 1e-4 and 6e4, with all bits of float32.

    They are normal numbers of float16.
    """
    return _log_uniform(shape, *_OF_HALF, generator).mul_(_signs(shape, generator))


def _far(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw numbers as `_wide` does, but of two thirds of the rows beyond the range of float16.

    A row is `values[i]`, or `values[..., i]` as often. The numbers of the second third of the rows
    are all negative, and those of the last third all positive. So a maximum that starts from
    float16's lowest number is wrong in some rows.
    """
    values = _wide(shape, generator)
    dimension = 0 if int(_counted(2, (1,), generator)) or len(shape) < 2 else len(shape) - 1
    rows = values.movedim(dimension, 0)
    third = len(rows) // 3
    for start, sign in ((len(rows) - 2 * third, -1.0), (len(rows) - third, 1.0)):
        some = rows[start : start + third]
        some.copy_(_log_uniform(tuple(some.shape), *_BEYOND_HALF, generator)).mul_(sign)
    return values


def _log_uniform(
    shape: tuple[int, ...], lowest: float, highest: float, generator: Generator
) -> Tensor:
    """Draw numbers between 10**lowest and 10**highest, log-uniform."""
    return _uniform(shape, generator).mul_(highest - lowest).add_(lowest).mul_(_LOG_10).exp_()


def _magnitude(lowest: float, highest: float, generator: Generator) -> float:
    """Draw a number between 10**lowest and 10**highest, log-uniform."""
    drawn = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    return float(10 ** (lowest + (highest - lowest) * drawn))


def _ties(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return few distinct values, each of which occurs often, so that the maximum is never unique.

    A tensor of more than 256 elements contains only 1 and -1. Even in a product of thousands of
    them, a missing factor has a visible effect.
    """
    if math.prod(shape) > _FEW:
        return _signs(shape, generator)
    return (
        torch.randint(-2, 3, shape, generator=generator, device=generator.device).to(torch.float32)
        / 2
    )


def _integers(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw integers from -7 to 7; float32 represents their products and sums exactly."""
    return torch.randint(-7, 8, shape, generator=generator, device=generator.device).to(
        torch.float32
    )


def _spike(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw normal numbers, set one random element to 100, and give the ends far larger values.

    The ends are the three elements that `_set_ends` sets. Their absolute values lie between 4096
    and 8192, and one of them differs in sign from the two others.
    """
    values = _normal(shape, generator)
    if values.numel() > 1:
        place = torch.randint(values.numel(), (1,), generator=generator, device=generator.device)
        values.view(-1)[place] = 100.0
        sign = _signs((1,), generator)
        _set_ends(values, torch.cat((-sign, -sign, sign)) * _FAR_LARGER, generator)
    return values


def _bump(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform numbers in [0, 1), and set the ends to numbers between 40 and 80.

    The ends are the three elements that `_set_ends` sets. float32 can represent their exponentials.
    """
    values = _uniform(shape, generator)
    if values.numel() > 1:
        _set_ends(values, torch.full((3,), RATHER_LARGER, device=generator.device), generator)
    return values


def _peaks(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw small normal numbers and far larger peaks of either sign, of at most 8192."""
    return put_peaks(_normal(shape, generator), generator)


def _positive_peaks(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw small uniform numbers and far larger peaks, of at most 8192; all are positive."""
    return put_peaks(_uniform(shape, generator), generator).abs_()


def _low_peaks(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw as `_positive_peaks` does, with peaks of at most 80, whose exponentials are finite."""
    return put_peaks(_uniform(shape, generator), generator, RATHER_LARGER).abs_()


def put_peaks(values: Tensor, generator: Generator, highest: float = _FAR_LARGER) -> Tensor:
    """Put a peak at a random place of each stretch of about 1024 elements, and return the values.

    The values are changed in place. Half of the peaks are negative.

    The worst-case error of a sum of n terms is n u times their magnitude. If the terms are alike,
    a kernel may leave out a part of them and weigh the others more: that changes a long sum by less
    than this error. So the peaks have the heights `highest` / 1, `highest` / 2, `highest` / 3, and
    so on, in random order. A few of them make up most of a sum, also of a sum of squares, and each
    of the few exceeds the worst-case error. No part of the terms can then stand for another. All
    other elements together weigh no more than the highest peak.

    The peaks have 8 bits for the same reason as in `_set_ends`.

    Args:
        values: Numbers of at most about 1; contiguous.
        generator: The random generator.
        highest: Height of the highest peak.
    """
    # A small tensor has peaks of both signs too. It shows where the reference is defined.
    count = max(values.numel() // _STRETCH, min(values.numel(), _FEWEST_PEAKS))
    if not count:
        return values
    stretch = values.numel() // count
    device = generator.device
    places = torch.randint(stretch, (count,), generator=generator, device=device)
    places += stretch * torch.arange(count, device=device)
    ranks = 1 + torch.randperm(count, generator=generator, device=device)
    heights = (highest / ranks) * (1 - 2 * (ranks % 2)) * _signs((1,), generator)
    values.mul_(min(highest / values.numel(), 1.0))
    values.view(-1)[places] = heights.bfloat16().to(values.dtype)
    return values


def _set_ends(values: Tensor, ends: Tensor, generator: Generator) -> None:
    """Set three elements in place: the last of the first row, the first and last of the last row.

    A row is `values[i]`, a slice along dimension 0. The three elements get the three numbers of
    `ends`, each reduced at random by up to a half so that tensors differ. The reduced numbers have
    8 bits, so bfloat16 represents them exactly. Otherwise, the rounding error of such large numbers
    would hide the errors of the other elements.
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
    "peaks": _peaks,
    "positive peaks": _positive_peaks,
    "low peaks": _low_peaks,
    "exact": exact,
    "wide": _wide,
    "far": _far,
}
