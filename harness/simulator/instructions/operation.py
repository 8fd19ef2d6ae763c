"""The type of an instruction's computation: a function on arrays with one element per thread."""

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
    """A computation that writes only its outputs.

    Inputs and outputs are arrays with one element for each thread; an input may also have a single
    element for all threads. An output may be the same array as an input. So `function` may write an
    output only after it has read every input.

    Attributes:
        inputs: PTX types of the inputs.
        outputs: PTX types of the outputs.
        function: Called as `function(*inputs, *outputs)`; fills the outputs.
        native: Name of a C function in arithmetic.c that computes the same and is called instead of
            `function`; None if there is none.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[..., object]
    native: str | None = None


class OperationContext(Protocol):
    """Facts about the kernel that are needed to build the `Operation` of an instruction."""

    def register_bits(self, operand: Operand) -> int:
        """Return the width of a register operand in bits, or 0 for any other operand."""

    def native(self, name: str, *leading: int) -> Callable[..., None]:
        """Return a C function of arithmetic.c as a Python `function(*inputs, output)` on arrays.

        The integers `leading` are passed to the C function before the arrays.
        """


class UnknownForm(LookupError):
    """The simulator implements the opcode, but not with these modifiers or operands."""


Builder = Callable[[Instruction, OperationContext], Operation]


def copy(source: Array, out: Array) -> None:
    """Copy `source` to `out`, converted to the dtype of `out` as a cast in C does."""
    np.copyto(out, source, casting="unsafe")
