"""mbarrier: barrier objects in shared memory that count arrivals and bytes.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

A phase is complete when its pending arrivals and its outstanding bytes (the tx-count) are both
zero. Then the next phase begins, whose pending arrivals are the expected arrivals.

The layout of an mbarrier's 64 bits is not documented. The simulator uses, from the lowest bit:

- 20 bits: pending arrivals
- 20 bits: expected arrivals
- 21 bits: tx-count in two's complement
- 1 bit: parity of the phase
- 2 bits: mark of a valid mbarrier

The copies that an mbarrier counts are finished when a thread tests or waits at the mbarrier, not
when the copies start. So a thread that does not wait reads poison (a fixed pattern).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from harness.simulator.actions.action import Action, ActiveThreads, Input, Maker
from harness.simulator.actions.forms import require, rest_of, space_of
from harness.simulator.actions.ordering import ATOMIC
from harness.simulator.actions.transfers import Array, Lanes
from harness.simulator.instructions.operation import UnknownForm
from harness.simulator.ptx.ptx import Immediate, Instruction, Operand
from harness.simulator.ptx.space import GENERIC_SHIFT, Space, space_named

_COUNT = (1 << 20) - 1
"""Mask of a count of arrivals, and the largest one."""
_VALID = 0b10 << 62
_UNDEFINED = 0
"""The bits of an object that is not a valid mbarrier."""
_WINDOW = np.uint64((1 << GENERIC_SHIFT) - 1)
"""Mask of the address within its state space."""


@dataclass(frozen=True)
class Phase:
    """The state of an mbarrier.

    Attributes:
        pending: Arrivals that this phase still waits for.
        expected: Arrivals that the next phase will wait for.
        nbytes: Bytes that this phase still waits for.
        parity: 0 or 1, which alternates from phase to phase.
        completed: How many phases have been completed since the mbarrier was read from memory.
    """

    pending: int
    expected: int
    nbytes: int
    parity: int
    completed: int = 0

    @classmethod
    def of(cls, bits: int) -> Phase | None:
        """Return the state in the 64 bits of an mbarrier, or None if the bits are not valid."""
        if bits >> 62 != _VALID >> 62:
            return None
        nbytes = bits >> 40 & 0x1FFFFF
        nbytes -= (nbytes & 0x100000) << 1
        return cls(bits & _COUNT, bits >> 20 & _COUNT, nbytes, bits >> 61 & 1)

    @property
    def bits(self) -> int:
        """The 64 bits by which the mbarrier is stored in shared memory."""
        return (
            _VALID
            | self.parity << 61
            | (self.nbytes & 0x1FFFFF) << 40
            | self.expected << 20
            | self.pending
        )

    def settled(self) -> Phase:
        """Return the next phase if this phase is complete, or else this phase."""
        if self.pending or self.nbytes:
            return self
        return replace(
            self, pending=self.expected, parity=self.parity ^ 1, completed=self.completed + 1
        )

    def arrived(self, count: int) -> Phase:
        """Return the state after `count` more arrivals.

        If there are more arrivals than are pending, the rest counts for the following phases.
        """
        phase = self
        while count:
            taken = min(count, phase.pending) or count
            phase = replace(phase, pending=max(phase.pending - taken, 0)).settled()
            count -= taken
        return phase


Change = Callable[[Phase, Array], tuple[Phase, list[int]]]
"""A function from a phase and the positions of the threads that act on it, in order.

