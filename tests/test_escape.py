"""Escaping of untrusted text for terminals, Markdown and GitHub workflows."""

from __future__ import annotations

import pytest

from harness.system.escape import markdown, one_line, workflow_message, workflow_property


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("flat_index 1.5 %", "flat_index 1.5 %"),
        ("two\n  lines", "two lines"),
        ("\x1b[2Jgone\x00", "?[2Jgone?"),
        ("right\u202eto left", "right?to left"),
        ("\ufe0f::error::x", "?::error::x"),
        ("#\u034f#[error]x", "#?#[error]x"),
    ],
)
def test_one_line_moves_no_cursor(text: str, shown: str) -> None:
    """`one_line` replaces line breaks, terminal codes and changes of the writing direction."""
    assert one_line(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("flat_index", "flat_index"),
        ("_private_", "\\_private\\_"),
        ("a|b", "a\\|b"),
        ("<img src=x>", "\\<img src=x\\>"),
        ("[x](y) `z` **b** @all #1", "\\[x\\](y) \\`z\\` \\*\\*b\\*\\* \\@all \\#1"),
        ("a\n| b", "a \\| b"),
    ],
)
def test_markdown_shows_what_it_is_given(text: str, shown: str) -> None:
    """`markdown` escapes markup, mentions and `|`, but not underscores within words."""
    assert markdown(text) == shown


def test_workflow_commands_stay_one() -> None:
    """A message in a GitHub workflow command cannot start another command.

    A file name that is a property of the command, such as `file=NAME`, cannot add other properties.
    """
    assert workflow_message("50 %\n::error::x") == "50 %25 ::error::x"
    assert workflow_property("a,line=1::x") == "a%2Cline=1%3A%3Ax"
