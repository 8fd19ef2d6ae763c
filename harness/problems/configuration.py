"""One configuration of a reference: what it is constructed with, and the sizes that it is given."""

from collections.abc import Mapping
from dataclasses import dataclass


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
    """

    arguments: Mapping[str, object]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
