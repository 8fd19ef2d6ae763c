"""Lowering of loads, stores and atomic operations on memory to steps of a `Program`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from harness.simulator.lowering.context import Context
from harness.simulator.lowering.program import ATOMICS, Access, Order
from harness.simulator.ptx.ptx import TYPE_BYTES, Instruction, Register
from harness.simulator.ptx.space import Space, space_named

_MODIFIERS = frozenset(
    {"volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "nc", "ca", "cg", "cs", "lu"}
    | {"cv", "wb", "wt", "cta", "gpu", "sys", "cluster", "L1", "L2", "v2", "v4", "u", "mmio"}
)
_WORDS = ("u32", "s32", "u64", "s64", "b32", "b64")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_ATOMIC_KINDS: Mapping[str, tuple[str, ...]] = {
    "add": (*_WORDS, "f32", "f64", *_HALVES),
    "min": (*_WORDS, *_HALVES),
    "max": (*_WORDS, *_HALVES),
    "exch": _WORDS,
    "cas": ("b16", *_WORDS),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
}


def load(context: Context, instruction: Instruction) -> None:
    """Lower `ld`, a load of a scalar or vector."""
    space, elements, kind, rest = _modifiers(context, instruction)
    target, address = instruction.operands[:2]
    targets = context.targets(target)
    if rest or len(targets) != elements or len(instruction.operands) != 2 + _hints(instruction):
        raise context.unsupported()
    if len({context.listing.bits[register] for register in targets}) != 1:
        raise context.unsupported()
    where = context.address(address, space)
    place = context.place(instruction.location)
    context.listing.add(
        Access(where[0], kind, elements, *where[1:], instruction, place, targets), 1
    )


def store(context: Context, instruction: Instruction) -> None:
    """Lower `st`, a store of a scalar or vector."""
    space, elements, kind, rest = _modifiers(context, instruction)
    address, value = instruction.operands[:2]
    sources = context.sources(value)
    if rest or len(sources) != elements or len(instruction.operands) != 2 + _hints(instruction):
        raise context.unsupported()
    where = context.address(address, space)
    place = context.place(instruction.location)
    _release(context, instruction)
    context.listing.add(
        Access(where[0], kind, elements, *where[1:], instruction, place, (), sources), 1
    )


def atomic(context: Context, instruction: Instruction) -> None:
    """Lower `atom` and `red`.

    An instruction on a vector becomes one atomic operation for each element.
    """
    space, elements, kind, rest = _modifiers(context, instruction)
    name = _operation(context, rest, elements, kind)
    operands = list(instruction.operands)
    if _hints(instruction):
        operands.pop()
    targets: tuple[int, ...] = ()
    if instruction.opcode == "atom":
        target = operands.pop(0)
        targets = () if target == Register("_") else context.targets(target)
    lies_in, address, offset = context.address(operands.pop(0), space)
    sources = [context.sources(operand) for operand in operands]
    if len(sources) != (2 if name == "cas" else 1):
        raise context.unsupported()
    if any(len(s) != elements for s in sources) or len(targets) not in (0, elements):
        raise context.unsupported()
    place = context.place(instruction.location)
    _release(context, instruction)
    for element in range(elements):
        access = Access(
            lies_in,
            kind,
            1,
            address,
            offset + element * TYPE_BYTES[kind],
            instruction,
            place,
            targets[element : element + 1],
            tuple(s[element] for s in sources),
            name,
        )
        context.listing.add(access, int(element == 0))


def _modifiers(context: Context, instruction: Instruction) -> tuple[Space, int, str, list[str]]:
    """Parse the modifiers of a load, store or atomic operation.

    Returns:
        The state space, the number of elements, the PTX type of an element, and the modifiers that
        are not recognised here.
    """
    space, elements, kind = Space.GENERIC, 1, instruction.modifiers[-1]
    rest = []
    for modifier in instruction.modifiers[:-1]:
        plain = modifier.split("::")[0]
        if named := space_named(modifier):
            space = named  # a cluster is one block, so `shared::cluster` is its own memory
        elif plain in ("v2", "v4", "v8"):
            elements = int(plain[1])
        elif plain not in _MODIFIERS:
            rest.append(modifier)
    if kind not in TYPE_BYTES or TYPE_BYTES[kind] > 8 or kind == "pred":
        raise context.unsupported()
    if elements > 4 and instruction.opcode not in ("atom", "red"):
        raise context.unsupported()
    return space, elements, kind, rest


def _operation(context: Context, rest: list[str], elements: int, kind: str) -> str:
    """Return the name of the atomic operation, such as `add`.

    Args:
        context: Creates the error for a form that is not supported.
        rest: The modifiers that `_modifiers` does not recognise.
        elements: The number of elements.
        kind: The PTX type of an element.
    """
    names = [r for r in rest if r in ATOMICS]
    if len(names) != 1 or set(rest) - {names[0], "noftz"}:
        raise context.unsupported()
    if kind not in _ATOMIC_KINDS.get(names[0], ()) or (elements > 1 and names[0] == "exch"):
        raise context.unsupported()
    return names[0]


def _release(context: Context, instruction: Instruction) -> None:
    """Add a fence if the instruction has release semantics; the fence precedes its access."""
    if not {"release", "acq_rel"}.isdisjoint(instruction.modifiers):
        context.listing.add(Order(fence_of(instruction)))


def fence_of(instruction: Instruction) -> Literal["fence", "block fence"]:
    """Return the kind of `Order` for the scope of a fence, or of an access that releases.

    A cluster is one block here.
    """
    is_of_block = not {"cta", "cluster"}.isdisjoint(instruction.modifiers)
    return "block fence" if is_of_block else "fence"


def _hints(instruction: Instruction) -> int:
    """Return how many operands at the end are cache hints, which have no effect here: 0 or 1."""
    return int("L2::cache_hint" in instruction.modifiers)
