"""Tables of functions, by opcode, that build the computation of a PTX instruction.

Loads, stores, atomics, branches, calls and barriers are not here: they access memory or decide what
a thread executes next. The package lowering/ handles them by name. Instructions that read registers
of other threads are in `warp.py`.
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
from harness.simulator.instructions.operation import (
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
)
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


def operation_of(instruction: Instruction, context: OperationContext) -> Operation:
    """Return the computation that a PTX instruction performs, as an `Operation`.

    Raises:
        UnknownForm: The opcode, or this form of the instruction, is not implemented.
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
        # The instruction has more or fewer parts than the builder unpacks.
        raise UnknownForm(instruction.text) from error


__all__ = ["Builder", "Operation", "OperationContext", "UnknownForm", "operation_of"]
