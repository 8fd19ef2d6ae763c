"""Text of strangers, made harmless for where it is shown.

Names of submissions, and what they raise, are chosen by their authors.
"""

from __future__ import annotations

import re
import unicodedata

_MARKDOWN = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[\\`*\[\]<>|~#&@!$]")
# Control characters, halves of pairs, and what ends a line.
_UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Letters and marks that nothing shows, and that a comparison by a language's rules passes over:
# Unicode's Default_Ignorable_Code_Point, as far as it is of other categories.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def is_unshown(character: str) -> bool:
    """Whether nothing shows a character, or it moves what is shown after it."""
    return unicodedata.category(character) in _UNSHOWN or bool(_IGNORABLE.match(character))


def one_line(text: str) -> str:
    r"""A single line without control characters, such as those that move a terminal's cursor.

    >>> one_line("red\x1b[31m" + chr(10) + "::error::")
    'red?[31m ::error::'
    >>> one_line(" ::error::##[error]")
    '?:error::#?[error]'
    """
    return printable(" ".join(text.split()))


def printable(line: str) -> str:
    r"""A line as it is, with its spaces, but without control characters.

    A GitHub runner takes a line that begins with two colons for a command, and `##[` anywhere.

    >>> printable("  left\r  right\x07")
    '  left?  right?'
    """
    plain = _without_controls(line)
    start = len(plain) - len(plain.lstrip())
    if plain.startswith("::", start):
        plain = f"{plain[:start]}?{plain[start + 1 :]}"
    return plain.replace("##[", "#?[")


def visible(text: str) -> str:
    r"""Text of one line or several, without control characters, for where nothing else means much.

    >>> visible("\treturn 1; // \x1b[31m")
    '        return 1; // ?[31m'
    """
    return "\n".join(_without_controls(line.expandtabs(8)) for line in text.split("\n"))


def _without_controls(line: str) -> str:
    # Nearly every line; a page has megabytes of them.
    if line.isascii() and line.isprintable():
        return line
    return "".join("?" if is_unshown(c) else c for c in line)


def markdown(text: str) -> str:
    r"""A line of text that GitHub's Markdown shows as it is, in a cell of a table too.

    >>> print(markdown("flat_index_ | <b>"))
    flat_index\_ \| \<b\>
    """
    return _MARKDOWN.sub(lambda found: "\\" + found[0], one_line(text))


def workflow_message(text: str) -> str:
    """The message of a GitHub workflow command.

    >>> workflow_message("100 %")
    '100 %25'
    """
    return one_line(text).replace("%", "%25")


def workflow_property(text: str) -> str:
    """A property of a GitHub workflow command, such as a file's name.

    >>> workflow_property("a:b,c")
    'a%3Ab%2Cc'
    """
    return workflow_message(text).replace(":", "%3A").replace(",", "%2C")
