"""One configuration of a reference: what it is constructed with, and the sizes that it is given."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Number = int | float | bool


@dataclass(frozen=True)
class InputSpec:
    """One input of a reference's forward: its shape and its dtype, such as "float32"."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One configuration of a reference.

    Attributes:
        arguments: Init arguments by name, as both `Model` and `ModelNew` get them.
        input_shapes: Shapes of the inputs of forward.
        input_dtypes: Their dtypes, such as "float32".
        constants: What the reference's constants are there, by name, where they are not its own
            (`constants.constants_of`).
        numbers: Inputs of forward that are no tensors, by their place among all.
    """

    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[int, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class ConstructorCall:
    """What a constructor is called with.

    Attributes:
        positional: Arguments without their names, in order.
        named: The others.
    """

    positional: tuple[object, ...] = ()
    named: Mapping[str, object] = field(default_factory=dict)

    def spelled(self, name: str) -> str:
        """As Python text.

        >>> ConstructorCall((64, 3), {"stride": 2}).spelled("ModelNew")
        'ModelNew(64, 3, stride=2)'
        """
        named = (f"{key}={value!r}" for key, value in self.named.items())
        return f"{name}({', '.join((*map(repr, self.positional), *named))})"


def forward_arguments(tensors: Iterable[Tensor], numbers: Mapping[int, Number]) -> list[Any]:
    """All inputs of forward in their order.

    Args:
        tensors: Those that are tensors.
        numbers: The others, by their place among all.
    """
    arguments: list[Any] = list(tensors)
    for place in sorted(numbers):
        arguments.insert(place, numbers[place])
    return arguments
