"""Conversion of mangled kernel names to the names in the C++ source."""

from __future__ import annotations

import re


def readable(name: str) -> str:
    """Return the C++ name of a mangled function name, without parameters and template arguments.

    Namespaces are kept, except anonymous ones. A name is returned unchanged if it is not mangled,
    or if its mangling is too complex for this function.
    """
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
