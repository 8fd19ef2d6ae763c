"""Check of the names of submissions, which are printed, stored, and used in file names."""

from __future__ import annotations

from harness.system.escape import is_unshown

# A name with additions becomes a file name, for which file systems allow 255 bytes.
_MOST_BYTES = 200
# The separator of pytest's test names and the start of a GitHub workflow command.
_KEPT = ("::", "##[")


def why_no_name(name: str) -> str | None:
    r"""Return why a submission cannot have this name, or None if the name is valid.

    >>> why_no_name("flat_index"), why_no_name("größer")
    (None, None)
    >>> why_no_name("::error file=x::boom")
    'has :: in its name; rename it'
    >>> why_no_name("a" + chr(10) + "b")
    'has a control character in its name; rename it'
    >>> why_no_name("\udcff")
    'has a name that is not UTF-8; rename it'
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "has a name that is not UTF-8; rename it"
    if length > _MOST_BYTES:
        return f"has a name of {length} bytes; rename it, at most {_MOST_BYTES} are allowed"
    for kept in _KEPT:
        if kept in name:
            return f"has {kept} in its name; rename it"
    if any(map(is_unshown, name)):
        return "has a control character in its name; rename it"
    return None
