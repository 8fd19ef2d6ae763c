"""Instructions that exchange values between the lanes of a warp.

An instruction runs when every lane that its mask names has arrived at the instruction; see
`execution/warp_sync.py`. A lane exchanges values with the lanes that its own mask names. For a
`shfl` from any other lane, PTX leaves the value undefined. The simulator then returns the thread's
own value, and records this in `Team.undefined`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.hardware.geometry import WARP
from harness.simulator.hardware.team import FULL, Array, Lanes, Team
from harness.simulator.instructions.operation import DTYPES, Operation, UnknownForm
from harness.simulator.ptx.ptx import DestinationPair, Instruction

Builder = Callable[[Instruction], Operation]


def source_lanes(mode: str, lane_id: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Return the lane that each lane's value in a `shfl` comes from, and the predicate.

    The predicate is true if the source is within the segment of the lane; otherwise, the lane keeps
    its own value. The formula is from the PTX ISA, "shfl.sync".

    Args:
        mode: "up", "down", "bfly" or "idx".
        lane_id: The number of each thread in its warp.
        b: The second operand: a lane or an offset of lanes.
        c: The third operand. The low five bits are the clamp. Bits 8 to 12 are the segment mask:
            they mark the bits of the lane's number that select the segment.
    """
    amount = (b & 31).astype(np.int64)
    clamp = (c & 31).astype(np.int64)
    segment = (c >> np.uint32(8) & 31).astype(np.int64)
    first = lane_id & segment
    last = first | (clamp & ~segment)
    if mode == "up":
        source = lane_id - amount
        valid = source >= last
    else:
        if mode == "idx":
            source = first | (amount & ~segment)
        else:
            source = lane_id + amount if mode == "down" else lane_id ^ amount
        valid = source <= last
    return np.where(valid, source, lane_id), valid


def _participants(team: Team, active: Lanes | None, mask: Array) -> Array:
    """Return, for each thread, the lanes of its mask that execute the instruction now.

    A set of lanes is an integer with a bit for each lane of the warp.
    """
    return team.mask_of_warp(active) & mask


def _has_bit(masks: Array, positions: Array) -> Lanes:
    return (masks >> positions.astype(np.uint32) & np.uint32(1)).astype(np.bool_)


def _is_full(team: Team, active: Lanes | None, mask: Array) -> bool:
    """Return whether only whole warps take part, and every mask names all 32 lanes."""
    return len(mask) == 1 and int(mask[0]) == FULL and team.are_whole_warps(active)


def _shuffle(instruction: Instruction) -> Operation:
    sync, mode, kind = instruction.modifiers
    if sync != "sync" or mode not in ("up", "down", "bfly", "idx") or kind != "b32":
        raise UnknownForm
    outputs = ("b32", "pred") if isinstance(instruction.operands[0], DestinationPair) else ("b32",)

    def fixed(team: Team, b: Array, c: Array) -> tuple[Array, Array]:
        key = mode, int(b[0]), int(c[0])
        if key not in team.permutations:
            source, valid = source_lanes(mode, team.lane_id, b, c)
            team.permutations[key] = team.first_lane + source, valid
        return team.permutations[key]

    def compute(
        team: Team, active: Lanes | None, a: Array, b: Array, c: Array, mask: Array, *out: Array
    ) -> None:
        # Whole warps with a constant offset are the common case (reductions). Their permutation
        # depends on the operands alone, so it is computed once and kept.
        if _is_full(team, active, mask) and len(b) == len(c) == 1:
            places, valid = fixed(team, b, c)
            result = a
            if len(a) > 1 and a is not out[0]:
                # "clip" lets NumPy write to `out` without a copy; no place is out of bounds.
                result = a.take(places, out=out[0], mode="clip")
            elif len(a) > 1:
                result = a.take(places)
        else:
            source, valid = source_lanes(mode, team.lane_id, b, c)
            here = _participants(team, active, mask)
            reachable = _has_bit(here, source)
            result = team.gather(a, np.where(reachable, source, team.lane_id))
            # Wrong masks, and masks with lanes that the block does not have, are other findings.
            is_right = _has_bit(here, team.lane_id) & _has_bit(team.mask_of_warp(None), source)
            takers = is_right & ~reachable if active is None else active & is_right & ~reachable
            team.take_undefined(instruction.name, instruction.location, takers, source)
        if result is not out[0]:
            np.copyto(out[0], result)
        if len(out) > 1:
            np.copyto(out[1], valid)

    return Operation(("b32", "b32", "b32", "b32"), outputs, compute)


def _vote(instruction: Instruction) -> Operation:
    sync, mode, kind = instruction.modifiers
    if sync != "sync" or (mode, kind) not in (
        ("all", "pred"),
        ("any", "pred"),
        ("uni", "pred"),
        ("ballot", "b32"),
    ):
        raise UnknownForm

    def compute(
        team: Team, active: Lanes | None, predicate: Array, mask: Array, out: Array
    ) -> None:
        here = _participants(team, active, mask)
        true = team.mask_of_warp(np.broadcast_to(predicate, (team.lanes,))) & here
        if mode == "ballot":
            np.copyto(out, true)
        elif mode == "any":
            np.not_equal(true, 0, out)
        else:
            np.copyto(out, (true == here) | ((true == 0) if mode == "uni" else False))

    return Operation(("pred", "b32"), (kind,), compute)


