"""Whether other headers can make a compiler take what it has refused.

An extension is compiled with small headers first. Most of what they make a compiler refuse is a
mistake of the submission's, which torch's own headers, in five times the time, only confirm.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from itertools import pairwise

_ERROR = re.compile(r"\b(?:fatal )?error\s*:\s*(.*)")
# Of nvcc's front end, and of g++, whose quotation marks are those of the language.
_UNKNOWN_NAME = re.compile(
    r"""identifier "(\w+)" is undefined|\W(\w+)\W (?:was not declared|does not name a type)"""
)
# Wherever a name that is unknown is the reason, an error of its own says so.
_WHATEVER_IS_DECLARED = re.compile(
    r"^(expected |unrecognized token|missing closing quote|redefinition of default argument"
    r"|default argument given for|this declaration has no storage class)|No such file or directory"
)
_SYSTEMS = ("/usr/include",)


def may_mend(output: str, command: Sequence[str]) -> bool:
    """Whether another try has a chance.

    Args:
        output: What the compilers printed that refused an extension's sources.
        command: One of the commands of the other try; its options say where headers lie.

    Returns:
        False where each error is one of syntax, or a name that stands in no header.
    """
    errors = _ERROR.findall(output)
    names: set[str] = set()
    for error in errors:
        unknown = _UNKNOWN_NAME.search(error)
        if unknown:
            names.add(unknown[1] or unknown[2])
        elif not _WHATEVER_IS_DECLARED.search(error):
            return True
    if not names:
        return not errors
    # What the submission names itself (-I) every try has.
    folders = [after for word, after in pairwise(command) if word == "-isystem"]
    return _is_in_headers(names, (*folders, *_SYSTEMS))


def _is_in_headers(names: Iterable[str], folders: Iterable[str]) -> bool:
    words = [word for name in names for word in ("-e", name)]
    found = subprocess.run(
        ["/bin/grep", "-rqswF", *words, *folders], check=False, stdin=subprocess.DEVNULL
    )
    # Folders that are not there make it 2.
    return found.returncode == 0
