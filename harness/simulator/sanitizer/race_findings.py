"""Conversion of the races that race.c has found to findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.finding import SEVERITIES, Finding
from harness.simulator.hardware.geometry import WARP, Placement
from harness.simulator.layout.races import RaceEvent
from harness.simulator.lowering.program import Access
from harness.simulator.ptx.ptx import TYPE_BYTES

_READ_AFTER_WRITE, _WRITE_AFTER_READ, _CONSTANT_AFTER_WRITE = 0, 1, 3

_BETWEEN = "between them"
# A loop without a barrier at its end races with its own next iteration.
_BETWEEN_ON_ONE_LINE = f"{_BETWEEN}, or between two iterations of a loop"


def findings_of(
    events: Sequence[RaceEvent], sites: Sequence[Access], kernel: str, placement: Placement
) -> Iterator[Finding]:
    """Yield one finding for each pair of memory accesses in the source that were found to race.

    Accesses with the same kind, file and line count as one access. A finding describes the pair's
    most severe race, and has the number of all races of the pair.

    Args:
        events: The races that race.c has found.
        sites: The accesses of the program; `events` have indices into it.
        kernel: The kernel's readable name.
        placement: Order of blocks and threads.
    """
    events, constant = (
        [event for event in events if (event.kind == _CONSTANT_AFTER_WRITE) is wanted]
        for wanted in (False, True)
    )
    for event in constant:
        yield _of_constant(event, sites, kernel, placement)
    gravest: dict[frozenset[str], RaceEvent] = {}
    counts: dict[frozenset[str], int] = {}
    for event in events:
        both = (sites[event.site], sites[event.other_site])
        if all(step.instruction.opcode == "discard" for step in both):
            # Nothing is known of the bytes after either of them, in any order.
            continue
        key = frozenset(f"{step.kind} {place_of(step)}" for step in both)
        counts[key] = counts.get(key, 0) + event.count
        if key not in gravest or event.severity > gravest[key].severity:
            gravest[key] = event
    for key, event in gravest.items():
        yield _finding(event, sites, counts[key], kernel, placement)


def _finding(
    event: RaceEvent, sites: Sequence[Access], count: int, kernel: str, placement: Placement
) -> Finding:
    """Return the finding for a race; `count` is the number of races of its pair of accesses."""
    step, thread = sites[event.site], event.thread
    other, other_thread = sites[event.other_site], event.other_thread
    waited_for = other.kind if event.waits else ""
    line, other_line = (s.location.line if s.location else 0 for s in (step, other))
    # The message begins with the store, or else with the earlier line. The order in which the
    # simulator ran the two accesses has no meaning.
    if event.kind == _READ_AFTER_WRITE or (event.kind != _WRITE_AFTER_READ and other_line < line):
        step, thread, other, other_thread = other, other_thread, step, thread
    threads = placement.geometry.threads
    block, in_block = divmod(thread, threads)
    other_block, other_in_block = divmod(other_thread, threads)
    who = f"thread {_triple(placement.thread(other_in_block))}"
    if block != other_block:
        who = f"block {_triple(placement.block(other_block))} {who}"
    in_warp = _warp(thread, threads) == _warp(other_thread, threads)
    at_other, between = _at(other), _BETWEEN
    if at_other and at_other == _at(step):
        at_other, between = " on the same line", _BETWEEN_ON_ONE_LINE
    why = _why(event, waited_for, between, in_warp=in_warp, in_block=block == other_block)
    if block != other_block and step.how and other.how:
        why = "an access of block scope is not atomic between blocks"
    return Finding(
        "racecheck",
        f"{_sized(step)}{_at(step)} races with the {other.kind}{at_other} by {who}: {why}",
        kernel,
        step.location.file if step.location else None,
        step.location.line if step.location else None,
        placement.block(block),
        placement.thread(in_block),
        event.address,
        count,
        SEVERITIES[event.severity],
    )


def _of_constant(
    event: RaceEvent, sites: Sequence[Access], kernel: str, placement: Placement
) -> Finding:
    """Return the finding for a load that is not coherent, of bytes that the launch has written."""
    step, other = sites[event.site], sites[event.other_site]
    block, in_block = divmod(event.thread, placement.geometry.threads)
    return Finding(
        "racecheck",
        f"{_sized(step)}{_at(step)} goes through the read-only cache, which need not see the "
        f"{other.kind}{_at(other)} in the same launch",
        kernel,
        step.location.file if step.location else None,
        step.location.line if step.location else None,
        placement.block(block),
        placement.thread(in_block),
        event.address,
        event.count,
        SEVERITIES[event.severity],
    )


def _sized(step: Access) -> str:
    return step.name or f"{TYPE_BYTES[step.type] * step.elements}-byte {step.kind}"


def _why(event: RaceEvent, waited_for: str, between: str, *, in_warp: bool, in_block: bool) -> str:
    """Return the reason why the two accesses of a race are not ordered, for the message.

    Args:
        event: The race.
        waited_for: Name of the asynchronous access that no thread has waited for, or empty.
        between: Words that say where a wait or a barrier is missing, such as "between them".
        in_warp: True if both threads are in one warp.
        in_block: True if both threads are in one block.
    """
    if event.severity == 0:
        return "both store the same value"
    if waited_for:
        return f"no wait for the {waited_for} {between}"
    if in_warp:
        return f"no __syncwarp() {between}"
    return f"no barrier {between}" if in_block else "nothing orders blocks within a kernel"


def _warp(thread: int, threads: int) -> tuple[int, int]:
    return thread // threads, thread % threads // WARP


def place_of(step: Access) -> str:
    """Return the source file and line of an access as "kernel.cu:12", or "" if they are unknown."""
    return f"{Path(step.location.file).name}:{step.location.line}" if step.location else ""


def _at(step: Access) -> str:
    place = place_of(step)
    return f" at {place}" if place else ""


def _triple(numbers: Sequence[int]) -> str:
    return "(" + ",".join(map(str, numbers)) + ")"
