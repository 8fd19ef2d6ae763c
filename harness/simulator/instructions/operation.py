"""The computation of an instruction, as a function on arrays with one element for each thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.simulator.ptx.ptx import Instruction, Operand

Array = npt.NDArray[Any]

DTYPES: dict[str, type[np.generic]] = {
    "pred": np.bool_,
    "b8": np.uint8,
    "u8": np.uint8,
    "s8": np.int8,
    "b16": np.uint16,
    "u16": np.uint16,
    "s16": np.int16,
    "b32": np.uint32,
    "u32": np.uint32,
    "s32": np.int32,
    "b64": np.uint64,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f16x2": np.float16,
    "bf16x2": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
}
"""NumPy's type for each PTX type.

A bfloat16 is stored as its bits. Packed types have the type of their elements.
"""

BITS = {name: np.dtype(dtype).itemsize * 8 for name, dtype in DTYPES.items()} | {
    "pred": 1,
    "f16x2": 32,
    "bf16x2": 32,
}
"""Width of a value of each PTX type in bits."""


@dataclass(frozen=True)
class Operation:
    """A computation without side effects.

    An input has a value for each thread, or one for all (length 1). An output may be the same array
    as an input. `function` may therefore write it only after it has read every input.

    Attributes:
        inputs: PTX types of the inputs.
        outputs: PTX types of the outputs.
        function: Called as `function(*inputs, *outputs)`; fills the outputs.
        native: Name of a function of arithmetic.c with the same meaning, which is called instead.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., object]
    native: str | None = None


class Context(Protocol):
    """The surroundings of an instruction that a builder can query."""

    def register_bits(self, operand: Operand) -> int:
        """Return the width of a register operand in bits, or 0 for any other operand."""

    def native(self, name: str, *leading: int) -> Callable[..., None]:
        """Return function `name` of arithmetic.c as `function(*inputs, output)` on arrays."""


class UnknownForm(LookupError):
    """The opcode is known, but not with these modifiers or operands."""


Builder = Callable[[Instruction, Context], Operation]


def copy(source: Array, out: Array) -> None:
    """Copy `source` to `out`, converting as C does."""
    np.copyto(out, source, casting="unsafe")
