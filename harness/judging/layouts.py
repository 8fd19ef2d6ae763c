"""Layouts of inputs, and the words in a submission's text that promise to handle them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.problems.runs import Arrangement
from harness.problems.source_numbers import without_comments

# A submission that asks for strides, or has inputs copied, means to handle inputs in other layouts.
# A submission that tests an address's remainder means to handle inputs that start elsewhere than
# allocations do.
_MENTIONS_STRIDES = re.compile(r"contiguous|\.stride\(")
_MENTIONS_ALIGNMENT = re.compile(r"uintptr_t|is_?aligned", re.IGNORECASE)
# A submission that tests for an empty input means to handle it, before a launch of no blocks fails.
_MENTIONS_NOTHING = re.compile(
    r"numel\(\)\s*(?:==|<=)\s*0\b|\b(?:total|batch|rows|count)\w*\s*(?:==|<=)\s*0\b"
)

# A submission that compares sizes with 32-bit limits, or multiplies smaller integers in 64 bits,
# means to handle sizes beyond 32 bits.
_WIDE = r"(?:u?int64_t|size_t|(?:unsigned\s+)?long\s+long)"
_MENTIONS_BITS = re.compile(
    r"numeric_limits<\s*u?int(?:32_t)?\s*>::max|\bU?INT(?:32)?_MAX\b|\b(?:2147483647|4294967295)\b"
    r"|(?i:\b0x[7f]fffffff\b)|\b(?:1U?LL?|u?int64_t\(1\))\s*<<\s*3[0-2]\b"
    rf"|static_cast<\s*{_WIDE}\s*>\([^()]*\)\s*\*|\b{_WIDE}\([^()]*\)\s*\*"
    rf"|\(\s*{_WIDE}\s*\)\s*[\w.]+\s*\*"
)

_MENTIONS: Mapping[Arrangement, re.Pattern[str]] = {
    "offset": _MENTIONS_ALIGNMENT,
    "empty": _MENTIONS_NOTHING,
    "rows": _MENTIONS_BITS,
    "axis": _MENTIONS_BITS,
    "long": _MENTIONS_BITS,
    "wide": _MENTIONS_BITS,
}

WORDS: Mapping[Arrangement, str] = {
    "strided": "an input whose last two dimensions are swapped in memory",
    "expanded": "an input whose rows share the same memory",
    "offset": "an input that starts one element after an aligned address",
    "empty": "an input without rows",
    "rows": "an input or output of more than 2^32 numbers",
    "axis": "an input of more than 2^32 positions",
    "long": "an output of 2^28 positions",
    "wide": "a row of more than 2^32 numbers",
}
"""Descriptions of the layouts in reports."""


def claims_to_handle(source: str, arrangement: Arrangement) -> bool:
    """Return whether a submission's text promises to handle inputs of a given layout.

    KernelBench's own inputs are contiguous, and their batch is not empty. A kernel that handles no
    other layout is right, unless its text promises to handle the layout.

    Args:
        source: The submission's text.
        arrangement: The layout of the inputs.
    """
    code = without_comments(source)
    return bool(_MENTIONS.get(arrangement, _MENTIONS_STRIDES).search(code))
