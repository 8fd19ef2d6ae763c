"""Lowering of instructions that only compute registers, of warp instructions, and of actions.

Each instruction becomes steps of a `Program`. An action is an instruction that needs more than its
own thread's registers, such as `mma`.
"""

from __future__ import annotations

from dataclasses import replace

from harness.simulator.actions import action_of
from harness.simulator.instructions import UnknownForm, carry, operation_of, warp
from harness.simulator.instructions.operation import BITS
from harness.simulator.lowering.context import Context
from harness.simulator.lowering.program import Collective, Compute, Order, Perform, Source, WarpSync
from harness.simulator.ptx.ptx import Address, Instruction, Register
from harness.simulator.ptx.space import Space


def compute(context: Context, instruction: Instruction) -> None:
    """Lower an instruction that a thread computes from its own registers."""
    try:
        operation = operation_of(instruction, context)
    except UnknownForm:
        raise context.unsupported() from None
    target, *sources = instruction.operands
    inputs = tuple(s for operand in sources for s in context.sources(operand))
    if len(inputs) != len(operation.inputs):
        raise context.unsupported()
    outputs = context.targets(target)
    if len(outputs) != len(operation.outputs):
        raise context.unsupported()
    listing = context.listing
    for register, kind in zip(outputs, operation.outputs, strict=True):
        if listing.bits[register] != BITS[kind] and register != listing.numbers.get("_64"):
            raise context.unsupported()
    listing.add(Compute(operation, inputs, outputs, instruction), 1)


def handles_flag(instruction: Instruction) -> bool:
    """Return whether the instruction reads or writes the carry flag, as `addc` and `add.cc` do."""
    return instruction.opcode in carry.OPCODES and (
        carry.reads_flag(instruction) or carry.writes_flag(instruction)
    )


def with_flag(context: Context, instruction: Instruction) -> None:
    """Lower an integer instruction that reads or writes the carry flag."""
    try:
        operation = carry.operation_with_flag(instruction, context)
    except (UnknownForm, ValueError, KeyError):
        raise context.unsupported() from None
    flag = context.listing.number(f"{context.scope.prefix}carry", 1)
    target, *operands = instruction.operands
    inputs = tuple(context.source(operand) for operand in operands)
    inputs += (flag,) * carry.reads_flag(instruction)
    outputs = context.targets(target) + (flag,) * carry.writes_flag(instruction)
    if len(inputs) != len(operation.inputs) or len(outputs) != len(operation.outputs):
        raise context.unsupported()
    context.listing.add(Compute(operation, inputs, outputs, instruction), 1)


def collective(context: Context, instruction: Instruction) -> None:
    """Lower an instruction that exchanges values between the lanes of a warp, such as `shfl`."""
    opcode = instruction.opcode
    synchronises = opcode in warp.SYNCHRONISING
    builder = (warp.SYNCHRONISING if synchronises else warp.ALONE)[opcode]
    place = context.place(instruction.location)
    try:
        operation = builder(replace(instruction, location=place))
    except (UnknownForm, ValueError, KeyError):
        raise context.unsupported() from None
    target, *operands = instruction.operands
    inputs = tuple(context.source(operand) for operand in operands)
    outputs = context.targets(target)
    if len(inputs) != len(operation.inputs) or len(outputs) != len(operation.outputs):
        raise context.unsupported()
    if synchronises:
        context.listing.add(WarpSync(inputs[-1], place, instruction.name))
        context.listing.add(Order("warp"))
    context.listing.add(Collective(operation, inputs, outputs, instruction), 1)


def action(context: Context, instruction: Instruction) -> bool:
    """Lower the instruction if actions/ implements it; return whether it does."""
    try:
        found = action_of(instruction)
    except UnknownForm:
        raise context.unsupported() from None
    if found is None:
        return False
    inputs: list[Source] = []
    offsets: list[int | None] = []
    for declared in found.inputs:
        operand = declared.operand
        if isinstance(operand, Address):
            _, source, offset = context.address(operand, Space.GENERIC)
            inputs.append(source)
            offsets.append(offset)
        else:
            inputs.append(context.source(operand))
            offsets.append(None)
    outputs = []
    for operand, kind in zip(found.outputs, found.output_kinds, strict=True):
        if not isinstance(operand, Register):
            raise context.unsupported()
        is_sink = operand.name == "_"
        if not is_sink and context.register_bits(operand) != BITS[kind]:
            raise context.unsupported()
        outputs.append(-1 if is_sink else context.register(operand))
    place = context.place(instruction.location)
    perform = Perform(found, tuple(inputs), tuple(offsets), tuple(outputs), instruction, place)
    # The label ends the block before, because an action has a block of its own. Threads that wait
    # for others of their group wait at that block.
    context.listing.mark(f"action:{context.listing.next_label()}")
    context.listing.add(perform, 1)
    return True
