"""discard: an instruction that drops a line of the L2 cache without writing it to memory.

Source: PTX ISA, "Data Movement and Conversion Instructions: discard". It behaves like a weak write
of values that nothing is known of.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import number_of, require, rest_of, space_of
from harness.simulator.actions.transfers import Array
from harness.simulator.hardware.memory import POISON
from harness.simulator.ptx.ptx import Instruction

_LINE_BYTES = 128


def _discard(instruction: Instruction) -> Action:
    """Return an `Action` that executes `discard.global.L2 [address], 128`.

    The bytes become poison, and count as never written.
    """
    address, size = instruction.operands
    require(rest_of(instruction, "global") == ["L2"] and number_of(size) == _LINE_BYTES)
    space = space_of(instruction)

    def run(active: ActiveThreads, base: Array) -> None:
        words = np.full((len(active.lanes), _LINE_BYTES // 4), POISON, np.uint32)
        active.count(space, active.lanes, base, _LINE_BYTES, is_store=True)
        active.forget(space, active.lanes, base, _LINE_BYTES, words.view(np.uint8))

    return Action((Input(address, "u64"),), (), (), run, stores_through=(0,))


ACTIONS: Mapping[str, Maker] = MappingProxyType({"discard": _discard})
"""Makers by opcode."""
