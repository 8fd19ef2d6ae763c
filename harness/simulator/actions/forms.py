"""Parsing of an instruction's modifiers and operands."""

from __future__ import annotations

from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Immediate, Instruction, Operand, Vector
from harness.simulator.ptx.space import Space, space_named

_ORDERINGS = frozenset(
    {"relaxed", "acquire", "release", "weak", "cta", "cluster", "gpu", "sys", "sync", "aligned"}
)


def rest_of(instruction: Instruction, *known: str) -> list[str]:
    """Return an instruction's modifiers except memory orderings, scopes and those in `known`.

    Memory orderings have no effect in actions: every action sees the memory that all earlier
    actions wrote.
    """
    return [m for m in instruction.modifiers if m not in _ORDERINGS and m not in known]


def space_of(instruction: Instruction) -> Space:
    """Return the state space, shared or global, that a modifier names; else the generic space."""
    for modifier in instruction.modifiers:
        if (space := space_named(modifier)) in (Space.SHARED, Space.GLOBAL):
            return space
    return Space.GENERIC


def require(condition: bool) -> None:
    """Check a condition that every supported form of an instruction fulfils.

    Raises:
        UnknownForm: The condition is false.
    """
    if not condition:
        raise UnknownForm


def number_of(operand: Operand) -> int:
    """Return the value of an immediate integer operand.

    Raises:
        UnknownForm: The operand is not an immediate integer.
    """
    if not isinstance(operand, Immediate) or operand.float_bits:
        raise UnknownForm
    return operand.value


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector operand `{a, b}`, or any other operand as a 1-tuple."""
    return operand.parts if isinstance(operand, Vector) else (operand,)
