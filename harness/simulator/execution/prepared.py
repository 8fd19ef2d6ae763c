"""A kernel with the Python code that has been compiled for its basic blocks so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.simulator.execution.codegen import BlockCompiler, Compiled

JUMPED, STAYED = 1, 2
"""Bits: some thread continued at the branch's target (JUMPED) or after the branch (STAYED)."""


@dataclass
class Prepared:
    """A kernel with the code compiled so far, and the coverage of its basic blocks.

    Attributes:
        compiler: The compiler of the kernel's basic blocks.
        code: For each basic block, the compiled variants. The key has the fields of
            `codegen.State`: uniform registers, kept registers and `in_step`.
        touched: For each basic block, the registers that it reads or writes (a bit mask).
        outcomes: For each basic block, the outcomes of its branch so far as bits JUMPED and STAYED.
        reached_elsewhere: Numbers of the basic blocks that other processes have run.
    """

    compiler: BlockCompiler
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
        """Add the coverage of another process: basic blocks that ran, and branch outcomes."""
        self.reached_elsewhere.update(reached)
        for number, ways in enumerate(outcomes):
            self.outcomes[number] |= ways

    @property
    def reached(self) -> set[int]:
        """Numbers of the basic blocks that some thread has run in any launch so far."""
        # A block is compiled when it first runs, so compiled code means that the block was reached.
        return {number for number, code in enumerate(self.code) if code} | self.reached_elsewhere
