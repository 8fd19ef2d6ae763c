"""cp.async.bulk: asynchronous copies of many bytes, and of boxes of tensors (TMA).

Source: PTX ISA, "Asynchronous copy: bulk copy" and "tensor copy".

The simulator copies the data when the copy starts. Until a thread waits for the copy, reads of the
target return poison (a fixed pattern, NaN as float32). For a target in shared memory, a thread
waits at the mbarrier that counts the copy. For a target in global memory, the thread that started
the copy waits for its bulk group.
"""

from __future__ import annotations

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input
from harness.simulator.actions.forms import number_of, require
from harness.simulator.actions.ordering import COPIES
from harness.simulator.actions.tensor_map import MAP_BYTES, TensorMap, swizzled
from harness.simulator.actions.transfers import Array, Delivery, Lanes, Transfer
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Group, Instruction, Operand, Vector
from harness.simulator.ptx.space import GENERIC_SHIFT, SHARED_CLUSTER, SHARED_CTA, Space

_COMPLETION = "mbarrier::complete_tx::bytes"
_CHUNK = 16
"""Bytes that a bulk copy moves at a time; sizes and addresses are multiples of it."""
_ALIGN = 128
"""Alignment in bytes of a tensor's box in shared memory."""
_NOWHERE = np.zeros(1, np.uint64)
"""A null address. An access to it is reported in place of a fault of the GPU's copy unit."""
_WINDOW = np.uint64((1 << GENERIC_SHIFT) - 1)
"""Mask of the address within its state space."""


def action(instruction: Instruction) -> Action:
    """Return an `Action` that executes any form of `cp.async.bulk`.

    Raises:
        UnknownForm: This form is not implemented.
    """
    rest = list(instruction.modifiers[2:])
    if rest == ["commit_group"]:
        return Action((), (), (), _commit)
    if rest[0] == "wait_group":
        return _wait(instruction, rest[1:])
    if rest[0] == "prefetch":
        return Action((), (), (), lambda _active: None)
    operands = list(instruction.operands)
    if "L2::cache_hint" in rest:
        rest.remove("L2::cache_hint")
        operands.pop()
    is_tensor = rest[0] == "tensor"
    if is_tensor:
        rest = [r for r in rest[1:] if r != "tile"]
        require(rest.pop(0) in ("1d", "2d", "3d", "4d", "5d"))
    to_shared = [[to, Space.GLOBAL, _COMPLETION] for to in (SHARED_CLUSTER, SHARED_CTA)]
    to_global = [[Space.GLOBAL, at, "bulk_group"] for at in (SHARED_CTA, Space.SHARED)]
    if rest in to_shared:
        return _tensor_load(operands) if is_tensor else _load(operands)
    if rest in to_global:
        return _tensor_store(operands) if is_tensor else _store(operands)
    raise UnknownForm


def _commit(active: ActiveThreads) -> None:
    """Close each thread's open bulk group, so that `wait_group` can wait for its copies."""
    active.bulk_reads.commit(active.lanes)
    active.bulk_writes.commit(active.lanes)


def _wait(instruction: Instruction, kind: list[str]) -> Action:
    """Return an `Action` that executes `cp.async.bulk.wait_group{.read}`.

    With `.read`, a thread waits only until the copies have read their sources.

    Args:
        instruction: The instruction, whose operand is how many groups may stay unfinished.
        kind: `["read"]` or `[]`.
    """
    require(kind in ([], ["read"]))
    left = number_of(instruction.operands[0])

    def run(active: ActiveThreads) -> None:
        active.bulk_reads.wait(active, left)
        if not kind:
            active.bulk_writes.wait(active, left)

    return Action((), (), (), run)


def _block_of(active: ActiveThreads, lane: int) -> int:
    return lane // active.block_threads