It returns the phase afterwards and the state that each thread receives.
"""


def by_barrier(active: ActiveThreads, addresses: Array) -> Iterator[tuple[int, int, Lanes]]:
    """Yield the block, the shared address and the threads of each mbarrier among the addresses.

    The threads are given by their numbers in the chunk (the blocks that run together).

    Args:
        active: The threads.
        addresses: Address of an mbarrier, for each thread.
    """
    for block, address, positions in _grouped(active, addresses):
        yield block, address, active.lanes[positions]


def _grouped(active: ActiveThreads, addresses: Array) -> Iterator[tuple[int, int, Array]]:
    """Yield the block, the shared address and the threads of each mbarrier among the addresses.

    The threads are given by their positions in `addresses`, not by their numbers in the chunk.
    """
    plain = addresses & _WINDOW
    blocks = (active.lanes // active.block_threads).astype(np.uint64)
    keys, inverse = np.unique(blocks << np.uint64(32) | plain, return_inverse=True)
    for number, key in enumerate(keys.tolist()):
        yield key >> 32, key & 0xFFFFFFFF, np.flatnonzero(inverse == number)


def _states(active: ActiveThreads, space: Space, addresses: Array) -> list[int]:
    rows = active.read(space, active.lanes, addresses, 8, by=ATOMIC)
    states: list[int] = rows.view(np.uint64)[:, 0].tolist()
    return states


def change(active: ActiveThreads, space: Space, addresses: Array, how: Change) -> Array:
    """Apply a change to the mbarriers at the addresses.

    Threads with the same mbarrier act in ascending order. A thread whose address does not hold a
    valid mbarrier changes nothing.

    Args:
        active: The threads.
        space: State space of the addresses.
        addresses: Address of an mbarrier, for each thread.
        how: The change: a function that is called for each mbarrier. Its arguments are the phase,
            and the positions in `addresses` of the threads at the mbarrier. It returns the new
            phase, and a list of the states that these threads receive.

    Returns:
        The state that each thread receives; 0 for a thread without a valid mbarrier.
    """
    states = _states(active, space, addresses)
    given = np.zeros(len(addresses), np.uint64)
    for block, barrier, positions in _grouped(active, addresses):
        phase = Phase.of(states[positions[0]])
        if phase is None:
            continue
        after, tokens = how(phase, positions)
        given[positions] = np.array(tokens or [0], np.uint64)
        _keep(active, space, positions[0], addresses, after)
        for _ in range(after.completed):
            active.ordering.completed(block, barrier)
    return given


def _keep(
    active: ActiveThreads, space: Space, position: int, addresses: Array, phase: Phase
) -> None:
    """Write the state of an mbarrier to memory, as an access of one thread.

    Args:
        active: The threads.
        space: State space of the addresses.
        position: Position in `addresses` of the thread that makes the access.
        addresses: Address of an mbarrier, for each thread.
        phase: The state.
    """
    data = np.array([phase.bits], np.uint64).view(np.uint8).reshape(1, 8)
    one = slice(position, position + 1)
    active.write(space, active.lanes[one], addresses[one], data, by=ATOMIC)


def raise_pending(active: ActiveThreads, space: Space, addresses: Array) -> None:
    """Add one to the pending arrivals of the mbarrier at each thread's address."""

    def how(phase: Phase, positions: Array) -> tuple[Phase, list[int]]:
        return replace(phase, pending=phase.pending + len(positions)), []

    change(active, space, addresses, how)


def deliver(active: ActiveThreads, space: Space, addresses: Array) -> None:
    """Finish the copies that the mbarriers at the addresses count.

    An mbarrier counts finished copies in bytes or as arrivals. Its pending bytes or arrivals
    decrease accordingly, which may complete the phase.
    """
    for block, barrier, positions in _grouped(active, addresses):
        deliveries = active.deliveries.take(block, barrier)
        if not deliveries:
            continue
        for delivery in deliveries:
            for transfer in delivery.transfers:
                active.deliver(transfer)
        first = positions[:1]
        bits = active.read(space, active.lanes[first], addresses[first], 8, by=ATOMIC)
        phase = Phase.of(int(bits.view(np.uint64)[0, 0]))
        if phase is None:
            continue
        nbytes = sum(d.nbytes for d in deliveries)
        arrivals = sum(d.arrivals for d in deliveries)
        phase = replace(phase, nbytes=phase.nbytes - nbytes)
        phase = phase.arrived(arrivals) if arrivals else phase.settled()
        _keep(active, space, positions[0], addresses, phase)
        for _ in range(phase.completed):
            active.ordering.completed(block, barrier)


def _init(instruction: Instruction, space: Space) -> Action:
    """Return an `Action` that executes `mbarrier.init [at], count`."""
    address, count = instruction.operands

    def run(active: ActiveThreads, at: Array, counts: Array) -> None:
        # The behaviour for a count outside of 1 ... 2^20 - 1 is undefined.
        objects = [
            Phase(c, c, 0, 0).bits if 0 < c <= _COUNT else _UNDEFINED for c in counts.tolist()
        ]
        active.write(space, active.lanes, at, np.array(objects, np.uint64)[:, None].view(np.uint8))

    return Action((Input(address, "u64"), Input(count, "u32")), (), (), run)


def _inval(instruction: Instruction, space: Space) -> Action:
    """Return an `Action` that executes `mbarrier.inval [at]`."""
    (address,) = instruction.operands
    return Action(
        (Input(address, "u64"),),
        (),
        (),
        lambda active, at: active.forget(space, active.lanes, at, 8),
    )


def _transaction(instruction: Instruction, space: Space, sign: int) -> Action:
    """Return an `Action` for `mbarrier.expect_tx` (`sign` 1) or `mbarrier.complete_tx` (`sign` -1).

    Only complete_tx can complete the phase.
    """
    address, nbytes = instruction.operands

    def run(active: ActiveThreads, at: Array, counts: Array) -> None:
        def how(phase: Phase, positions: Array) -> tuple[Phase, list[int]]:
            total = int(counts[positions].sum()) * sign
            after = replace(phase, nbytes=phase.nbytes + total)
            return (after if sign > 0 else after.settled()), []

        change(active, space, at, how)

    return Action((Input(address, "u64"), Input(nbytes, "u32")), (), (), run)


