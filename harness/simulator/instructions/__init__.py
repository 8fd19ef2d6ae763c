"""What each PTX instruction does: a table from opcode to what makes its `Operation`.

Loads, stores, atomics, branches, calls and barriers are not here: they act on memory or on the flow
of threads, and `lowering/` knows them by name. What looks beyond its own thread is in `warp.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.simulator.instructions import (
    addresses,
    bits,
    compare,
    conversion,
    floating,
    half,
    integer,
    packed,
)
from harness.simulator.instructions.operation import Builder, Context, Operation, UnknownForm
from harness.simulator.ptx.ptx import Instruction

_OTHER: Mapping[str, Builder] = MappingProxyType(
    {
        **bits.OPERATIONS,
        **compare.OPERATIONS,
        **conversion.OPERATIONS,
        **packed.OPERATIONS,
        **addresses.OPERATIONS,
    }
)


def operation_of(instruction: Instruction, context: Context) -> Operation:
    """What the instruction computes.

    Raises:
        UnknownForm: this opcode, or this form of it, is not implemented.
    """
    opcode = instruction.opcode
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    table = (
        floating.OPERATIONS
        if kind in floating.FLOATS
        else half.OPERATIONS
        if kind in half.HALVES
        else integer.OPERATIONS
    )
    builder = _OTHER.get(opcode) or table.get(opcode)
    is_pair = kind not in half.HALVES and opcode in ("add", "min", "max")
    if builder and is_pair and packed.handles(instruction):
        builder = packed.pairwise
    if builder is None:
        raise UnknownForm(opcode)
    try:
        return builder(instruction, context)
    except (ValueError, KeyError, IndexError) as error:
        # A form with more or fewer parts than the builder takes apart.
        raise UnknownForm(instruction.text) from error


__all__ = ["Builder", "Context", "Operation", "UnknownForm", "operation_of"]
