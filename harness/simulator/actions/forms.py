"""Taking an instruction's modifiers and operands apart."""

from __future__ import annotations

from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Immediate, Instruction, Operand, Vector
from harness.simulator.ptx.space import Space, space_named

_ORDERINGS = frozenset(
    {"relaxed", "acquire", "release", "weak", "cta", "cluster", "gpu", "sys", "sync", "aligned"}
)


def rest_of(instruction: Instruction, *known: str) -> list[str]:
    """The modifiers without orderings, scopes and those named.

    Orderings say nothing here: what an action does is seen by every action after it.
    """
    return [m for m in instruction.modifiers if m not in _ORDERINGS and m not in known]


def space_of(instruction: Instruction) -> Space:
    """The state space that the modifiers name, or the generic one."""
    for modifier in instruction.modifiers:
        if (space := space_named(modifier)) in (Space.SHARED, Space.GLOBAL):
            return space
    return Space.GENERIC


def require(condition: bool) -> None:
    """Raises UnknownForm unless the condition holds."""
    if not condition:
        raise UnknownForm


def number_of(operand: Operand) -> int:
    """The value of an immediate operand."""
    if not isinstance(operand, Immediate) or operand.float_bits:
        raise UnknownForm
    return operand.value


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    """The registers of `{a, b}`, or the operand itself."""
    return operand.parts if isinstance(operand, Vector) else (operand,)