def _arrive(instruction: Instruction, space: Space) -> Action:
    """Return an `Action` for `mbarrier.arrive` or `mbarrier.arrive_drop`.

    Both may have `.expect_tx` or `.noComplete`.
    """
    state, address, *rest = instruction.operands
    drops = instruction.modifiers[0] == "arrive_drop"
    expects = "expect_tx" in instruction.modifiers
    releases = "relaxed" not in instruction.modifiers
    require(len(rest) <= 1 and (bool(rest) or not expects))
    amount: Operand = rest[0] if rest else Immediate(1)

    def run(active: ActiveThreads, at: Array, amounts: Array) -> list[Array]:
        deliver_complete(active, space, at)
        if releases:
            for block, barrier, lanes in by_barrier(active, at):
                active.ordering.arrived(block, barrier, lanes)

        def how(phase: Phase, positions: Array) -> tuple[Phase, list[int]]:
            tokens = []
            for amount in amounts[positions].tolist():
                count = 1 if expects else amount
                if expects:
                    phase = replace(phase, nbytes=phase.nbytes + amount)
                if drops:
                    phase = replace(phase, expected=phase.expected - count)
                tokens.append(phase.bits)
                phase = phase.arrived(count)
            return phase, tokens

        return [change(active, space, at, how)]

    inputs = (Input(address, "u64"), Input(amount, "u32"))
    return Action(inputs, (state,), ("b64",), run)


def deliver_complete(active: ActiveThreads, space: Space, addresses: Array) -> None:
    """Finish the copies of mbarriers that have no pending arrivals.

    The next arrival belongs to the next phase, so the current phase must be completed first.
    """
    states = _states(active, space, addresses)
    full = [i for i, bits in enumerate(states) if (p := Phase.of(bits)) and not p.pending]
    if full:
        deliver(active, space, addresses)


def _wait(instruction: Instruction, space: Space) -> Action:
    """Return an `Action` that executes `mbarrier.test_wait` or `mbarrier.try_wait`.

    The result is whether a phase is complete. An operand identifies the phase by its state or, with
    `.parity`, by its parity.

    If the phase is not complete, both instructions let other threads run first. So no thread spins
    while a thread that could complete the phase can run. The time limit of try_wait expires when no
    thread can run any more.
    """
    result, address, phase_or_state, *_ = instruction.operands
    by_parity = "parity" in instruction.modifiers
    acquires = "relaxed" not in instruction.modifiers

    def ready(active: ActiveThreads, at: Array, phase: Array) -> Array:
        deliver(active, space, at)
        parity = phase & 1 if by_parity else phase >> np.uint64(61) & np.uint64(1)
        phases = [Phase.of(bits) for bits in _states(active, space, at)]
        now = np.array([-1 if p is None else p.parity for p in phases])
        complete: Array = (now >= 0) & (now != parity.astype(np.int64))
        return complete

    def run(active: ActiveThreads, at: Array, phase: Array) -> list[Array]:
        complete = ready(active, at, phase)
        if acquires:
            for block, barrier, positions in _grouped(active, at):
                done = positions[complete[positions]]
                if len(done):
                    active.ordering.waited(block, barrier, active.lanes[done])
        return [complete]

    kind = "u32" if by_parity else "b64"
    inputs = (Input(address, "u64"), Input(phase_or_state, kind))
    return Action(inputs, (result,), ("pred",), run, ready=ready)


def _pending_count(instruction: Instruction) -> Action:
    """Return an `Action` that executes `mbarrier.pending_count count, state`."""
    count, state = instruction.operands

    def run(_active: ActiveThreads, bits: Array) -> list[Array]:
        return [(bits & np.uint64(_COUNT)).astype(np.uint32)]

    return Action((Input(state, "b64"),), (count,), ("b32",), run)


def _mbarrier(instruction: Instruction) -> Action:
    """Return an `Action` that executes any form of `mbarrier`."""
    modifiers = instruction.modifiers
    known = ("parity", "expect_tx", "noComplete", "b64")
    rest = [m for m in rest_of(instruction, *known) if space_named(m) is not Space.SHARED]
    verb = modifiers[0]
    if verb == "expect_tx":
        rest = [verb]
    require(rest == [verb] and modifiers[-1] == "b64")
    space = space_of(instruction)
    if verb == "pending_count":
        return _pending_count(instruction)
    if verb in ("expect_tx", "complete_tx"):
        return _transaction(instruction, space, 1 if verb == "expect_tx" else -1)
    makers = {
        "init": _init,
        "inval": _inval,
        "arrive": _arrive,
        "arrive_drop": _arrive,
        "test_wait": _wait,
        "try_wait": _wait,
    }
    if verb not in makers:
        raise UnknownForm
    return makers[verb](instruction, space)


ACTIONS: Mapping[str, Maker] = MappingProxyType({"mbarrier": _mbarrier})
"""Makers by opcode."""
