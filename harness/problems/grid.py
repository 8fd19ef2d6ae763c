"""Parameter cases: which configurations a submission is checked with.

For a transposed convolution: the problem's own configuration, corners that are always in, and a
covering array over everything that the submission's constructor takes. Any other reference gets
its own configuration only.
"""

import functools
import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch

from harness.problems.covering import cover
from harness.problems.discovery import Submission
from harness.problems.problem import NEUTRAL, Problem

Label = Literal["native", "reduced", "grid", "corner"]
OWN: tuple[Label, ...] = ("native", "reduced")
"""Labels of the problem's own configuration: as it is, and cut down for the simulator."""
Grid = Literal["quick", "full"]
Device = Literal["cuda", "simulator"]

# Above this, simulating a case takes seconds; no pair and no triple of values needs more.
_MAX_WORK = 1_500_000
_REDUCED_BATCH = 2
_REDUCED_LENGTH = 64

# Bytes that a thread block can ask for on the H200, and on every GPU since the A100 at most.
_MOST_SHARED_MEMORY = 227 << 10

# Padding that crops the output to the positions that every tap reaches: dilation * (kernel - 1).
_FULL = "full"
# Depthwise: one group for each input channel.
_EACH = "each"

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


@dataclass(frozen=True)
class Convolution:
    """The sizes of one transposed convolution of x (batch, in_channels, length)."""

    in_channels: int
    out_channels: int
    kernel_size: int
    batch: int
    length: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    dilation: int = 1
    groups: int = 1
    bias: bool = False

    @property
    def output_length(self) -> int:
        """Number of output positions, as `nn.ConvTranspose1d` documents it."""
        taps = self.dilation * (self.kernel_size - 1)
        return (self.length - 1) * self.stride - 2 * self.padding + taps + self.output_padding + 1

    @property
    def work(self) -> int:
        """Multiply-adds of a kernel that tries every tap for every output position."""
        outputs = self.batch * self.out_channels * self.output_length
        return outputs * (self.in_channels // self.groups) * self.kernel_size

    @property
    def products(self) -> int:
        """Multiply-adds of a kernel that skips the taps whose input position does not exist."""
        terms = 0
        for tap in range(self.kernel_size):
            # Input i meets output i * stride - padding + tap * dilation.
            shift = tap * self.dilation - self.padding
            first = max(0, math.ceil(-shift / self.stride))
            last = min(self.length - 1, (self.output_length - 1 - shift) // self.stride)
            terms += max(0, last - first + 1)
        return self.batch * self.out_channels * (self.in_channels // self.groups) * terms

    @property
    def is_valid(self) -> bool:
        """Whether PyTorch accepts these sizes, and they give an output that is not empty."""
        return (
            self.output_length >= 1
            and self.output_padding < max(self.stride, self.dilation)
            and self.in_channels % self.groups == 0
            and self.out_channels % self.groups == 0
        )


@dataclass(frozen=True)
class Case:
    """One configuration to check.

    Attributes:
        id: Short, readable, unique among the cases of one problem, and the same in every run.
        label: "native" or "reduced" for the problem's own configuration, else where it is from.
        arguments: Init arguments by name, as both `Model` and `ModelNew` get them.
        input_shapes: Shapes of the inputs of forward.
        input_dtypes: Their dtypes, such as "float32".
        seed: What every value of this case is drawn from.
    """

    id: str
    label: Label
    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    seed: int

    def to_json(self) -> dict[str, object]:
        """Give plain JSON values, from which `from_json` makes an equal case."""
        plain: dict[str, object] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Case":
        """Make a case from what `to_json` gave.

        Raises:
            ValueError: The label is unknown or a field is missing; the message says which.
        """
        missing = {field.name for field in fields(cls)} - set(data)
        if missing:
            raise ValueError(f"a case lacks {', '.join(sorted(missing))}; was it made by to_json?")
        if data["label"] not in get_args(Label):
            raise ValueError(f"case {data['id']} has the unknown label {data['label']!r}")
        return cls(
            id=data["id"],
            label=data["label"],
            arguments=dict(data["arguments"]),
            input_shapes=tuple(tuple(shape) for shape in data["input_shapes"]),
            input_dtypes=tuple(data["input_dtypes"]),
            seed=data["seed"],
        )

    @property
    def is_convolution(self) -> bool:
        """Whether it is one of a transposed convolution."""
        return {"in_channels", "out_channels", "kernel_size"} <= self.arguments.keys()

    @property
    def overfills_shared_memory(self) -> bool:
        """Whether the weights of one output channel are more than a thread block can keep."""
        if not self.is_convolution:
            return False
        c = self.convolution
        return 4 * c.in_channels // c.groups * c.kernel_size > _MOST_SHARED_MEMORY

    @functools.cached_property
    def convolution(self) -> Convolution:
        """The sizes, for a case of a transposed convolution; what it lacks is neutral."""
        batch, _, length = self.input_shapes[0]
        known = {field.name for field in fields(Convolution)}
        given: dict[str, Any] = {k: v for k, v in self.arguments.items() if k in known}
        return Convolution(batch=batch, length=length, **given)


def cases_for(
    problem: Problem,
    submission: Submission,
    grid: Grid = "quick",
    device: Device = "simulator",
    *,
    seed: int = 0,
) -> tuple[Case, ...]:
    """List the cases that a submission is checked with for a problem.

    Args:
        problem: The reference.
        submission: A submission that fits the problem (`discovery.fits`).
        grid: "quick" covers all pairs of values, "full" all triples.
        device: On the simulator, the problem's own configuration is cut down to a small batch and
            length.
        seed: What the cases' own seeds are derived from; ids do not depend on it.

    Returns:
        The cases, the problem's own configuration first.
    """
    taken = {n: v for n, v in problem.arguments.items() if submission.accepts(n)}
    own = _own_case(problem, taken, device, seed)
    if not problem.is_transposed_convolution:
        return (own,)
    varied = frozenset(taken) & _LEVELS.keys() | {"batch", "length"}
    cases = {_key(own): own}
    for convolution in corners(varied, shared_memory=submission.may_use_shared_memory):
        case = _grid_case(convolution, "corner", taken, seed)
        cases.setdefault(_key(case), case)
    for convolution in covering(varied, 2 if grid == "quick" else 3):
        case = _grid_case(convolution, "grid", taken, seed)
        cases.setdefault(_key(case), case)
    return tuple(cases.values())


def case_again(
    problem: Problem,
    case_id: str,
    label: Label,
    arguments: Mapping[str, object],
    input_shapes: tuple[tuple[int, ...], ...],
    *,
    seed: int,
) -> Case:
    """Make a case once more from what a report keeps of it; `seed` is the report's."""
    dtypes = tuple(spec.dtype for spec in problem.inputs)
    return Case(case_id, label, arguments, input_shapes, dtypes, _seed(seed, case_id))


def _key(case: Case) -> str:
    """Two cases with one key check the same thing."""
    return json.dumps([case.arguments, case.input_shapes], sort_keys=True)


def fresh_seed() -> int:
    """A seed that nobody can try out: the worker learns what is derived from it."""
    return secrets.randbits(63)


def _seed(seed: int, case_id: str) -> int:
    digest = hashlib.sha256(f"{seed}/{case_id}".encode()).digest()
    return int.from_bytes(digest[:6])


def _grid_case(
    convolution: Convolution, label: Label, taken: Mapping[str, object], seed: int
) -> Case:
    arguments = {name: getattr(convolution, name, value) for name, value in taken.items()}
    shape = (convolution.batch, convolution.in_channels, convolution.length)
    name = _name(convolution)
    return Case(name, label, arguments, (shape,), ("float32",), _seed(seed, name))


def _name(c: Convolution) -> str:
    """Spell the sizes: "k3-s2-p1-g8-bias-b1x8x17-to8", leaving out what is neutral."""
    parts = [f"k{c.kernel_size}", f"s{c.stride}"]
    for letter, name in (("p", "padding"), ("op", "output_padding"), ("d", "dilation")):
        if getattr(c, name) != NEUTRAL[name]:
            parts.append(f"{letter}{getattr(c, name)}")
    if c.groups != 1:
        parts.append(f"g{c.groups}")
    if c.bias:
        parts.append("bias")
    return "-".join([*parts, f"b{c.batch}x{c.in_channels}x{c.length}", f"to{c.out_channels}"])


def _own_case(problem: Problem, taken: Mapping[str, object], device: Device, seed: int) -> Case:
    label: Label = "native" if device == "cuda" else "reduced"
    shapes = problem.input_shapes if device == "cuda" else _reduced_shapes(problem)
    dtypes = tuple(spec.dtype for spec in problem.inputs)
    return Case(label, label, dict(taken), shapes, dtypes, _seed(seed, label))


def _reduced_shapes(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Cut down the batch and every other size that `Model` lets be cut.

    What it lets be cut is tried out, not on the meta device: there some operators accept sizes
    that do not fit their weights.
    """
    whole = problem.input_shapes
    batch = tuple((min(s[0], _REDUCED_BATCH), *s[1:]) if s else s for s in whole)
    last = tuple((*s[:2], *(min(n, _REDUCED_LENGTH) for n in s[2:])) for s in batch)
    every = tuple(tuple(min(n, _REDUCED_LENGTH) for n in s) for s in batch)
    square = tuple(tuple(min(n, _REDUCED_LENGTH) for n in s) for s in whole)
    return next(
        (shapes for shapes in (every, square, last, batch) if _runs(problem, shapes)), whole
    )


def _runs(problem: Problem, shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = problem.model(**problem.arguments)
            specs = zip(shapes, problem.inputs, strict=True)
            model(*(torch.zeros(s, dtype=getattr(torch, spec.dtype)) for s, spec in specs))
    except Exception:  # What a reference raises on sizes that it does not take is its own affair.
        return False
    return True


def corners(varied: Iterable[str], *, shared_memory: bool = True) -> Iterator[Convolution]:
    """Give the edge shapes that need nothing but the varied parameters.

    Args:
        varied: Names of the parameters that may leave their neutral value.
        shared_memory: Whether to give those that overfill a thread block's shared memory, too. To a
            kernel that uses none they are many thousand steps of one loop, and nothing else.

    Yields:
        Valid convolutions; the same ones in every run.
    """
    allowed = set(varied)
    base: dict[str, Any] = {"in_channels": 3, "out_channels": 8, "batch": 1, "length": 17}
    for corner in (*_CORNERS, *(_FILL_SHARED_MEMORY if shared_memory else ())):
        if {name for name in corner if name in NEUTRAL} <= allowed:
            yield Convolution(**{**base, **corner})


# As many as 16 bits count.
_MANY = 65_536

_CORNERS: Sequence[Mapping[str, Any]] = (
    # A kernel smaller than the stride: some outputs get nothing.
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
    # As many groups as channels, with one and with several outputs for each.
    {"kernel_size": 3, "groups": 8, "in_channels": 8},
    {"kernel_size": 3, "groups": 3, "in_channels": 3, "out_channels": 33, "stride": 2},
    {"kernel_size": 5, "groups": 33, "in_channels": 33, "out_channels": 33, "bias": True},
    # The largest output padding, from the stride and from the dilation.
    {"kernel_size": 3, "stride": 3, "output_padding": 2},
    {"kernel_size": 2, "dilation": 3, "output_padding": 2},
    # More output positions than a block has threads, and not a multiple of anything.
    {"kernel_size": 3, "length": 301, "in_channels": 1, "out_channels": 2},
    {"kernel_size": 3, "stride": 2, "length": 523, "in_channels": 2, "out_channels": 1},
    # More than 16 bits count, and than a grid has blocks along y and z.
    {"kernel_size": 3, "length": _MANY + 3, "in_channels": 1, "out_channels": 1},
    # The same number of outputs for a kernel that looks at the whole input for each of them.
    {"kernel_size": 3, "length": _MANY // 256 + 3, "in_channels": 1, "out_channels": 256},
)

# A thread block has 48 KiB of shared memory without asking, and 227 KiB at most. The weights of one
# output channel are more than that: a kernel that keeps them there has to ask, or to decline.
_FILL_SHARED_MEMORY: Sequence[Mapping[str, Any]] = (
    {"kernel_size": 99, "in_channels": 129, "out_channels": 1, "length": 2},
    {"kernel_size": 255, "in_channels": 229, "out_channels": 1, "length": 2},
)


def covering(varied: Iterable[str], strength: int) -> tuple[Convolution, ...]:
    """Cover every feasible combination of `strength` values of the varied parameters.

    Args:
        varied: Names of parameters; the others keep their neutral value.
        strength: 2 for pairs, 3 for triples.

    Returns:
        Valid convolutions; the same ones in every run.
    """
    return _covering(frozenset(varied), strength)


# Triples take a second to search, and every submission with one signature asks for the same.
@functools.lru_cache(maxsize=16)
def _covering(varied: frozenset[str], strength: int) -> tuple[Convolution, ...]:
    levels = {name: values for name, values in _LEVELS.items() if name in varied}
    fixed = {name: value for name, value in NEUTRAL.items() if name not in varied}
    rows = cover(levels, lambda known: _is_feasible({**fixed, **known}), strength)
    return tuple(dict.fromkeys(_resolve({**fixed, **row}) for row in rows))


def _is_feasible(known: Mapping[str, Any]) -> bool:
    """Whether nothing that is already known of a row breaks a rule of PyTorch or is too much."""
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
    """Replace the symbolic values of a row by what they stand for."""
    row = dict(row)
    if row["padding"] == _FULL:
        row["padding"] = row["dilation"] * (row["kernel_size"] - 1)
    if row["groups"] == _EACH:
        row["groups"] = row["in_channels"]
    return Convolution(**row)
