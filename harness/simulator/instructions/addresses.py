"""Instructions on addresses (`isspacep`, `mapa`, `getctarank`), and `createpolicy`.

A cluster always has one block here. So `mapa` returns the address in the block itself, and cache
policies have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.instructions.operation import (
    Array,
    Builder,
    Operation,
    OperationContext,
    UnknownForm,
    copy,
)
from harness.simulator.ptx.ptx import Instruction
from harness.simulator.ptx.space import GENERIC_SHIFT, SHARED_CLUSTER, WINDOWS, space_named


def _is_space(instruction: Instruction, context: OperationContext) -> Operation:
    (modifier,) = instruction.modifiers
    space = space_named(modifier)
    if space not in WINDOWS:
        raise UnknownForm
    if context.register_bits(instruction.operands[1]) != 64:
        raise UnknownForm
    number = np.uint64(space.number)

    def compute(address: Array, out: Array) -> None:
        np.equal(address >> np.uint64(GENERIC_SHIFT), number, out)

    return Operation(("u64",), ("pred",), compute)


def _map_address(instruction: Instruction, _context: OperationContext) -> Operation:
    """Return the `Operation` of `mapa`, which maps a shared address to a block of the cluster.

    The result is the same address, because a cluster has only one block here.
    """
    kind = instruction.modifiers[-1]
    if kind not in ("u32", "u64") or set(instruction.modifiers[:-1]) - {SHARED_CLUSTER}:
        raise UnknownForm
    return Operation((kind, "u32"), (kind,), lambda a, _rank, out: copy(a, out))


def _rank_of_address(instruction: Instruction, _context: OperationContext) -> Operation:
    kind = instruction.modifiers[-1]
    if kind not in ("u32", "u64") or set(instruction.modifiers[:-1]) - {SHARED_CLUSTER}:
        raise UnknownForm
    return Operation((kind,), ("u32",), lambda _a, out: out.fill(0))


def _policy(instruction: Instruction, context: OperationContext) -> Operation:
    """Return the `Operation` of `createpolicy`: the cache policy 0, which no instruction uses."""
    inputs = tuple(f"b{context.register_bits(o) or 32}" for o in instruction.operands[1:])
    return Operation(inputs, ("b64",), lambda *arrays: arrays[-1].fill(0))


OPERATIONS: Mapping[str, Builder] = MappingProxyType(
    {
        "isspacep": _is_space,
        "mapa": _map_address,
        "getctarank": _rank_of_address,
        "createpolicy": _policy,
    }
)
"""Builders by opcode."""
