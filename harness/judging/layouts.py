"""What a submission must make of inputs that are not contiguous: what its text says it does."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.problems.runs import Arrangement
from harness.problems.source_numbers import without_comments

# Who asks for strides, or has inputs copied, does so for inputs that lie otherwise; who asks for an
# address's remainder does so for those that do not start where allocations do.
_MENTIONS_STRIDES = re.compile(r"contiguous|\.stride\(")
_MENTIONS_ALIGNMENT = re.compile(r"uintptr_t|is_?aligned", re.IGNORECASE)
# So does who asks whether there is anything to do, before a launch of no blocks fails.
_MENTIONS_NOTHING = re.compile(
    r"numel\(\)\s*(?:==|<=)\s*0\b|\b(?:total|batch|rows|count)\w*\s*(?:==|<=)\s*0\b"
)

# So does who compares sizes with what 32 bits hold, or multiplies in 64 what has fewer.
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
    "expanded": "an input whose rows are one and the same in memory",
    "offset": "an input that starts one element behind an aligned address",
    "empty": "an input of no rows",
    "rows": "an input or output of more than 2^32 numbers",
    "axis": "an input of more than 2^32 positions",
    "long": "an output of 2^28 positions",
    "wide": "a row of more than 2^32 numbers",
}
"""What a report calls them."""


def promises(source: str, arrangement: Arrangement) -> bool:
    """Whether a submission's text says that it takes such inputs.

    KernelBench's own are always contiguous, and have rows. So a kernel that takes no others has no
    mistake, unless it means to take them.

    Args:
        source: The submission's text.
        arrangement: How the inputs lie.
    """
    code = without_comments(source)
    return bool(_MENTIONS.get(arrangement, _MENTIONS_STRIDES).search(code))
