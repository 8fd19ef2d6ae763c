"""What a mutant is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

Part = Literal["device", "host", "python"]
"""Where a change is: in code of the GPU, in C++ of the host, or in Python."""


@dataclass(frozen=True)
class Edit:
    """Other bytes in the place of some.

    Attributes:
        start: Of the first byte that goes.
        end: One behind the last that goes.
        text: What comes there.
    """

    start: int
    end: int
    text: str


Kind = Callable[[Node], Iterator[Edit]]
"""A kind of mistake: gives what it can change of one node of a syntax tree, not below it."""


@dataclass(frozen=True)
class Mutant:
    """One change of one submission.

    Attributes:
        id: The submission's name and a number: unique in a draw.
        kind: Name of the kind of change.
        part: Where it is.
        line: Of the submission's file, from 1.
        edit: The change, in bytes of the file.
        before: The line as it was, without blanks around it.
        after: The line as it is now; one line of what became of several.
    """

    id: str
    kind: str
    part: Part
    line: int
    edit: Edit
    before: str
    after: str


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode()


def changed(content: bytes, edit: Edit) -> bytes:
    """A file's bytes with an edit made.

    >>> changed(b"a < b", Edit(2, 3, "<="))
    b'a <= b'
    """
    return content[: edit.start] + edit.text.encode() + content[edit.end :]


def instead(node: Node, text: str) -> Edit:
    """Another text in the place of a node."""
    return Edit(node.start_byte, node.end_byte, text)


def swapped(first: Node, second: Node) -> Edit:
    """Two nodes, each in the place of the other; what is between them stays."""
    root = first
    while root.parent:
        root = root.parent
    whole = root.text or b""
    offset = root.start_byte
    between = whole[first.end_byte - offset : second.start_byte - offset].decode()
    return Edit(first.start_byte, second.end_byte, f"{text_of(second)}{between}{text_of(first)}")
