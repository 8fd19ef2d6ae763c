"""Instructions that need more than one thread's registers, as a table from opcode to action.

They copy asynchronously, multiply matrices or wait at mbarriers. Instructions that only compute are
in instructions/. The scheduling of threads is in execution/.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.simulator.actions import async_copy, matrix_memory, mbarrier, mma, wgmma, wmma
from harness.simulator.actions.action import Action, Maker
from harness.simulator.instructions import UnknownForm
from harness.simulator.ptx.ptx import Instruction

_MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        **async_copy.ACTIONS,
        **mbarrier.ACTIONS,
        **matrix_memory.ACTIONS,
        **mma.ACTIONS,
        **wmma.ACTIONS,
        **wgmma.ACTIONS,
    }
)


def action_of(instruction: Instruction) -> Action | None:
    """Return the instruction's action, or None if its opcode has no maker in this package.

    Raises:
        UnknownForm: This form of the instruction is not implemented.
    """
    maker = _MAKERS.get(instruction.opcode)
    if maker is None:
        return None
    try:
        return maker(instruction)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnknownForm(instruction.text) from error
