"""A program with the code that has been made for it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.execution.codegen import Compiled, Compiler


@dataclass
class Prepared:
    """A program with the code that has been made for it."""

    compiler: Compiler
    code: list[dict[tuple[int, int, bool], Compiled]] = field(init=False)
    touched: list[int] = field(init=False)
    reached_elsewhere: set[int] = field(default_factory=set)
    """Blocks that other processes have run."""

    def __post_init__(self) -> None:
        blocks = self.compiler.program.blocks
        self.code = [{} for _ in blocks]
        self.touched = [b.reads | b.writes for b in blocks]

    @property
    def reached(self) -> set[int]:
        """Numbers of the blocks that some thread has run: code is made when it is first needed."""
        return {number for number, code in enumerate(self.code) if code} | self.reached_elsewhere
