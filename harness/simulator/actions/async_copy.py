"""cp.async: asynchronous copies of 4, 8 or 16 bytes from global to shared memory.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy".

The simulator copies the data when the copy starts. Reads of the target return poison (a fixed
pattern, NaN as float32) until the thread that started the copy waits for it. If the copy was handed
to an mbarrier by `cp.async.mbarrier.arrive`, reads return poison until a thread waits for the
mbarrier. A kernel that reads too early therefore gets wrong values in every run. On a GPU, it gets
wrong values only with some timings.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from harness.simulator.actions import bulk_copy, mbarrier
from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import number_of, require, space_of
from harness.simulator.actions.ordering import COPIES
from harness.simulator.actions.transfers import Array, Delivery, Transfer
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Address, Group, Instruction
from harness.simulator.ptx.space import SHARED_CTA, Space, space_named


def _cp(instruction: Instruction) -> Action:
    """Return an `Action` that executes any form of `cp.async`."""
    modifiers = instruction.modifiers
    require(modifiers[:1] == ("async",))
    kind = modifiers[1]
    if kind == "bulk":
        return bulk_copy.action(instruction)
    if kind in ("ca", "cg"):
        return _copy(instruction)
    if kind == "commit_group":
        return Action((), (), (), lambda active: active.copies.commit(active.lanes))
    if kind == "wait_group":
        left = number_of(instruction.operands[0])
        return Action((), (), (), lambda active: active.copies.wait(active, left))
    if kind == "wait_all":
        return Action((), (), (), lambda active: active.copies.wait_all(active))
    if modifiers[1:3] == ("mbarrier", "arrive"):
        return _arrive(instruction)
    raise UnknownForm


def _copy(instruction: Instruction) -> Action:
    """Return an `Action` that executes `cp.async.ca` or `cp.async.cg`.

    The form is `cp.async.cg.shared.global [to], [from], 16{, bytes to read}{, policy}`; `.ca` can
    also copy 4 or 8 bytes. If `bytes to read` is a predicate, a true predicate means 0 bytes, and a
    false one all bytes. Bytes that are not read are zeros in shared memory.
    """
    require(instruction.modifiers[2] in (Space.SHARED, SHARED_CTA))
    require(instruction.modifiers[3] == Space.GLOBAL)
    hints = instruction.modifiers[4:]
    require(all(h.startswith("L2::") for h in hints))
    target, source, *rest = instruction.operands
    size = number_of(rest.pop(0))
    require(size == 16 or (size in (4, 8) and instruction.modifiers[1] == "ca"))
    if "L2::cache_hint" in hints:
        rest.pop()
    require(len(rest) <= 1 and not isinstance(rest[0] if rest else None, Group))
    inputs = [Input(target, "u64"), Input(source, "u64")]
    inputs += [Input(operand, "") for operand in rest]

    def run(active: ActiveThreads, to: Array, at: Array, *how_much: Array) -> None:
        length = np.full(len(to), size)
        if how_much:
            ignores = how_much[0].dtype == np.bool_
            length = np.where(how_much[0], 0, size) if ignores else how_much[0].astype(np.int64)
        if (length > size).any():
            worst = int(length.max())
            active.misuse(
                f"cp.async of {size} bytes is told to read {worst}: the result is undefined",
                active.lanes[length > size],
            )
        data = np.zeros((len(to), size), np.uint8)
        for count in np.unique(length).tolist():
            rows = length == count
            if count:
                read = min(count, size)
                # The address must be aligned to the full size even if fewer bytes are read.
                data[rows, :read] = active.read(
                    Space.GLOBAL, active.lanes[rows], at[rows], read, size
                )
        active.write(Space.SHARED, active.lanes, to, data, by=COPIES)
        active.copies.start(Transfer(Space.SHARED, active.lanes, to, size))

    return Action(tuple(inputs), (), (), run, row_bytes=size, traffic="warps")


def _arrive(instruction: Instruction) -> Action:
    """Return an `Action` that executes `cp.async.mbarrier.arrive{.noinc}.shared.b64 [at]`.

    The mbarrier counts one arrival of each thread when the thread's copies have finished. Without
    `.noinc`, the instruction first adds one to the pending arrivals for each thread.
    """
    rest = [m for m in instruction.modifiers[3:] if space_named(m) is not Space.SHARED]
    require(rest in (["b64"], ["noinc", "b64"]))
    (barrier,) = instruction.operands
    require(isinstance(barrier, Address))
    counts_itself = "noinc" not in rest
    space = space_of(instruction)

    def run(active: ActiveThreads, at: Array) -> None:
        if counts_itself:
            mbarrier.raise_pending(active, space, at)
        for block, address, lanes in mbarrier.by_barrier(active, at):
            active.ordering.arrived(block, address, lanes)
            transfers = active.copies.take(lanes)
            for transfer in transfers:
                active.entrust(transfer, active.ordering.counted_by(block, address))
            active.deliveries.start(Delivery(transfers, 0, len(lanes)), block, address)

    return Action((Input(barrier, "u64"),), (), (), run)


ACTIONS: Mapping[str, Maker] = MappingProxyType({"cp": _cp})
"""Makers by opcode."""
