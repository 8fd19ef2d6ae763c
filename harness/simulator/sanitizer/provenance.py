"""Static analysis that finds the pointers through which a kernel may store to global memory.

Race detection must remember every access of memory that the kernel may write. Most loads of most
kernels read memory that the kernel never writes. If the analysis proves this for some memory, race
detection skips the loads from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.simulator.lowering.program import (
    Access,
    Constant,
    Order,
    Perform,
    Program,
    Source,
    sources_of,
    targets_of,
)
from harness.simulator.ptx.ptx import TYPE_BYTES
from harness.simulator.ptx.space import Space

Origin = tuple[str, int]
"""The source of a pointer: `("argument", offset)` for an argument, `("at", address)` for a
variable."""
ANYWHERE: Origin = ("anywhere", 0)
"""The origin of a pointer that was itself loaded from memory, and so may point anywhere."""

_LEAST_ADDRESS = 1 << 32
"""Constants below this are numbers and not addresses of variables."""


@dataclass(frozen=True)
class Traits:
    """The properties of a kernel that race detection needs.

    Attributes:
        stored_through: The origins of the pointers through which the kernel may store to global
            memory: arguments, variables, or `ANYWHERE` for a pointer loaded from memory.
        access_bytes: Number of bytes that race detection tracks together: the width of the
            narrowest access, at most 4.
        has_fence: True if the kernel has a memory fence.
    """

    stored_through: frozenset[Origin]
    access_bytes: int
    has_fence: bool

    @classmethod
    def of(cls, program: Program) -> Traits:
        """Analyse a lowered kernel, and return its properties."""
        return cls(
            stored_through(program),
            access_bytes(program),
            has_fence(program),
        )


def stored_through(program: Program) -> frozenset[Origin]:
    """Return the origins of the pointers through which a kernel may store to global memory.

    An origin is a kernel argument, a variable, or `ANYWHERE` for a pointer loaded from memory. The
    result of an instruction has the origins of all its operands. A register of 32 bits may hold a
    half of a pointer; smaller ones have no origins.
    """
    # Loops carry pointers backwards, so the steps are repeated until no register gets a new origin.
    # Sets only grow, so this ends.
    origins: dict[int, frozenset[Origin]] = {}
    steps = [step for block in program.blocks for step in block.steps]
    changed = True
    while changed:
        changed = False
        for step in steps:
            targets = targets_of(step)
            if not targets:
                continue
            found = _loaded(step) if isinstance(step, Access) else _of(sources_of(step), origins)
            for register in targets:
                if program.register_bits[register] < 32:
                    continue
                before = origins.get(register, frozenset())
                if not found <= before:
                    origins[register] = before | found
                    changed = True
    stores = [s for s in steps if isinstance(s, Access) and s.sources]
    reached = [
        _of((s.address,), origins) for s in stores if s.space not in (Space.SHARED, Space.LOCAL)
    ]
    for perform in _performs(program):
        action = perform.action
        addresses = [perform.inputs[position] for position in action.stores_through]
        reached.append(_of(addresses, origins))
        if action.stores_anywhere:
            reached.append(frozenset({ANYWHERE}))
    return frozenset[Origin]().union(*reached)


def _performs(program: Program) -> Iterator[Perform]:
    return (block.end for block in program.blocks if isinstance(block.end, Perform))


def _of(sources: Iterable[Source], origins: dict[int, frozenset[Origin]]) -> frozenset[Origin]:
    found: frozenset[Origin] = frozenset()
    for source in sources:
        if isinstance(source, int):
            found |= origins.get(source, frozenset())
        elif source.value.value >= _LEAST_ADDRESS and not source.value.float_bits:
            found |= {("at", source.value.value)}
    return found


def _loaded(step: Access) -> frozenset[Origin]:
    width = TYPE_BYTES[step.type]
    if width < 8:
        return frozenset()
    if step.space is Space.PARAM and isinstance(step.address, Constant):
        start = step.address.value.value + step.offset
        return frozenset(("argument", start + width * i) for i in range(step.elements))
    return frozenset({ANYWHERE})


def access_bytes(program: Program) -> int:
    """Return the width in bytes of the narrowest access of shared or global memory, at most 4."""
    widths = [
        TYPE_BYTES[step.type]
        for block in program.blocks
        for step in block.steps
        if isinstance(step, Access) and step.space not in (Space.LOCAL, Space.PARAM)
    ]
    return min([4, *widths, *(perform.action.row_bytes for perform in _performs(program))])


def has_fence(program: Program) -> bool:
    """Return True if the kernel has a fence, by which threads can pass data to each other."""
    return any(
        isinstance(step, Order) and step.kind != "warp"
        for block in program.blocks
        for step in block.steps
    )
