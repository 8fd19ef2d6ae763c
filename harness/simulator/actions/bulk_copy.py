"""cp.async.bulk."""

from __future__ import annotations

from harness.simulator.actions.action import Action
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx import Instruction


def action(instruction: Instruction) -> Action:
    """The action of a bulk copy."""
    raise UnknownForm(instruction.text)
