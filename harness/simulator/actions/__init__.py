"""The PTX instructions that need more than their own thread's registers.

They copy asynchronously, discard lines of a cache, multiply matrices or wait at mbarriers.
`action_of` finds the `Action` that executes such an instruction. Instructions that only compute are
in instructions/. The scheduling of threads is in execution/.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.simulator.actions import async_copy, discard, matrix_memory, mbarrier, mma, wgmma, wmma
from harness.simulator.actions.action import Action, Maker
from harness.simulator.instructions import UnknownForm
from harness.simulator.ptx.ptx import Instruction

_MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        **async_copy.ACTIONS,
        **discard.ACTIONS,
        **mbarrier.ACTIONS,
        **matrix_memory.ACTIONS,
        **mma.ACTIONS,
        **wmma.ACTIONS,
        **wgmma.ACTIONS,
    }
)


def action_of(instruction: Instruction) -> Action | None:
    """Return the `Action` that executes an instruction; None if this package lacks its opcode.

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
