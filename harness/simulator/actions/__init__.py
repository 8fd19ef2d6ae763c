"""Instructions that act on memory, on other threads or on time: a table from opcode to action.

Those that only compute are in instructions/; how threads come together is in execution/.
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
    """The instruction's action; None if it is not an instruction of this package.

    Raises:
        UnknownForm: this form of it is not implemented.
    """
    maker = _MAKERS.get(instruction.opcode)
    if maker is None:
        return None
    try:
        return maker(instruction)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnknownForm(instruction.text) from error