def _load(operands: list[Operand]) -> Action:
    """Return an `Action` for a bulk copy to shared memory: `[to], [from], size, [mbarrier]`."""
    target, source, size, barrier = operands

    def run(active: ActiveThreads, to: Array, at: Array, sizes: Array, barriers: Array) -> None:
        for i, lane in enumerate(active.lanes.tolist()):
            one, nbytes = active.lanes[i : i + 1], int(sizes[i])
            if nbytes % _CHUNK:
                _report_misaligned(active, one, nbytes)
                continue
            data = active.read(Space.GLOBAL, one, at[i : i + 1], nbytes, _CHUNK)
            counter = _block_of(active, lane), int(barriers[i] & _WINDOW)
            agent = active.ordering.counted_by(*counter)
            active.write(Space.SHARED, one, to[i : i + 1], data, _CHUNK, agent)
            transfer = Transfer(Space.SHARED, one, to[i : i + 1], nbytes)
            active.deliveries.start(Delivery((transfer,), nbytes, 0), *counter)

    inputs = (
        Input(target, "u64"),
        Input(source, "u64"),
        Input(size, "u32"),
        Input(barrier, "u64"),
    )
    return Action(inputs, (), (), run, traffic="bulk")


def _report_misaligned(active: ActiveThreads, lane: Lanes, nbytes: int) -> None:
    """Report a copy whose size is not a multiple of 16 as a misaligned access.

    The function reads at an address equal to the size, so the usual alignment check fails.
    """
    wrong = np.array([nbytes], np.uint64)
    active.read(Space.SHARED, lane, wrong, _CHUNK, _CHUNK, None, counts=False)


def _store(operands: list[Operand]) -> Action:
    """Return an `Action` for a bulk copy to global memory: `[to], [from], size`."""
    target, source, size = operands

    def run(active: ActiveThreads, to: Array, at: Array, sizes: Array) -> None:
        for i in range(len(active.lanes)):
            one, nbytes = active.lanes[i : i + 1], int(sizes[i])
            if nbytes % _CHUNK:
                _report_misaligned(active, one, nbytes)
                continue
            data = active.read(Space.SHARED, one, at[i : i + 1], nbytes, _CHUNK, COPIES)
            active.write(Space.GLOBAL, one, to[i : i + 1], data, _CHUNK, COPIES)
            active.bulk_reads.start(
                Transfer(Space.SHARED, one, at[i : i + 1], nbytes, is_read=True)
            )
            active.bulk_writes.start(Transfer(Space.GLOBAL, one, to[i : i + 1], nbytes))

    inputs = (Input(target, "u64"), Input(source, "u64"), Input(size, "u32"))
    return Action(inputs, (), (), run, stores_through=(0,), traffic="bulk")


def _tensor_operand(operand: Operand) -> tuple[Input, ...]:
    """Return the inputs for the operand `[map, {x, y}]`: the map's address, and the coordinates."""
    if not isinstance(operand, Group):
        raise UnknownForm
    address, coordinates = operand.parts
    if not isinstance(coordinates, Vector):
        raise UnknownForm
    return (Input(address, "u64"), *(Input(c, "s32") for c in coordinates.parts))


def _each_box(
    active: ActiveThreads, maps: Array, coordinates: tuple[Array, ...]
) -> list[tuple[int, TensorMap, tuple[int, ...]]]:
    """Decode the tensor map of each thread; return the valid maps with the start of their boxes.

    An invalid map is reported as an access to an invalid address.

    Returns:
        For each valid map, the thread's position among the active threads, the map, and the
        coordinates at which the thread's box begins.
    """
    found = []
    data = active.read(Space.GENERIC, active.lanes, maps, MAP_BYTES, 64, counts=False)
    for i in range(len(active.lanes)):
        tensor = TensorMap.decode(data[i].tobytes())
        if tensor is None or len(tensor.dims) != len(coordinates):
            # A GPU's copy unit faults; the simulator reports an access to the null address.
            active.read(Space.GLOBAL, active.lanes[i : i + 1], _NOWHERE, MAP_BYTES, counts=False)
            continue
        found.append((i, tensor, tuple(int(c[i]) for c in coordinates)))
    return found


def _chunks(tensor: TensorMap, start: int) -> Array:
    """Return the shared addresses, with swizzling, of a box's 16-byte chunks.

    `start` is the shared address of the box.
    """
    addresses = np.uint64(start) + np.arange(0, tensor.nbytes, _CHUNK, dtype=np.uint64)
    return swizzled(addresses, tensor.swizzle)


