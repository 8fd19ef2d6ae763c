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

_MENTIONS: Mapping[Arrangement, re.Pattern[str]] = {
    "offset": _MENTIONS_ALIGNMENT,
    "empty": _MENTIONS_NOTHING,
}

WORDS: Mapping[Arrangement, str] = {
    "strided": "an input whose last two dimensions are swapped in memory",
    "expanded": "an input whose rows are one and the same in memory",
    "offset": "an input that starts one element behind an aligned address",
    "empty": "an input of no rows",
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
