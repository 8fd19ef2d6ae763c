"""Information in a submission's text about the sizes that its kernels are made for."""

from __future__ import annotations

import re
from collections import Counter

# Every grid has the sizes around smaller numbers. No block, tile or list of channels is larger.
_LEAST = 4
_MOST = 2048
# An exception: the largest number of blocks along y and z. A kernel that states it has a loop over
# the rest.
MOST_BLOCKS = 65_535

# The pattern for /* stops at the next /*. So the time stays linear for untrusted text with many
# unclosed comments.
_COMMENT = re.compile(
    r"//[^\n]*|/\*(?:(?!/\*).)*?\*/|^[ \t]*#(?![ \t]*define\b)[^\n]*", re.DOTALL | re.MULTILINE
)
# An integer with the suffixes of C++; not a part of a name or of a floating-point number.
_INTEGER = re.compile(r"(?<![\w.])(\d{1,5})(?:[uU]?[lL]{0,2})(?![\w.])")
_SHIFTED = re.compile(r"\b1\s*<<\s*(\d{1,2})\b")
_MATRIX_INSTRUCTION = re.compile(r"\b(wgmma|wmma|mma)(\b|_)")
_MULTIPROCESSORS = re.compile(r"multi_?processor_?count", re.IGNORECASE)


def without_comments(text: str) -> str:
    r"""Return a text without comments of C++ and Python, and without directives but `#define`.

    >>> without_comments("int a; /* b */ // c" + chr(10) + "  #pragma d" + chr(10) + "# define E")
    'int a;  \n\n# define E'
    """
    return _COMMENT.sub("", text)


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the integers that a text states outside comments, the most frequent first.

    >>> numbers_in("constexpr int TILE = 64;  // not 63" + chr(10) + "x[128] + y[64] * 2.5f")
    (64, 128)
    """
    code = without_comments(text)
    stated = [int(number) for number in _INTEGER.findall(code)]
    # Sizes are often written as a shift, such as 1 << 7.
    stated += [1 << int(bits) for bits in _SHIFTED.findall(code)]
    counted = Counter(number for number in stated if _is_size(number))
    return tuple(sorted(counted, key=lambda number: (-counted[number], number)))


def _is_size(number: int) -> bool:
    return _LEAST <= number <= _MOST or number == MOST_BLOCKS


def counts_multiprocessors(text: str) -> bool:
    """Return whether the text queries the device's multiprocessors, as persistent kernels do."""
    return bool(_MULTIPROCESSORS.search(text))


def multiplies_matrices(text: str) -> bool:
    """Return whether the text uses tensor cores.

    The simulator computes their many products in little time.
    """
    return bool(_MATRIX_INSTRUCTION.search(without_comments(text)))
