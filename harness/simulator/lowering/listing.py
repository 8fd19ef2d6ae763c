"""The lowered code of a kernel while it is built, in the order of the PTX text."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.simulator.instructions.operation import Operation, copy
from harness.simulator.lowering.program import Compute, Constant, End, Source, Step
from harness.simulator.ptx.ptx import Immediate, Instruction, Label

EXIT = "exit:"
"""Label of the kernel's end; the colon distinguishes it from names in PTX."""

Item = tuple[Step | End | Label | None, int]
"""A step, an end, a label or None (no effect), and how many instructions it counts for."""


@dataclass
class Listing:
    """The lowered code of a kernel so far, with numbers for its registers and labels.

    An item is a step, an end of a basic block, a label, or None for an instruction without effect.

    Attributes:
        items: The items in the order of the text, each with the number of PTX instructions that
            it counts for.
        owners: The PTX instruction that an item was lowered from, by the item's index. Only items
            that count for an instruction have one.
        numbers: Number of each register by name.
        bits: Width of each register in bits, by number.
    """

    items: list[Item] = field(default_factory=list)
    owners: dict[int, Instruction] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    bits: list[int] = field(default_factory=list)
    _labels: int = 0

    def add(self, item: Step | End | None, instructions: int = 0) -> None:
        """Append a step or an end of a block, which counts for `instructions` PTX instructions."""
        self.items.append((item, instructions))

    def mark(self, label: str) -> None:
        """Append a label, which names the place of the next item."""
        self.items.append((Label(label), 0))

    def own(self, start: int, instruction: Instruction) -> None:
        """Record in `owners` that the items from index `start` on come from `instruction`.

        Only one of these items gets `instruction` as its owner: the first that counts for a PTX
        instruction and does not have an owner yet.
        """
        for index in range(start, len(self.items)):
            if self.items[index][1] and index not in self.owners:
                self.owners[index] = instruction
                return

    def number(self, name: str, bits: int) -> int:
        """Return the number of the register with this name, after adding it if it is new."""
        if name not in self.numbers:
            self.numbers[name] = len(self.bits)
            self.bits.append(bits)
        return self.numbers[name]

    def next_label(self) -> int:
        """Return a number for the name of a new label; no two calls return the same number."""
        self._labels += 1
        return self._labels

    def fill(self, register: int, value: int) -> None:
        """Append a step that sets a register to a constant."""
        self._copy(Constant(Immediate(value)), register)

    def copy(self, source: int, target: int) -> None:
        """Append a step that copies register `source` to register `target`."""
        self._copy(source, target)

    def _copy(self, source: Source, target: int) -> None:
        kind = f"b{self.bits[target]}"
        self.add(Compute(Operation((kind,), (kind,), copy), (source,), (target,)))
