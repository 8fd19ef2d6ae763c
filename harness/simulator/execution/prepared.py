"""A program with its compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.simulator.execution.codegen import Compiled, Compiler

JUMPED, STAYED = 1, 2
"""Bits: some thread continued at the branch's target (JUMPED) or after the branch (STAYED)."""


@dataclass
class Prepared:
    """A program with the code compiled so far.

    Attributes:
        compiler: The program's compiler.
        code: For each block, the compiled variants by uniform registers, kept registers and
            `in_step`.
        touched: For each block, the registers that it reads or writes, as bits.
        outcomes: For each block, the ways that threads went at its branch, as bits (JUMPED,
            STAYED).
        reached_elsewhere: Numbers of the blocks that other processes have run.
    """

    compiler: Compiler
    code: list[dict[tuple[int, int, bool], Compiled]] = field(init=False)
    touched: list[int] = field(init=False)
    outcomes: list[int] = field(init=False)
    reached_elsewhere: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        blocks = self.compiler.program.blocks
        self.code = [{} for _ in blocks]
        self.outcomes = [0] * len(blocks)
        self.touched = [b.reads | b.writes for b in blocks]

    def add(self, reached: Iterable[int], outcomes: Sequence[int]) -> None:
        """Add the blocks and branch outcomes of another process."""
        self.reached_elsewhere.update(reached)
        for number, ways in enumerate(outcomes):
            self.outcomes[number] |= ways

    @property
    def reached(self) -> set[int]:
        """Numbers of the blocks that some thread has run."""
        # A block is compiled when it first runs, so compiled code means that the block was reached.
        return {number for number, code in enumerate(self.code) if code} | self.reached_elsewhere
