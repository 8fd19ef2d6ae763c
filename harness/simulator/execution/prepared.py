"""A program with the code that has been made for it so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.simulator.execution.codegen import Compiled, Compiler

JUMPED, STAYED = 1, 2
"""Bits: some thread went on at a branch's target, or at what follows it."""


@dataclass
class Prepared:
    """A program with the code that has been made for it.

    Attributes:
        outcomes: Of each block that ends in a branch which ways threads have gone there, as bits.
    """

    compiler: Compiler
    code: list[dict[tuple[int, int, bool], Compiled]] = field(init=False)
    touched: list[int] = field(init=False)
    outcomes: list[int] = field(init=False)
    reached_elsewhere: set[int] = field(default_factory=set)
    """Blocks that other processes have run."""

    def __post_init__(self) -> None:
        blocks = self.compiler.program.blocks
        self.code = [{} for _ in blocks]
        self.outcomes = [0] * len(blocks)
        self.touched = [b.reads | b.writes for b in blocks]

    def add(self, reached: Iterable[int], outcomes: Sequence[int]) -> None:
        """Take in what another process has run."""
        self.reached_elsewhere.update(reached)
        for number, ways in enumerate(outcomes):
            self.outcomes[number] |= ways

    @property
    def reached(self) -> set[int]:
        """Numbers of the blocks that some thread has run: code is made when it is first needed."""
        return {number for number, code in enumerate(self.code) if code} | self.reached_elsewhere
