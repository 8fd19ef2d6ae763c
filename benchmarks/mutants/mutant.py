"""Mutants of submissions, and the edits that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

Part = Literal["device", "host", "python"]
"""The place of a change: code of the GPU, C++ of the host, or Python."""


@dataclass(frozen=True)
class Edit:
    """A replacement of some bytes of a file by a text.

    Attributes:
        start: Offset of the first byte to replace.
        end: Offset after the last byte to replace.
        text: The new text.
    """

    start: int
    end: int
    text: str


Kind = Callable[[Node], Iterator[Edit]]
"""A kind of mistake: a function that yields the possible edits of one node alone."""


@dataclass(frozen=True)
class Mutant:
    """A submission with one small mistake.

    Attributes:
        id: The submission's name and a number, unique in a draw.
        kind: Name of the kind of mistake.
        part: Part of the submission that is changed, such as `python`.
        line: Number of the changed line in the submission's file, from 1.
        edit: The edit of the submission's file.
        before: The line before the edit, without leading and trailing spaces.
        after: The changed line, stripped as `before` is. It is the first changed line if the edit
            makes several.
    """

    id: str
    kind: str
    part: Part
    line: int
    edit: Edit
    before: str
    after: str


def text_of(node: Node) -> str:
    """Return the source text of a syntax node."""
    return (node.text or b"").decode()


def changed(content: bytes, edit: Edit) -> bytes:
    """Return the bytes of a file after an edit.

    >>> changed(b"a < b", Edit(2, 3, "<="))
    b'a <= b'
    """
    return content[: edit.start] + edit.text.encode() + content[edit.end :]


def instead(node: Node, text: str) -> Edit:
    """Return the edit that replaces a syntax node by a text."""
    return Edit(node.start_byte, node.end_byte, text)


def swapped(first: Node, second: Node) -> Edit:
    """Return the edit that swaps two syntax nodes, and keeps the text between them."""
    root = first
    while root.parent:
        root = root.parent
    whole = root.text or b""
    offset = root.start_byte
    between = whole[first.end_byte - offset : second.start_byte - offset].decode()
    return Edit(first.start_byte, second.end_byte, f"{text_of(second)}{between}{text_of(first)}")
