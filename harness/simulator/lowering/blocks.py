"""Division of a lowered kernel into basic blocks."""

from __future__ import annotations

from collections.abc import Mapping

from harness.simulator.lowering.listing import EXIT, Item, Listing
from harness.simulator.lowering.program import (
    Access,
    Block,
    Branch,
    Collective,
    Compute,
    Dispatch,
    End,
    Exit,
    Jump,
    Order,
    Perform,
    Step,
    Trap,
    mask,
    registers_of,
    sources_of,
    targets_of,
)
from harness.simulator.ptx.ptx import Instruction, Label


def basic_blocks(listing: Listing) -> tuple[Block, ...]:
    """Divide a lowered kernel into basic blocks, in the order of its text.

    The last block is the kernel's end, which the label `exit:` names.
    """
    blocks = _cut(listing.items, listing.owners)
    _liveness(blocks)
    return tuple(blocks)


def _cut(items: list[Item], owners: Mapping[int, Instruction]) -> list[Block]:
    """Divide a kernel's items into basic blocks, and link their branches.

    Args:
        items: The kernel's steps, ends of blocks, and labels, in the order of the text.
        owners: The PTX instruction that an item was lowered from, by the item's index.
    """
    blocks: list[Block] = []
    starts: dict[str, int] = {}
    steps: list[Step] = []
    count = 0
    executed: list[Instruction] = []

    def close(end: End) -> None:
        nonlocal steps, count, executed
        blocks.append(Block(steps, end, count, executed=tuple(executed)))
        steps, count, executed = [], 0, []

    for index, (item, instructions) in enumerate(items):
        if isinstance(item, Label):
            if steps or count:
                close(Jump(item.name))
            starts[item.name] = len(blocks)
            continue
        count += instructions
        if instructions:
            executed.append(owners[index])
        if isinstance(item, Compute | Access | Collective | Order):
            steps.append(item)
        elif item is not None:
            close(item)
            if isinstance(item, Branch) and instructions:
                blocks[-1].counted_branch = owners[index]
    starts[EXIT] = len(blocks)
    close(Exit())
    _link(blocks, starts)
    return blocks


def _link(blocks: list[Block], starts: Mapping[str, int]) -> None:
    """Set the number of the block that each branch leads to; a branch itself names a label.

    Args:
        blocks: The basic blocks.
        starts: The number of the block that each label starts.
    """
    for block in blocks:
        if isinstance(block.end, Branch | Jump):
            block.target = starts[block.end.target]
        elif isinstance(block.end, Dispatch):
            block.targets = tuple(starts[t] for t in block.end.targets)


def _liveness(blocks: list[Block]) -> None:
    """Set the attributes `reads`, `writes`, `live` and `accesses_memory` of each block.

    A register is live at the start of a block if some path from there reads the register before
    writing it.
    """
    for block in blocks:
        for step in block.steps:
            block.accesses_memory |= isinstance(step, Access | Order)
            block.reads |= mask(sources_of(step)) & ~block.writes
            block.writes |= mask(targets_of(step))
        block.reads |= registers_of(block.end) & ~block.writes
        if isinstance(block.end, Perform):
            block.writes |= mask(tuple(r for r in block.end.outputs if r >= 0))
    # Backward data flow, repeated until nothing changes. Running the blocks in reverse order makes
    # the code without loops settle in one round.
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(blocks))):
            block = blocks[index]
            after = 0
            if not isinstance(block.end, Exit | Trap | Jump | Dispatch):
                after |= blocks[index + 1].live
            if block.target >= 0:
                after |= blocks[block.target].live
            for target in block.targets:
                after |= blocks[target].live
            live = block.reads | (after & ~block.writes)
            if live != block.live:
                block.live, changed = live, True
