"""The PTX that each line of a source file was compiled to, for the kernels that were launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.simulator.ptx.ptx import Instruction

# The line of an unrolled loop has hundreds of instructions, of which the first ones suffice.
_MOST_OF_A_LINE = 200
# An instruction of the tensor cores names more than a hundred registers.
_MOST_CHARACTERS = 400
_MOST_OF_ALL = 128 << 10


@dataclass(frozen=True)
class PtxOfLine:
    """The instructions that a compiler made of one line in one kernel.

    Attributes:
        line: Number of the line.
        kernel: The kernel's name in its source. For a template, these are the instructions of the
            first launched instance that has the line.
        instructions: In the order of the PTX, as written there, with predicates.
        left_out: Number of further instructions.
    """

    line: int
    kernel: str
    instructions: tuple[str, ...]
    left_out: int = 0


def ptx_by_line(
    file: str, kernels: Iterable[tuple[str, Iterable[Instruction]]]
) -> tuple[PtxOfLine, ...]:
    """Return the instructions of each line, where counters count them.

    Args:
        file: Name of the file without a folder. Compilers receive the file under this name.
        kernels: The launched kernels by name, with their instructions. Instances of a template
            share a name.

    Returns:
        The lines in order, with at most about 128 KiB of text in total.
    """
    found: dict[tuple[int, str], list[str]] = {}
    for name, instructions in kernels:
        for key, texts in _of_kernel(file, name, instructions).items():
            found.setdefault(key, texts)
    left = _MOST_OF_ALL
    made = []
    for (line, name), texts in sorted(found.items()):
        kept: list[str] = []
        for text in texts[:_MOST_OF_A_LINE]:
            left -= len(text)
            if left < 0:
                break
            kept.append(text)
        made.append(PtxOfLine(line, name, tuple(kept), len(texts) - len(kept)))
    return tuple(made)


def _of_kernel(
    file: str, name: str, instructions: Iterable[Instruction]
) -> dict[tuple[int, str], list[str]]:
    found: dict[tuple[int, str], list[str]] = {}
    # A function that is inlined at several places has the same instructions there; they count once.
    for instruction in {id(each): each for each in instructions}.values():
        place = instruction.location and instruction.location.written_at
        if place and place.file.rpartition("/")[2] == file:
            found.setdefault((place.line, name), []).append(_shortened(instruction.text))
    return found


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
