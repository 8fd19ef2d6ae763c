"""Lowering of branches, returns, exits and barriers to ends of basic blocks in a `Program`."""

from __future__ import annotations

from harness.simulator.hardware.errors import UnsupportedInstruction
from harness.simulator.instructions import UnknownForm, warp
from harness.simulator.lowering.context import Context
from harness.simulator.lowering.listing import EXIT
from harness.simulator.lowering.program import (
    Barrier,
    Branch,
    Collective,
    Constant,
    Dispatch,
    Exit,
    Jump,
    Order,
    Source,
    WarpSync,
)
from harness.simulator.ptx.ptx import Function, Instruction, Location, Operand, Symbol

CLUSTER_BARRIER = 1 << 16
"""The number of `barrier.cluster`; the barriers of a block have numbers below 16."""


def branch(context: Context, instruction: Instruction) -> None:
    """Lower `bra`, a branch to one label."""
    (target,) = instruction.operands
    if not isinstance(target, Symbol):
        raise context.unsupported()
    name = context.scope.prefix + target.name
    guard = instruction.guard
    if guard:
        context.listing.add(Branch(context.register(guard.register), guard.negated, name), 1)
    else:
        context.listing.add(Jump(name), 1)


def indexed_branch(context: Context, instruction: Instruction) -> None:
    """Lower `brx.idx`, a branch to the label that an index selects from a table."""
    index, table = instruction.operands
    if not isinstance(table, Symbol) or instruction.modifiers[:1] != ("idx",):
        raise context.unsupported()
    names = context.scope.function.branch_targets.get(table.name)
    register = context.source(index)
    if names is None or not isinstance(register, int):
        raise context.unsupported()
    targets = tuple(context.scope.prefix + name for name in names)
    place = context.place(instruction.location)
    context.listing.add(Dispatch(register, tuple(range(len(names))), targets, place), 1)


def end(context: Context, instruction: Instruction) -> None:
    """Lower `ret` and `exit`; in a device function, `ret` jumps to the end of the function."""
    is_ret = instruction.opcode == "ret"
    target = context.scope.returns_to if is_ret and context.scope.returns_to else EXIT
    guard = instruction.guard
    if guard:
        context.listing.add(Branch(context.register(guard.register), guard.negated, target), 1)
    elif target == EXIT:
        context.listing.add(Exit(), 1)
    else:
        context.listing.add(Jump(target), 1)


def barrier(context: Context, instruction: Instruction) -> None:
    """Lower all forms of `bar` and `barrier`: of a warp, of a block and of a cluster."""
    modifiers = tuple(m for m in instruction.modifiers if m not in ("cta", "aligned"))
    place = context.place(instruction.location)
    operands = list(instruction.operands)
    if modifiers == ("warp", "sync"):
        (named,) = operands
        context.listing.add(WarpSync(context.source(named), place, "bar.warp.sync", True), 1)
        context.listing.add(Order("warp"))
    elif modifiers[:1] == ("cluster",):
        _cluster_barrier(context, modifiers, place)
    elif modifiers[:1] == ("red",):
        result, predicate = operands.pop(0), operands.pop()
        context.listing.add(_block_barrier(context, operands, place))
        _reduction(context, instruction, result, predicate)
    elif modifiers in (("sync",), ("arrive",)):
        is_arrival = modifiers == ("arrive",)
        context.listing.add(_block_barrier(context, operands, place, is_arrival=is_arrival), 1)
    else:
        raise context.unsupported()


def _block_barrier(
    context: Context, operands: list[Operand], place: Location | None, *, is_arrival: bool = False
) -> Barrier:
    sources = [context.source(operand) for operand in operands]
    if len(sources) not in (1, 2):
        raise context.unsupported()
    number: Source = sources[0]
    threads = sources[1] if len(sources) == 2 else None
    return Barrier(
        number.value.value if isinstance(number, Constant) else 0,
        threads.value.value if isinstance(threads, Constant) else None,
        place,
        number if isinstance(number, int) else -1,
        threads if isinstance(threads, int) else -1,
        is_arrival,
    )


def _reduction(
    context: Context, instruction: Instruction, result: Operand, predicate: Operand
) -> None:
    """Add the reduction of a `bar.red`, which runs after its barrier.

    Args:
        context: Resolves the operands.
        instruction: The `bar.red`.
        result: The operand that receives the result.
        predicate: The operand that is reduced over the threads.
    """
    try:
        operation = warp.block_reduction(instruction)
    except (UnknownForm, ValueError):
        raise context.unsupported() from None
    inputs, outputs = (context.source(predicate),), context.targets(result)
    context.listing.add(Collective(operation, inputs, outputs, instruction), 1)


def _cluster_barrier(context: Context, modifiers: tuple[str, ...], place: Location | None) -> None:
    """Lower `barrier.cluster`; a cluster is always one block here.

    `barrier.cluster.wait` waits for all threads of the block; `barrier.cluster.arrive` waits for
    no thread.
    """
    if modifiers[1:2] == ("arrive",):
        context.listing.add(None, 1)
    elif modifiers[1:2] == ("wait",):
        context.listing.add(Barrier(CLUSTER_BARRIER, None, place), 1)
    else:
        raise context.unsupported()


def refuse_clusters(kernel: Function, name: str) -> None:
    """Check that a kernel does not require clusters of more than one block.

    Raises:
        UnsupportedInstruction: The directive `.reqnctapercluster` requires such clusters.
    """
    for directive in kernel.directives:
        words = directive.replace(",", " ").split()
        if words[0] == ".reqnctapercluster" and any(int(n) > 1 for n in words[1:]):
            raise UnsupportedInstruction(directive, name, None)
