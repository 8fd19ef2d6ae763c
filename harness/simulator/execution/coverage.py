"""Which lines of device code have run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.simulator.execution.prepared import Prepared
from harness.simulator.ptx.ptx import Instruction, Location, Module


@dataclass(frozen=True)
class Lines:
    """Of one file, those that instructions were compiled from.

    Attributes:
        reached: Some thread has run an instruction of theirs.
        missed: No thread has, in no kernel and in no instance of a template.
    """

    reached: tuple[int, ...]
    missed: tuple[int, ...]


def lines_in(file: str, modules: Iterable[tuple[Module, Iterable[Prepared]]]) -> Lines:
    """Tell which lines of a file have run, an inlined function's and its caller's alike.

    Args:
        file: Its name, without a folder: so the compilers are told of it.
        modules: With the kernels of theirs that were launched.
    """
    every: set[int] = set()
    reached: set[int] = set()
    for module, launched in modules:
        for function in module.functions.values():
            every |= set(_lines(file, function.body))
        for prepared in launched:
            blocks = prepared.compiler.program.blocks
            for number in prepared.reached:
                reached |= set(_lines(file, blocks[number].executed))
    return Lines(tuple(sorted(reached)), tuple(sorted(every - reached)))


def _lines(file: str, items: Iterable[object]) -> Iterator[int]:
    for item in items:
        place: Location | None = item.location if isinstance(item, Instruction) else None
        while place:
            if place.file.rpartition("/")[2] == file:
                yield place.line
            place = place.inlined_at