def _match(instruction: Instruction) -> Operation:
    mode, sync, kind = instruction.modifiers
    if sync != "sync" or mode not in ("any", "all") or kind not in ("b32", "b64"):
        raise UnknownForm

    def match_any(team: Team, active: Lanes | None, a: Array, mask: Array, out: Array) -> None:
        here = _participants(team, active, mask)
        result = np.zeros(team.lanes, np.uint32)
        for lane in range(WARP):
            result |= np.equal(team.gather(a, lane), a).astype(np.uint32) << np.uint32(lane)
        np.copyto(out, result & here)

    def match_all(team: Team, active: Lanes | None, a: Array, mask: Array, *out: Array) -> None:
        here = _participants(team, active, mask)
        same = np.equal(a, team.gather(a, _lowest(here)))
        agreeing = team.mask_of_warp(np.broadcast_to(same, (team.lanes,))) & here
        holds = agreeing == here
        np.copyto(out[0], np.where(holds, here, np.uint32(0)))
        if len(out) > 1:
            np.copyto(out[1], holds)

    pair = isinstance(instruction.operands[0], DestinationPair)
    if mode == "any":
        return Operation((kind, "b32"), ("b32",), match_any)
    return Operation((kind, "b32"), ("b32", "pred") if pair else ("b32",), match_all)


def _lowest(masks: Array) -> Array:
    """Return the position of the lowest set bit of each mask, or 0 for an empty mask."""
    isolated = masks & (~masks + np.uint32(1))
    below = np.maximum(isolated, np.uint32(1)) - np.uint32(1)
    positions: Array = np.bitwise_count(below).astype(np.int64)
    return positions


_REDUCTIONS: Mapping[str, tuple[np.ufunc, frozenset[str]]] = MappingProxyType(
    {
        "add": (np.add, frozenset({"u32", "s32"})),
        "min": (np.minimum, frozenset({"u32", "s32"})),
        "max": (np.maximum, frozenset({"u32", "s32"})),
        "and": (np.bitwise_and, frozenset({"b32"})),
        "or": (np.bitwise_or, frozenset({"b32"})),
        "xor": (np.bitwise_xor, frozenset({"b32"})),
    }
)


def _redux(instruction: Instruction) -> Operation:
    sync, name, kind = instruction.modifiers
    ufunc, kinds = _REDUCTIONS[name]
    if sync != "sync" or kind not in kinds:
        raise UnknownForm
    limits = np.iinfo(DTYPES[kind])  # type: ignore[type-var]
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(name, 0)

    def compute(team: Team, active: Lanes | None, a: Array, mask: Array, out: Array) -> None:
        here = _participants(team, active, mask)
        result = np.full(team.lanes, neutral, a.dtype)
        for lane in range(WARP):
            takes_part = here >> np.uint32(lane) & np.uint32(1) != 0
            ufunc(result, team.gather(a, lane), out=result, where=takes_part)
        np.copyto(out, result)

    return Operation((kind, "b32"), (kind,), compute)


def _elect(instruction: Instruction) -> Operation:
    if instruction.modifiers != ("sync",) or not isinstance(
        instruction.operands[0], DestinationPair
    ):
        raise UnknownForm

    def compute(
        team: Team, active: Lanes | None, mask: Array, leader: Array, is_leader: Array
    ) -> None:
        lowest = _lowest(_participants(team, active, mask))
        np.copyto(leader, lowest, casting="unsafe")
        np.copyto(is_leader, lowest == team.lane_id)

    return Operation(("b32",), ("b32", "pred"), compute)


def _activemask(instruction: Instruction) -> Operation:
    if instruction.modifiers != ("b32",):
        raise UnknownForm

    def compute(team: Team, active: Lanes | None, out: Array) -> None:
        np.copyto(out, team.mask_of_warp(active))

    return Operation((), ("b32",), compute)


def block_reduction(instruction: Instruction) -> Operation:
    """Return the `Operation` of the reduction in `bar.red`.

    The reduction combines a predicate over all threads of a block that are at the barrier.
    """
    *_, name, kind = instruction.modifiers
    if (name, kind) not in (("popc", "u32"), ("and", "pred"), ("or", "pred")):
        raise UnknownForm

    def compute(team: Team, active: Lanes | None, predicate: Array, out: Array) -> None:
        here = np.ones(team.lanes, np.bool_) if active is None else active
        counts = here.reshape(-1, team.threads).sum(1)
        trues = (here & predicate).reshape(-1, team.threads).sum(1)
        per_block = {"popc": trues, "and": trues == counts, "or": trues > 0}[name]
        np.copyto(out, np.repeat(per_block, team.threads), casting="unsafe")

    return Operation(("pred",), (kind,), compute)


SYNCHRONISING: Mapping[str, Builder] = MappingProxyType(
    {"shfl": _shuffle, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect}
)
"""Builders of the instructions that wait for the lanes in their last operand."""
ALONE: Mapping[str, Builder] = MappingProxyType({"activemask": _activemask})
"""Builders of the instructions that use the lanes that happen to be present."""
