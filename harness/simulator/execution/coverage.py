"""Which lines of device code have run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from harness.simulator.execution.prepared import JUMPED, STAYED, Prepared
from harness.simulator.lowering.program import (
    Block,
    Order,
    Program,
    Step,
    mask,
    sources_of,
    targets_of,
)
from harness.simulator.ptx.by_line import PtxOfLine, ptx_by_line
from harness.simulator.ptx.ptx import Instruction, Location, Module
from harness.system.numbering import numbered


@dataclass(frozen=True)
class Lines:
    """Of one file, those that instructions were compiled from.

    Attributes:
        reached: Some thread has run an instruction of theirs.
        missed: No thread has, in no kernel and in no instance of a template.
        unset: Of kernels that ran, those that may read a variable which nothing has set.
        branches: Of kernels that ran, for each branch its line, whether some thread jumped there,
            and whether some thread went on. Instances of a template count as one.
        ptx: Of kernels that were launched, what came of each line.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...]
    branches: tuple[tuple[int, bool, bool], ...]
    ptx: tuple[PtxOfLine, ...] = ()


def lines_in(file: str, modules: Iterable[tuple[Module, Iterable[Prepared]]]) -> Lines:
    """Tell which lines of a file have run, an inlined function's and its caller's alike.

    Args:
        file: Its name, without a folder: so the compilers are told of it.
        modules: With the kernels of theirs that were launched.
    """
    every: set[int] = set()
    reached: set[int] = set()
    unset: set[int] = set()
    ways: Counter[tuple[int, int]] = Counter()
    kernels: list[tuple[str, Iterator[Instruction]]] = []
    for module, launched in modules:
        for function in module.functions.values():
            every |= set(_lines(file, function.body))
        for prepared in launched:
            program = prepared.compiler.program
            for place, (_, bits) in numbered(_branches(file, prepared), itemgetter(0)):
                ways[place] |= bits
            unset |= set(_lines(file, _reads_of_unset(program)))
            blocks = program.blocks
            for number in prepared.reached:
                reached |= set(_lines(file, blocks[number].executed))
            kernels.append((program.name, chain.from_iterable(b.executed for b in blocks)))
    return Lines(
        tuple(sorted(reached)),
        tuple(sorted(every - reached)),
        tuple(sorted(unset)),
        tuple(
            (line, bool(ways[line, n] & JUMPED), bool(ways[line, n] & STAYED))
            for line, n in sorted(ways)
        ),
        ptx_by_line(file, kernels),
    )


def _branches(file: str, prepared: Prepared) -> Iterator[tuple[int, int]]:
    """Each branch of a file by its line, and the ways it went."""
    for block, ways in zip(prepared.compiler.program.blocks, prepared.outcomes, strict=True):
        lines = block.counted_branch and list(_lines(file, [block.counted_branch]))
        if lines:
            # That of an inlined function, before its caller's.
            yield lines[0], ways


def _reads_of_unset(program: Program) -> Iterator[Instruction]:
    """Instructions that read a register to which there is a way without a write."""
    for block in program.blocks if program.unset else ():
        yield from _first_reads(block, program.unset)


def _first_reads(block: Block, registers: int) -> Iterator[Instruction]:
    """Instructions of a block that read one of the registers before they are written there."""
    for step in block.steps:
        instruction = _instruction(step)
        if instruction and mask(sources_of(step)) & registers:
            yield instruction
        registers &= ~mask(targets_of(step))


def _instruction(step: Step) -> Instruction | None:
    return None if isinstance(step, Order) else step.instruction


def _lines(file: str, items: Iterable[object]) -> Iterator[int]:
    for item in items:
        place: Location | None = item.location if isinstance(item, Instruction) else None
        while place:
            if place.file.rpartition("/")[2] == file:
                yield place.line
            place = place.inlined_at