def _is_off_chunks(tensor: TensorMap, start: tuple[int, ...]) -> bool:
    """Return whether a box does not begin at a multiple of 16 bytes in the tensor's rows.

    An H200 reports "illegal instruction" for such a load. tile-ai/tilelang, issue 2527, reports the
    same error for stores on an H100.
    """
    return start[0] * tensor.width % _CHUNK != 0


def _tensor_load(operands: list[Operand]) -> Action:
    """Return an `Action` for a copy of a tensor's box to shared memory.

    The operands are `[to], [map, {x, y}], [mbarrier]`.
    """
    target, source, barrier = operands
    where = _tensor_operand(source)

    def run(
        active: ActiveThreads, to: Array, barriers: Array, maps: Array, *coordinates: Array
    ) -> None:
        for i, tensor, start in _each_box(active, maps, coordinates):
            one = active.lanes[i : i + 1]
            if _is_off_chunks(tensor, start):
                active.read(Space.GLOBAL, one, _NOWHERE, _CHUNK, counts=False)
                continue
            # The box is filled with the value of elements outside of the tensor first; then the
            # rows that the tensor has are copied over it.
            numbers, addresses, inside = tensor.rows(start)
            box = np.tile(tensor.outside(), tensor.nbytes // tensor.width)
            box = box.reshape(-1, tensor.counts[0], tensor.width)
            if len(numbers):
                nbytes = (inside.stop - inside.start) * tensor.width
                lanes = np.repeat(one, len(numbers))
                data = active.read(Space.GLOBAL, lanes, addresses, nbytes, tensor.width)
                elements = tensor.converted(data).reshape(len(numbers), -1, tensor.width)
                box[numbers, inside] = elements
            if int(to[i]) % _ALIGN:
                active.write(Space.SHARED, one, to[i : i + 1], box.reshape(1, -1), _ALIGN)
                continue
            chunks = _chunks(tensor, int(to[i]))
            owners = np.repeat(one, len(chunks))
            counter = _block_of(active, int(one[0])), int(barriers[i] & _WINDOW)
            agent = active.ordering.counted_by(*counter)
            active.write(Space.SHARED, owners, chunks, box.reshape(-1, _CHUNK), _CHUNK, agent)
            transfer = Transfer(Space.SHARED, owners, chunks, _CHUNK)
            active.deliveries.start(Delivery((transfer,), tensor.nbytes, 0), *counter)

    inputs = (Input(target, "u64"), Input(barrier, "u64"), *where)
    return Action(inputs, (), (), run, traffic="bulk")


def _tensor_store(operands: list[Operand]) -> Action:
    """Return an `Action` for a copy from shared memory to a tensor's box.

    The operands are `[map, {x, y}], [from]`.
    """
    target, source = operands
    where = _tensor_operand(target)

    def run(active: ActiveThreads, at: Array, maps: Array, *coordinates: Array) -> None:
        for i, tensor, start in _each_box(active, maps, coordinates):
            one = active.lanes[i : i + 1]
            if int(at[i]) % _ALIGN:
                active.read(Space.SHARED, one, at[i : i + 1], _CHUNK, _ALIGN)
                continue
            # A load may start below zero; an H200 reports "illegal instruction" for a store.
            if min(start) < 0 or _is_off_chunks(tensor, start):
                active.write(
                    Space.GLOBAL, one, _NOWHERE, np.zeros((1, _CHUNK), np.uint8), counts=False
                )
                continue
            chunks = _chunks(tensor, int(at[i]))
            readers = np.repeat(one, len(chunks))
            data = active.read(Space.SHARED, readers, chunks, _CHUNK, by=COPIES)
            active.bulk_reads.start(Transfer(Space.SHARED, readers, chunks, _CHUNK, is_read=True))
            numbers, addresses, inside = tensor.rows(start)
            if not len(numbers):
                continue
            box = data.reshape(-1, tensor.counts[0], tensor.width)
            rows = np.ascontiguousarray(box[numbers, inside]).reshape(len(numbers), -1)
            owners = np.repeat(one, len(numbers))
            active.write(Space.GLOBAL, owners, addresses, rows, tensor.width, COPIES)
            active.bulk_writes.start(Transfer(Space.GLOBAL, owners, addresses, rows.shape[1]))

    inputs = (Input(source, "u64"), *where)
    return Action(inputs, (), (), run, stores_anywhere=True, traffic="bulk")
