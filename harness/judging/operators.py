"""The names by which submissions call torch's operators."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.device.operator_names import plain_name

# Pairs of patterns: an operator's name on the device, and the names by which sources call it.
_CALLED: Sequence[tuple[str, str]] = (
    (
        r"conv",
        r"(?:conv_transpose|conv)[123]d|Conv(?:Transpose)?[123]d|(?<!\w)_?convolution(?:_\w+)?",
    ),
    (
        r"mm$|mv$|dot$|linear$",
        r"einsum|tensordot|matmul|(?:add|b|badd|addb)?mm|(?:add)?mv|linear|Linear|bilinear|inner"
        r"|cublas\w*gem[mv]\w*",
    ),
    (r"fft", r"(?:i|r|ir|h)?fft[2n]?"),
)


def called_as(name: str, source: str) -> str:
    """Return an operator's name as a submission's source spells it, followed by torch's name.

    If the source does not name the operator, return torch's name only.

    >>> called_as("aten::slow_conv_transpose2d", "return F.conv_transpose1d(x, self.weight)")
    'conv_transpose1d (aten::slow_conv_transpose2d)'
    >>> called_as("aten::mm", "return getattr(torch, 'm' + 'm')(x, self.weight)")
    'aten::mm'
    """
    for operator, words in _CALLED:
        if re.search(operator, plain_name(name)):
            # A name before a parenthesis comes first. A name that is only mentioned, such as a
            # module that holds weights, comes second.
            called = re.search(rf"\b({words})\(", source) or re.search(rf"\b({words})\b", source)
            if called and called[1] != plain_name(name):
                return f"{called[1]} ({name})"
    return name
