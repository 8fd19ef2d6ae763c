"""A kernel under construction: what is to be done, in the order of the text, and the registers."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.instructions.operation import Operation, copy
from harness.simulator.lowering.program import Compute, Constant, End, Source, Step
from harness.simulator.ptx.ptx import Immediate, Instruction, Label

EXIT = "exit:"
"""Label of the kernel's end. Labels with a colon are no names of PTX."""

Item = tuple[Step | End | Label | None, int]
"""What to do (None: nothing) and how many instructions it counts for."""


@dataclass
class Listing:
    """What is to be done, and numbers for registers and labels."""

    items: list[Item] = field(default_factory=list)
    owners: dict[int, Instruction] = field(default_factory=dict)
    """For each of `items` that counts, the instruction that it stands for."""
    numbers: dict[str, int] = field(default_factory=dict)
    bits: list[int] = field(default_factory=list)
    """Widths of the registers."""
    _labels: int = 0

    def add(self, item: Step | End | None, instructions: int = 0) -> None:
        """Appends what is to be done and counts as so many instructions."""
        self.items.append((item, instructions))

    def mark(self, label: str) -> None:
        """Puts the label here."""
        self.items.append((Label(label), 0))

    def own(self, start: int, instruction: Instruction) -> None:
        """Notes which of the items since `start` counts for the instruction."""
        for index in range(start, len(self.items)):
            if self.items[index][1] and index not in self.owners:
                self.owners[index] = instruction
                return

    def number(self, name: str, bits: int) -> int:
        """The register of that name, which is new or known."""
        if name not in self.numbers:
            self.numbers[name] = len(self.bits)
            self.bits.append(bits)
        return self.numbers[name]

    def next_label(self) -> int:
        """A number to make a label unique with."""
        self._labels += 1
        return self._labels

    def fill(self, register: int, value: int) -> None:
        """Gives the register a value."""
        self._copy(Constant(Immediate(value)), register)

    def copy(self, source: int, target: int) -> None:
        """Gives a register the value of another."""
        self._copy(source, target)

    def _copy(self, source: Source, target: int) -> None:
        kind = f"b{self.bits[target]}"
        self.add(Compute(Operation((kind,), (kind,), copy), (source,), (target,)))
