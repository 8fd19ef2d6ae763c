"""cp.async.bulk: copies of many bytes, and of boxes of tensors (TMA).

PTX ISA, "Asynchronous copy: bulk copy" and "tensor copy". The source is read when the copy is
started. The data arrives in shared memory when a thread waits for the mbarrier that counts it, in
global memory when the thread waits for the group; until then it counts as not written.
"""

from __future__ import annotations

import numpy as np

from harness.simulator.actions.action import GENERIC, GLOBAL, SHARED, Action, Crew, Input
from harness.simulator.actions.forms import number_of, require
from harness.simulator.actions.tensor_map import MAP_BYTES, TensorMap, swizzled
from harness.simulator.actions.transfers import Array, Delivery, Lanes, Transfer
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx import Group, Instruction, Operand, Vector

_COMPLETION = "mbarrier::complete_tx::bytes"
_CHUNK = 16
_WINDOW = np.uint64((1 << 56) - 1)


def action(instruction: Instruction) -> Action:
    """The action of a bulk copy, or of the groups of bulk copies."""
    rest = list(instruction.modifiers[2:])
    if rest == ["commit_group"]:
        return Action((), (), (), lambda crew: crew.bulk_copies.commit(crew.lanes))
    if rest[0] == "wait_group":
        require(rest[1:] in ([], ["read"]))
        left = number_of(instruction.operands[0])
        return Action((), (), (), lambda crew: crew.bulk_copies.wait(crew, left))
    if rest[0] == "prefetch":
        return Action((), (), (), lambda _crew: None)
    operands = list(instruction.operands)
    if "L2::cache_hint" in rest:
        rest.remove("L2::cache_hint")
        operands.pop()
    is_tensor = rest[0] == "tensor"
    if is_tensor:
        rest = [r for r in rest[1:] if r != "tile"]
        require(rest.pop(0) in ("1d", "2d", "3d", "4d", "5d"))
    if rest in (["shared::cluster", "global", _COMPLETION], ["shared::cta", "global", _COMPLETION]):
        return _tensor_load(operands) if is_tensor else _load(operands)
    if rest in (["global", "shared::cta", "bulk_group"], ["global", "shared", "bulk_group"]):
        return _tensor_store(operands) if is_tensor else _store(operands)
    raise UnknownForm


def _block_of(crew: Crew, lane: int) -> int:
    return lane // crew.block_threads


def _load(operands: list[Operand]) -> Action:
    target, source, size, barrier = operands

    def run(crew: Crew, to: Array, at: Array, sizes: Array, barriers: Array) -> None:
        for i, lane in enumerate(crew.lanes.tolist()):
            one, nbytes = crew.lanes[i : i + 1], int(sizes[i])
            if nbytes % _CHUNK:
                _report_misaligned(crew, one, nbytes)
                continue
            data = crew.read(GLOBAL, one, at[i : i + 1], nbytes, _CHUNK)
            crew.expect(SHARED, one, to[i : i + 1], nbytes, _CHUNK)
            delivery = Delivery((Transfer(SHARED, one, to[i : i + 1], data),), nbytes, 0)
            crew.deliveries.start(delivery, _block_of(crew, lane), int(barriers[i] & _WINDOW))

    inputs = (
        Input(target, "u64"),
        Input(source, "u64"),
        Input(size, "u32"),
        Input(barrier, "u64"),
    )
    return Action(inputs, (), (), run)


def _report_misaligned(crew: Crew, lane: Lanes, nbytes: int) -> None:
    """Reports a size that is no multiple of 16 as a misaligned access of that size."""
    crew.read(SHARED, lane, np.array([nbytes], np.uint64), _CHUNK, _CHUNK)


def _store(operands: list[Operand]) -> Action:
    target, source, size = operands

    def run(crew: Crew, to: Array, at: Array, sizes: Array) -> None:
        for i in range(len(crew.lanes)):
            one, nbytes = crew.lanes[i : i + 1], int(sizes[i])
            if nbytes % _CHUNK:
                _report_misaligned(crew, one, nbytes)
                continue
            data = crew.read(SHARED, one, at[i : i + 1], nbytes, _CHUNK)
            crew.expect(GLOBAL, one, to[i : i + 1], nbytes, _CHUNK)
            crew.bulk_copies.start(Transfer(GLOBAL, one, to[i : i + 1], data))

    inputs = (Input(target, "u64"), Input(source, "u64"), Input(size, "u32"))
    return Action(inputs, (), (), run)


