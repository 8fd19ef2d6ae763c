"""The transposed convolutions that a submission is checked with: corners, and a covering array."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.problems.covering import cover
from harness.problems.families.conv_transpose1d.sizes import Convolution
from harness.problems.families.family import NEUTRAL

# Above this many multiply-adds, simulating a case takes seconds. No pair and no triple of values
# needs more.
_MAX_WORK = 1_500_000

# Symbolic values, since they depend on other values of the row. The first is the padding that crops
# the output to positions that every tap reaches: dilation * (kernel - 1).
_FULL = "full"
# One group for each input channel, as in a depthwise convolution.
_EACH = "each"

# The values of each parameter. The product of all of them has 552,960 rows, so only their pairs or
# triples are covered.
_LEVELS: Mapping[str, Sequence[Any]] = {
    "stride": (1, 2, 3, 8),
    "kernel_size": (3, 1, 2, 5, 16),
    "dilation": (1, 2, 3),
    "padding": (0, 1, 2, _FULL),
    "output_padding": (0, 1, 2),
    "length": (17, 1, 2, 64),
    "groups": (1, 2, _EACH),
    "in_channels": (8, 1, 3, 33),
    "out_channels": (8, 1, 3, 33),
    "bias": (False, True),
    "batch": (3, 1),
}


def corners(varied: Iterable[str]) -> Iterator[Convolution]:
    """Yield edge configurations that need no other parameters than those in `varied`.

    Args:
        varied: Names of the parameters that may have an effect; all others keep a value without
            effect, such as a stride of 1.

    Yields:
        Valid convolutions; the same ones in every run.
    """
    return _allowed(_CORNERS, varied)


def shared_memory_corners(varied: Iterable[str]) -> Iterator[Convolution]:
    """Yield edge configurations whose weights overfill a thread block's shared memory.

    A kernel without shared memory is not checked with these configurations, since it would only
    loop over many thousand terms.

    Args:
        varied: Names of the parameters that may have an effect; all others keep a value without
            effect, such as a stride of 1.

    Yields:
        Valid convolutions; the same ones in every run.
    """
    return _allowed(_FILL_SHARED_MEMORY, varied)


def _allowed(edges: Iterable[Mapping[str, Any]], varied: Iterable[str]) -> Iterator[Convolution]:
    """Yield the edge configurations in which only parameters of `varied` have an effect."""
    allowed = set(varied)
    base: dict[str, Any] = {"in_channels": 3, "out_channels": 8, "batch": 1, "length": 17}
    for corner in edges:
        if {name for name in corner if name in NEUTRAL} <= allowed:
            yield Convolution(**{**base, **corner})


# Number of values that 16 bits can have.
_MANY = 65_536

_CORNERS: Sequence[Mapping[str, Any]] = (
    # A kernel smaller than the stride: some outputs have no terms.
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 1, "stride": 8, "length": 5},
    {"kernel_size": 3, "stride": 8, "padding": 2, "output_padding": 7},
    # Padding as large as dilation * (kernel - 1): both ends are cropped to the core.
    {"kernel_size": 3, "padding": 2},
    {"kernel_size": 5, "stride": 2, "padding": 4},
    {"kernel_size": 3, "dilation": 3, "padding": 6},
    {"kernel_size": 16, "padding": 15, "length": 33},
    # One input position.
    {"kernel_size": 1, "length": 1},
    {"kernel_size": 5, "stride": 3, "length": 1},
    {"kernel_size": 3, "stride": 2, "dilation": 3, "length": 1},
    # One output position.
    {"kernel_size": 3, "padding": 1, "length": 1},
    {"kernel_size": 2, "padding": 1, "length": 2},
    {"kernel_size": 1, "padding": 8, "length": 17},
    {"kernel_size": 1, "stride": 2, "padding": 1, "output_padding": 1, "length": 2},
    # As many groups as input channels, with one output channel for each and with several.
    {"kernel_size": 3, "groups": 8, "in_channels": 8},
    {"kernel_size": 3, "groups": 3, "in_channels": 3, "out_channels": 33, "stride": 2},
    {"kernel_size": 5, "groups": 33, "in_channels": 33, "out_channels": 33, "bias": True},
    # The largest output padding, from the stride and from the dilation.
    {"kernel_size": 3, "stride": 3, "output_padding": 2},
    {"kernel_size": 2, "dilation": 3, "output_padding": 2},
    # More output positions than a block has threads, and not a multiple of a block or vector.
    {"kernel_size": 3, "length": 301, "in_channels": 1, "out_channels": 2},
    {"kernel_size": 3, "stride": 2, "length": 523, "in_channels": 2, "out_channels": 1},
    # More output positions than 16 bits count, or than a grid has blocks along y and z.
    {"kernel_size": 3, "length": _MANY + 3, "in_channels": 1, "out_channels": 1},
    # As many outputs, but a short input, for a kernel that reads all of it for each output.
    {"kernel_size": 3, "length": _MANY // 256 + 3, "in_channels": 1, "out_channels": 256},
    # More weights than 16 bits count, and more channels than a block has threads.
    {"kernel_size": 1, "length": 1, "in_channels": 257, "out_channels": 259},
    # More rows than the problem's own batch has on the simulator, and than a tile or a grid has.
    {"kernel_size": 3, "batch": 65, "length": 5},
)

# A thread block has 48 KiB of shared memory by default, and 227 KiB at most. The weights of one
# output channel fill more than each: a kernel that keeps them there has to request more memory, or
# to decline.
_FILL_SHARED_MEMORY: Sequence[Mapping[str, Any]] = (
    {"kernel_size": 99, "in_channels": 129, "out_channels": 1, "length": 2},
    {"kernel_size": 255, "in_channels": 229, "out_channels": 1, "length": 2},
)


def variable(taken: Iterable[str]) -> frozenset[str]:
    """Return the names of the sizes that can be varied.

    They are the input's batch and length, and the parameters that the submission takes.
    """
    return frozenset(taken) & _LEVELS.keys() | {"batch", "length"}


def covering(varied: Iterable[str], strength: int) -> tuple[Convolution, ...]:
    """Return convolutions that together cover each feasible combination of `strength` values.

    Args:
        varied: Names of the varied parameters; all others keep a value without effect, such as a
            stride of 1.
        strength: 2 for pairs, 3 for triples.

    Returns:
        Valid convolutions; the same ones in every run.
    """
    return _covering(frozenset(varied), strength)


# Searching triples takes a second. Submissions with the same signature need the same ones.
@functools.lru_cache(maxsize=16)
def _covering(varied: frozenset[str], strength: int) -> tuple[Convolution, ...]:
    levels = {name: values for name, values in _LEVELS.items() if name in varied}
    fixed = {name: value for name, value in NEUTRAL.items() if name not in varied}
    rows = cover(levels, lambda known: _is_feasible({**fixed, **known}), strength)
    return tuple(dict.fromkeys(_resolve({**fixed, **row}) for row in rows))


def _is_feasible(known: Mapping[str, Any]) -> bool:
    """Return whether a row's values break no rule of PyTorch and are not too much work.

    The row may be incomplete. A rule that needs a missing value counts as kept, so that the search
    can go on.
    """
    checks = (_output_padding_fits, _groups_divide, _has_output, _is_affordable)
    return all(check(known) for check in checks)


def _output_padding_fits(known: Mapping[str, Any]) -> bool:
    if not {"output_padding", "stride", "dilation"} <= known.keys():
        return True
    return bool(known["output_padding"] < max(known["stride"], known["dilation"]))


def _groups_divide(known: Mapping[str, Any]) -> bool:
    if not {"groups", "in_channels"} <= known.keys():
        return True
    groups = known["in_channels"] if known["groups"] == _EACH else known["groups"]
    outputs = known.get("out_channels", groups)
    return bool(known["in_channels"] % groups == 0 and outputs % groups == 0)


def _has_output(known: Mapping[str, Any]) -> bool:
    needed = {"kernel_size", "length", *NEUTRAL} - {"groups", "bias"}
    if not needed <= known.keys():
        return True
    channels = {"in_channels": 1, "out_channels": 1, "batch": 1, "groups": 1}
    return _resolve({**known, **channels}).output_length >= 1


def _is_affordable(known: Mapping[str, Any]) -> bool:
    if not known.keys() >= _LEVELS.keys():
        return True
    return _resolve(known).work <= _MAX_WORK


def _resolve(row: Mapping[str, Any]) -> Convolution:
    """Return the convolution for a row of the covering array, with symbolic values resolved.

    The padding "full" becomes dilation * (kernel_size - 1). The groups "each" become one group for
    each input channel.
    """
    row = dict(row)
    if row["padding"] == _FULL:
        row["padding"] = row["dilation"] * (row["kernel_size"] - 1)
    if row["groups"] == _EACH:
        row["groups"] = row["in_channels"]
    return Convolution(**row)


def spell(c: Convolution) -> str:
    """Return an id such as "k3-s2-p1-g8-bias-b1x8x17-to8"; values without effect are left out."""
    parts = [f"k{c.kernel_size}", f"s{c.stride}"]
    for letter, name in (("p", "padding"), ("op", "output_padding"), ("d", "dilation")):
        if getattr(c, name) != NEUTRAL[name]:
            parts.append(f"{letter}{getattr(c, name)}")
    if c.groups != 1:
        parts.append(f"g{c.groups}")
    if c.bias:
        parts.append("bias")
    return "-".join([*parts, f"b{c.batch}x{c.in_channels}x{c.length}", f"to{c.out_channels}"])


_SPELLED = re.compile(
    r"k(?P<kernel_size>\d+)-s(?P<stride>\d+)(-p(?P<padding>\d+))?(-op(?P<output_padding>\d+))?"
    r"(-d(?P<dilation>\d+))?(-g(?P<groups>\d+))?(?P<bias>-bias)?"
    r"-b(?P<batch>\d+)x(?P<in_channels>\d+)x(?P<length>\d+)-to(?P<out_channels>\d+)",
    re.ASCII,
)
# No case's id is longer. The limit keeps a name from stating numbers of any length.
_MOST_SPELLED = 120


def spelled(name: str) -> Convolution | None:
    """Return the sizes that have the id `name`, or None if it is not the id of valid sizes.

    >>> spelled("k3-s2-p1-g8-bias-b1x8x17-to8").stride
    2
    """
    found = _SPELLED.fullmatch(name) if len(name) <= _MOST_SPELLED else None
    if found is None:
        return None
    given: dict[str, Any] = {**NEUTRAL, "bias": found["bias"] is not None}
    stated = found.groupdict().items()
    given |= {name: int(value) for name, value in stated if value and name != "bias"}
    sizes = Convolution(**given)
    required = ("kernel_size", "stride", "dilation", "groups", "batch", "in_channels", "length")
    is_positive = all(getattr(sizes, each) > 0 for each in (*required, "out_channels"))
    return sizes if is_positive and sizes.is_valid else None
