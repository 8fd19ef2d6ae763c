"""Prediction whether a source that did not compile can compile with other headers.

An extension is first compiled with small headers. If that fails, the usual cause is a mistake in
the submission. A second attempt with torch's own headers would only confirm the mistake, in five
times the time.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from itertools import pairwise

_ERROR = re.compile(r"\b(?:fatal )?error\s*:\s*(.*)")
# Messages of nvcc's front end and of g++, whose quotation marks depend on the locale.
_UNKNOWN_NAME = re.compile(
    r"""identifier "(\w+)" is undefined|\W(\w+)\W (?:was not declared|does not name a type)"""
)
# Errors that do not depend on the declarations in headers. If an unknown name causes one of them,
# the compiler also reports the name itself.
_WHATEVER_IS_DECLARED = re.compile(
    r"^(expected |unrecognized token|missing closing quote|redefinition of default argument"
    r"|default argument given for|this declaration has no storage class"
    r"|a variable declared with an auto type specifier cannot appear in its own initializer)"
    r"|No such file or directory"
)
_SYSTEMS = ("/usr/include",)


def other_headers_may_help(output: str, command: Sequence[str]) -> bool:
    """Return whether compiling again with the headers of another command may succeed.

    Args:
        output: Output of the compilers that refused an extension's sources.
        command: A compiler command of the next attempt; its options contain the header folders.

    Returns:
        False if each error is a syntax error, or is about an identifier that occurs in no header.
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
    # Every attempt has the submission's own folders (-I), so only the others matter.
    folders = [after for word, after in pairwise(command) if word == "-isystem"]
    return _is_in_headers(names, (*folders, *_SYSTEMS))


def _is_in_headers(names: Iterable[str], folders: Iterable[str]) -> bool:
    words = [word for name in names for word in ("-e", name)]
    found = subprocess.run(
        ["/bin/grep", "-rqswF", *words, *folders], check=False, stdin=subprocess.DEVNULL
    )
    # The status is 2 if a folder does not exist.
    return found.returncode == 0