def _tensor_operand(operand: Operand) -> tuple[Input, ...]:
    """`[map, {x, y}]`: the map's address and the coordinates."""
    if not isinstance(operand, Group):
        raise UnknownForm
    address, coordinates = operand.parts
    if not isinstance(coordinates, Vector):
        raise UnknownForm
    return (Input(address, "u64"), *(Input(c, "s32") for c in coordinates.parts))


def _each_box(
    crew: Crew, maps: Array, coordinates: tuple[Array, ...]
) -> list[tuple[int, TensorMap, tuple[int, ...]]]:
    """For each thread with a valid map: its position, the map and where its box starts."""
    found = []
    data = crew.read(GENERIC, crew.lanes, maps, MAP_BYTES, 64)
    for i in range(len(crew.lanes)):
        tensor = TensorMap.decode(data[i].tobytes())
        if tensor is None or len(tensor.dims) != len(coordinates):
            # On a GPU the copy unit faults; here it is a wrong access of the map.
            crew.read(GLOBAL, crew.lanes[i : i + 1], np.zeros(1, np.uint64), MAP_BYTES)
            continue
        found.append((i, tensor, tuple(int(c[i]) for c in coordinates)))
    return found


def _chunks(tensor: TensorMap, start: int) -> Array:
    """Shared addresses of the 16-byte chunks of a box."""
    addresses = np.uint64(start) + np.arange(0, tensor.nbytes, _CHUNK, dtype=np.uint64)
    return swizzled(addresses, tensor.swizzle)


def _tensor_load(operands: list[Operand]) -> Action:
    target, source, barrier = operands
    where = _tensor_operand(source)

    def run(crew: Crew, to: Array, barriers: Array, maps: Array, *coordinates: Array) -> None:
        for i, tensor, start in _each_box(crew, maps, coordinates):
            one = crew.lanes[i : i + 1]
            numbers, addresses, inside = tensor.rows(start)
            box = np.tile(tensor.outside(), tensor.nbytes // tensor.width)
            box = box.reshape(-1, tensor.counts[0], tensor.width)
            if len(numbers):
                nbytes = (inside.stop - inside.start) * tensor.width
                lanes = np.repeat(one, len(numbers))
                data = crew.read(GLOBAL, lanes, addresses, nbytes, tensor.width)
                elements = tensor.converted(data).reshape(len(numbers), -1, tensor.width)
                box[numbers, inside] = elements
            crew.expect(SHARED, one, to[i : i + 1], tensor.nbytes, 128)
            chunks = _chunks(tensor, int(to[i]))
            rows = np.ascontiguousarray(box).reshape(-1, _CHUNK)
            transfer = Transfer(SHARED, np.repeat(one, len(chunks)), chunks, rows)
            block = _block_of(crew, int(one[0]))
            barrier_at = int(barriers[i] & _WINDOW)
            crew.deliveries.start(Delivery((transfer,), tensor.nbytes, 0), block, barrier_at)

    return Action((Input(target, "u64"), Input(barrier, "u64"), *where), (), (), run)


def _tensor_store(operands: list[Operand]) -> Action:
    target, source = operands
    where = _tensor_operand(target)

    def run(crew: Crew, at: Array, maps: Array, *coordinates: Array) -> None:
        for i, tensor, start in _each_box(crew, maps, coordinates):
            one = crew.lanes[i : i + 1]
            if int(at[i]) % 128:
                crew.read(SHARED, one, at[i : i + 1], _CHUNK, 128)
                continue
            chunks = _chunks(tensor, int(at[i]))
            data = crew.read(SHARED, np.repeat(one, len(chunks)), chunks, _CHUNK)
            numbers, addresses, inside = tensor.rows(start)
            if not len(numbers):
                continue
            box = data.reshape(-1, tensor.counts[0], tensor.width)
            rows = np.ascontiguousarray(box[numbers, inside]).reshape(len(numbers), -1)
            owners = np.repeat(one, len(numbers))
            crew.expect(GLOBAL, owners, addresses, rows.shape[1], tensor.width)
            crew.bulk_copies.start(Transfer(GLOBAL, owners, addresses, rows))

    return Action((Input(source, "u64"), *where), (), (), run)
