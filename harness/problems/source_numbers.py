"""Hints in a submission's text at the sizes and devices that its kernels are made for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

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
# An integer of C++ or Python; not a part of a name or of a floating-point number.
_INTEGER = re.compile(
    r"(?<![\w.'])(0[xX][\da-fA-F'_]{1,15}|0[bB][01'_]{1,60}|\d[\d'_]{0,15})[uU]?[lL]{0,2}(?![\w.'])"
)
_SHIFTED = re.compile(r"\b1\s*<<\s*(\d{1,2})\b")
_MATRIX_INSTRUCTION = re.compile(r"\b(wgmma|wmma|mma)(\b|_)")
_MULTIPROCESSORS = re.compile(r"multi_?processor_?count", re.IGNORECASE)


def without_comments(text: str) -> str:
    r"""Return a text without comments of C++ and Python, and without directives except `#define`.

    >>> without_comments("int a; /* b */ // c" + chr(10) + "  #pragma d" + chr(10) + "# define E")
    'int a;  \n\n# define E'
    """
    return _COMMENT.sub("", text)


def integers_in(code: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield each integer literal of C++ or Python code, in any base, and its match in the text.

    >>> [number for number, _ in integers_in("0x61 + 1'024ull + 0b101 + 017 + 1_000 + x2 + 3.5")]
    [97, 1024, 5, 15, 1000]
    """
    for found in _INTEGER.finditer(code):
        digits = re.sub("['_]", "", found[1])
        # A number that begins with 0 is octal in C++.
        base = 8 if digits.isdigit() and digits[0] == "0" else 0
        try:
            yield int(digits, base), found
        except ValueError:  # such as 08, which is not an integer of either language
            continue


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the integers in a text that may be sizes, the most frequent first.

    These are integers from 4 to 2048, and 65,535, in any base. Comments are ignored; `1 << 7`
    counts as 128.

    >>> numbers_in("constexpr int TILE = 64;  // not 63" + chr(10) + "x[128] + y[64] * 2.5f")
    (64, 128)
    """
    code = without_comments(text)
    stated = [number for number, _ in integers_in(code)]
    # Sizes are often written as a shift, such as 1 << 7.
    stated += [1 << int(bits) for bits in _SHIFTED.findall(code)]
    counted = Counter(number for number in stated if _is_size(number))
    return tuple(sorted(counted, key=lambda number: (-counted[number], number)))


def _is_size(number: int) -> bool:
    return _LEAST <= number <= _MOST or number == MOST_BLOCKS


def counts_multiprocessors(text: str) -> bool:
    """Return whether a text queries the device's multiprocessor count, as persistent kernels do."""
    return bool(_MULTIPROCESSORS.search(text))


def multiplies_matrices(text: str) -> bool:
    """Return whether a text names a tensor-core instruction: mma, wmma or wgmma.

    The simulator computes the products of such an instruction fast, so the submission gets larger
    cases (`Family.many_turns`).
    """
    return bool(_MATRIX_INSTRUCTION.search(without_comments(text)))
