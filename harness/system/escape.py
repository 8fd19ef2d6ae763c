"""Escaping of untrusted text for a terminal, Markdown, or GitHub's workflow commands.

The text is untrusted because authors choose the names of submissions and the messages of
exceptions.
"""

from __future__ import annotations

import re
import unicodedata

_MARKDOWN = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[\\`*\[\]<>|~#&@!$]")
# Unicode categories: control and format characters, lone surrogates, private and unassigned code
# points, and line and paragraph separators.
_UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Letters and marks that are displayed as nothing and that collation ignores: the members of
# Unicode's Default_Ignorable_Code_Point that are not in the categories above.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def is_unshown(character: str) -> bool:
    """Return whether a character is invisible, or changes the position of the text after it."""
    return unicodedata.category(character) in _UNSHOWN or bool(_IGNORABLE.match(character))


def one_line(text: str) -> str:
    r"""Return text as a single line without control characters, such as terminal escape sequences.

    >>> one_line("red\x1b[31m" + chr(10) + "::error::")
    'red?[31m ::error::'
    >>> one_line(" ::error::##[error]")
    '?:error::#?[error]'
    """
    return printable(" ".join(text.split()))


def printable(line: str) -> str:
    r"""Return a line without control characters and GitHub workflow commands; keep its spaces.

    A GitHub runner treats a line that begins with two colons as a command, and `##[` anywhere in a
    line.

    >>> printable("  left\r  right\x07")
    '  left?  right?'
    """
    plain = _without_controls(line)
    start = len(plain) - len(plain.lstrip())
    if plain.startswith("::", start):
        plain = f"{plain[:start]}?{plain[start + 1 :]}"
    return plain.replace("##[", "#?[")


def cut(line: str, columns: int = 200) -> str:
    """Return a line; if it has more than `columns` columns, ` ...` replaces the end.

    >>> cut("a long line", 10)
    'a long ...'
    """
    return line if len(line) <= columns else f"{line[: columns - 4]} ..."


def visible(text: str) -> str:
    r"""Return text of one or more lines without control characters, and with tabs as spaces.

    This is enough for output in which no other character has a special meaning.

    >>> visible("\treturn 1; // \x1b[31m")
    '        return 1; // ?[31m'
    """
    return "\n".join(_without_controls(line.expandtabs(8)) for line in text.split("\n"))


def _without_controls(line: str) -> str:
    # A fast path for nearly every line: a report page has megabytes of them.
    if line.isascii() and line.isprintable():
        return line
    return "".join("?" if is_unshown(c) else c for c in line)


def markdown(text: str) -> str:
    r"""Return a line escaped so that GitHub's Markdown shows it unchanged, even in a table cell.

    >>> print(markdown("flat_index_ | <b>"))
    flat_index\_ \| \<b\>
    """
    return _MARKDOWN.sub(lambda found: "\\" + found[0], one_line(text))


def workflow_message(text: str) -> str:
    """Return text escaped as the message of a GitHub workflow command.

    >>> workflow_message("100 %")
    '100 %25'
    """
    return one_line(text).replace("%", "%25")


def workflow_property(text: str) -> str:
    """Return text escaped as a property of a GitHub workflow command, such as a file name.

    >>> workflow_property("a:b,c")
    'a%3Ab%2Cc'
    """
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")
