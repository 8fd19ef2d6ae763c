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
    """Coverage of one source file: only lines from which PTX instructions were compiled.

    Attributes:
        reached: Numbers of the lines of which some thread has run an instruction.
        missed: Numbers of the lines of which no thread has run an instruction, in any kernel or
            template instance.
        unset: Numbers of the lines that may read an uninitialised variable, in launched kernels.
        branches: For each branch of launched kernels: the line, whether some thread took the
            branch, and whether some thread did not. A branch of a template has one entry for all
            instances of the template.
        ptx: The PTX of each line, for launched kernels.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]
    unset: tuple[int, ...]
    branches: tuple[tuple[int, bool, bool], ...]
    ptx: tuple[PtxOfLine, ...] = ()


def lines_in(file: str, modules: Iterable[tuple[Module, Iterable[Prepared]]]) -> Lines:
    """Return the coverage of a source file.

    An instruction of an inlined function counts for its own line, and for the line of each call
    through which it was inlined.

    Args:
        file: Name of the file without a folder. The compiler received the file under this name.
        modules: Each loaded PTX module with those of its kernels that were launched.
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
    """Yield the line of each branch of a kernel, and its outcomes as bits JUMPED and STAYED.

    Only branches that come from the source file `file` are yielded.
    """
    for block, ways in zip(prepared.compiler.program.blocks, prepared.outcomes, strict=True):
        lines = block.counted_branch and list(_lines(file, [block.counted_branch]))
        if lines:
            # The first line is the inlined function's; the callers' lines follow.
            yield lines[0], ways


def _reads_of_unset(program: Program) -> Iterator[Instruction]:
    """Yield the instructions that may read a register before anything writes the register."""
    for block in program.blocks if program.unset else ():
        yield from _first_reads(block, program.unset)


def _first_reads(block: Block, registers: int) -> Iterator[Instruction]:
    """Yield a basic block's instructions that read a register before the block writes it.

    `registers` (a bit mask) selects the registers that are examined.
    """
    for step in block.steps:
        instruction = _instruction(step)
        if instruction and mask(sources_of(step)) & registers:
            yield instruction
        registers &= ~mask(targets_of(step))


def _instruction(step: Step) -> Instruction | None:
    return None if isinstance(step, Order) else step.instruction


def _lines(file: str, items: Iterable[object]) -> Iterator[int]:
    """Yield each instruction's line and, if its function was inlined, the lines of the calls.

    Only lines of `file` are yielded. Items that are not instructions are skipped.
    """
    for item in items:
        place: Location | None = item.location if isinstance(item, Instruction) else None
        while place:
            if place.file.rpartition("/")[2] == file:
                yield place.line
            place = place.inlined_at
