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

    def __post_init__(self) -> None:
        blocks = self.compiler.program.blocks
        self.code = [{} for _ in blocks]
        self.touched = [b.reads | b.writes for b in blocks]
