"""Configurations of a reference: its constructor arguments and the shapes of its inputs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Number = int | float | bool


@dataclass(frozen=True)
class InputSpec:
    """The shape of one input of a reference's forward, and its dtype, such as "float32"."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One configuration of a reference: its arguments, its input shapes and its constants.

    Attributes:
        arguments: Constructor arguments by name, as both `Model` and `ModelNew` get them.
        input_shapes: Shapes of the tensors among the inputs of forward, in order.
        input_dtypes: Dtypes of these tensors, in the same order, such as "float32".
        constants: Values, by name, of the constants whose values differ from those in the
            reference's file (`constants.constants_of`).
        numbers: Inputs of forward that are not tensors, by their position among all inputs.
    """

    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[int, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class ConstructorCall:
    """The arguments of a constructor call.

    Attributes:
        positional: Positional arguments, in order.
        named: Keyword arguments.
    """

    positional: tuple[object, ...] = ()
    named: Mapping[str, object] = field(default_factory=dict)

    def spelled(self, name: str) -> str:
        """Return the call as Python text.

        >>> ConstructorCall((64, 3), {"stride": 2}).spelled("ModelNew")
        'ModelNew(64, 3, stride=2)'
        """
        named = (f"{key}={value!r}" for key, value in self.named.items())
        return f"{name}({', '.join((*map(repr, self.positional), *named))})"


def literal(value: object) -> str:
    """Return a value as Python text that `ast.literal_eval` turns back into an equal value.

    >>> literal((3, 5)), literal(float("-inf"))
    ('(3, 5)', '-1e999')
    """
    # Python has no literal for an infinity, but reads a number that is too large as one.
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def forward_arguments(tensors: Iterable[Tensor], numbers: Mapping[int, Number]) -> list[Any]:
    """Return all inputs of forward in their order: tensors, with numbers at their positions.

    Args:
        tensors: The inputs that are tensors, in order.
        numbers: The other inputs, by their position among all inputs.
    """
    arguments: list[Any] = list(tensors)
    for place in sorted(numbers):
        arguments.insert(place, numbers[place])
    return arguments
