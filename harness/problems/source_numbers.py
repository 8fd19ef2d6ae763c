"""What a submission's text tells of the sizes that its kernels are made for."""

from __future__ import annotations

import re
from collections import Counter

# Below, every grid has the sizes around; above, no block, no tile and no list of channels is.
_LEAST = 4
_MOST = 2048
# But for this one: so many blocks a grid has along y and z, and who states it loops over the rest.
MOST_BLOCKS = 65_535

# From no place is more looked at than up to the next such place: a stranger's text may have any
# number of them.
_COMMENT = re.compile(
    r"//[^\n]*|/\*(?:(?!/\*).)*?\*/|^[ \t]*#(?![ \t]*define\b)[^\n]*", re.DOTALL | re.MULTILINE
)
# With the suffixes of C++; neither part of a name, nor of a floating-point number.
_INTEGER = re.compile(r"(?<![\w.])(\d{1,5})(?:[uU]?[lL]{0,2})(?![\w.])")
_SHIFTED = re.compile(r"\b1\s*<<\s*(\d{1,2})\b")
_MATRIX_INSTRUCTION = re.compile(r"\b(wgmma|wmma|mma)(\b|_)")
_MULTIPROCESSORS = re.compile(r"multi_?processor_?count", re.IGNORECASE)


def without_comments(text: str) -> str:
    r"""Give a text without C++'s comments, Python's, and directives but `#define`.

    >>> without_comments("int a; /* b */ // c" + chr(10) + "  #pragma d" + chr(10) + "# define E")
    'int a;  \n\n# define E'
    """
    return _COMMENT.sub("", text)


def numbers_in(text: str) -> tuple[int, ...]:
    """Give the integers that a text states, the most frequent first.

    Comments are left out.

    >>> numbers_in("constexpr int TILE = 64;  // not 63" + chr(10) + "x[128] + y[64] * 2.5f")
    (64, 128)
    """
    code = without_comments(text)
    stated = [int(number) for number in _INTEGER.findall(code)]
    stated += [1 << int(bits) for bits in _SHIFTED.findall(code)]
    counted = Counter(number for number in stated if _is_size(number))
    return tuple(sorted(counted, key=lambda number: (-counted[number], number)))


def _is_size(number: int) -> bool:
    return _LEAST <= number <= _MOST or number == MOST_BLOCKS


def counts_multiprocessors(text: str) -> bool:
    """Whether it asks how many multiprocessors the device has, as persistent kernels do."""
    return bool(_MULTIPROCESSORS.search(text))


def multiplies_matrices(text: str) -> bool:
    """Whether tensor cores multiply in it: so many products are simulated in little time."""
    return bool(_MATRIX_INSTRUCTION.search(without_comments(text)))
