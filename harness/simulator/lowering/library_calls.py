"""Lowering of calls to the functions that CUDA provides: `vprintf` and `__assertfail`."""

from __future__ import annotations

from harness.simulator.hardware.errors import ASSERTION_FAILED
from harness.simulator.instructions.operation import Operation
from harness.simulator.lowering import printing
from harness.simulator.lowering.context import Context
from harness.simulator.lowering.program import Access, Collective, Trap
from harness.simulator.ptx.ptx import Address, Group, Instruction, Symbol
from harness.simulator.ptx.space import Space

NAMES = frozenset({"vprintf", "__assertfail"})


def call(
    context: Context, instruction: Instruction, name: str, results: Group, arguments: Group
) -> None:
    """Lower a call of `vprintf` or `__assertfail`.

    Args:
        context: Resolves the operands.
        instruction: The `call`.
        name: One of `NAMES`.
        results: The local variables that receive the results.
        arguments: The local variables that hold the arguments.
    """
    listing = context.listing
    inputs = _arguments(context, instruction, arguments)
    kinds = tuple(f"u{listing.bits[r]}" for r in inputs)
    if name == "__assertfail":
        failed = Operation(kinds, (), printing.assertfail)
        listing.add(Collective(failed, inputs, (), instruction), 1)
        listing.add(Trap(context.place(instruction.location), ASSERTION_FAILED))
        return
    taken = listing.number("printed", 32)
    printed = Operation(kinds, ("u32",), printing.vprintf)
    listing.add(Collective(printed, inputs, (taken,), instruction), 1)
    place = context.place(instruction.location)
    for operand in results.parts:
        if isinstance(operand, Symbol):
            where = context.address(Address(Symbol(operand.name)), Space.PARAM)
            listing.add(Access(where[0], "b32", 1, *where[1:], instruction, place, (), (taken,)))


def _arguments(context: Context, instruction: Instruction, arguments: Group) -> tuple[int, ...]:
    """Add loads of a call's arguments from local variables; return the loaded registers."""
    place = context.place(instruction.location)
    sizes = {v.name: v.size for v in context.scope.function.variables}
    registers = []
    for number, operand in enumerate(arguments.parts):
        if not isinstance(operand, Symbol):
            raise context.unsupported()
        bits = sizes[operand.name] * 8
        register = context.listing.number(f"argument {number} of {bits}", bits)
        where = context.address(Address(Symbol(operand.name)), Space.PARAM)
        load = Access(where[0], f"b{bits}", 1, *where[1:], instruction, place, (register,))
        context.listing.add(load)
        registers.append(register)
    return tuple(registers)
