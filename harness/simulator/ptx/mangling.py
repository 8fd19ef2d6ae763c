"""Names of kernels as their authors wrote them."""

from __future__ import annotations

import re


def readable(name: str) -> str:
    """Return the C++ name if the mangled form is simple enough, else the name unchanged."""
    nested = re.match(r"_ZN(?:\d|S)", name)
    match = re.match(r"_Z(\d+)", name)
    if nested or not match:
        parts = []
        rest = name[3:] if nested else ""
        while part := re.match(r"(\d+)", rest):
            length = int(part[1])
            start = part.end()
            parts.append(rest[start : start + length])
            rest = rest[start + length :]
        return "::".join(p for p in parts if not p.startswith("_GLOBAL__N")) or name
    start, length = match.end(), int(match[1])
    return name[start : start + length]
