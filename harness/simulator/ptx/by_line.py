"""The PTX that came of each line of one source file, as far as kernels were launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.simulator.ptx.ptx import Instruction

# An unrolled loop's line has hundreds, of which the first ones tell as much.
_MOST_OF_A_LINE = 200
# Those of the tensor cores name more than a hundred registers.
_MOST_CHARACTERS = 400
_MOST_OF_ALL = 128 << 10


@dataclass(frozen=True)
class PtxOfLine:
    """What a compiler made of one line in one kernel.

    Attributes:
        line: Its number.
        kernel: As its author wrote it; of a template's instances the first one that was launched
            and has the line.
        instructions: In the order of the PTX, as written there, with predicates.
        left_out: How many more there are.
    """

    line: int
    kernel: str
    instructions: tuple[str, ...]
    left_out: int = 0


def ptx_by_line(
    file: str, kernels: Iterable[tuple[str, Iterable[Instruction]]]
) -> tuple[PtxOfLine, ...]:
    """Gather instructions by the line that counters count them for.

    Args:
        file: Its name, without a folder: so the compilers are told of it.
        kernels: Those that were launched, by name, with their instructions. Instances of a template
            have one name.

    Returns:
        By lines; some 128 KiB of text, whatever there is.
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
    # A function that is called at several places is there for each of them.
    for instruction in {id(each): each for each in instructions}.values():
        place = instruction.location and instruction.location.written_at
        if place and place.file.rpartition("/")[2] == file:
            found.setdefault((place.line, name), []).append(_shown(instruction.text))
    return found


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."
