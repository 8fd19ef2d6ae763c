"""The PTX to which each line of a source file was compiled, for the kernels that were launched."""

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
    """The PTX instructions to which one source line was compiled in one kernel.

    Attributes:
        line: Number of the source line.
        kernel: The kernel's name in the source. If it is a template, `instructions` are those of
            the first launched instance that has the line.
        instructions: The instructions as PTX text with predicates, in the order of the PTX. Texts
            of more than 400 characters are cut.
        left_out: Number of further instructions of the line that `instructions` leaves out.
    """

    line: int
    kernel: str
    instructions: tuple[str, ...]
    left_out: int = 0


def ptx_by_line(
    file: str, kernels: Iterable[tuple[str, Iterable[Instruction]]]
) -> tuple[PtxOfLine, ...]:
    """Return the PTX instructions of each line of a source file.

    An instruction belongs to the same line as in the counters: an instruction of an inlined
    function of a header belongs to the line that calls the function.

    Args:
        file: Name of the file without a folder. The compiler received the file under this name.
        kernels: The name and the instructions of each launched kernel. Instances of a template
            share a name.

    Returns:
        The lines in ascending order, with at most 200 instructions for each line and 128 KiB of
        text in total.
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
