"""Line and branch coverage of device code."""

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
    """The lines of one file from which instructions were compiled.

    Attributes:
        reached: Lines of which some thread has run an instruction.
        missed: Lines of which no thread has run an instruction, in any kernel or template instance.
        unset: Lines of kernels that ran which may read a variable that nothing has set.
        branches: For each branch of kernels that ran: its line, whether some thread jumped, and
            whether some thread went on. Instances of a template count as one.
        ptx: The PTX of each line, for kernels that were launched.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...]
    branches: tuple[tuple[int, bool, bool], ...]
    ptx: tuple[PtxOfLine, ...] = ()


def lines_in(file: str, modules: Iterable[tuple[Module, Iterable[Prepared]]]) -> Lines:
    """Return which lines of a file have run, in inlined functions as well as in their callers.

    Args:
        file: Name of the file without a folder. Compilers receive the file under this name.
        modules: Each module with its kernels that were launched.
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
            # Template instances repeat the same branches. A branch is therefore identified by its
            # line and its position among the branches of that line in its kernel.
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
    """Yield the line of each branch of a file, and the ways that threads went there."""
    for block, ways in zip(prepared.compiler.program.blocks, prepared.outcomes, strict=True):
        lines = block.counted_branch and list(_lines(file, [block.counted_branch]))
        if lines:
            # The first line is the inlined function's; the callers' lines follow.
            yield lines[0], ways


def _reads_of_unset(program: Program) -> Iterator[Instruction]:
    """Yield instructions that read a register which some path reaches without a write to it."""
    for block in program.blocks if program.unset else ():
        yield from _first_reads(block, program.unset)


def _first_reads(block: Block, registers: int) -> Iterator[Instruction]:
    """Yield a block's instructions that read one of the registers before the block writes it."""
    for step in block.steps:
        instruction = _instruction(step)
        if instruction and mask(sources_of(step)) & registers:
            yield instruction
        registers &= ~mask(targets_of(step))


def _instruction(step: Step) -> Instruction | None:
    return None if isinstance(step, Order) else step.instruction


def _lines(file: str, items: Iterable[object]) -> Iterator[int]:
    """Yield the instructions' lines in a file, and those of the callers they are inlined in."""
    for item in items:
        place: Location | None = item.location if isinstance(item, Instruction) else None
        while place:
            if place.file.rpartition("/")[2] == file:
                yield place.line
            place = place.inlined_at
