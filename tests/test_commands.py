"""docs/commands.md has every option of every command, in the words of the program's own help."""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.main import command_line
from harness.pytest_plugin.plugin import pytest_addoption
from tests.support import ROOT

PAGE = ROOT / "docs" / "commands.md"


def row(action: argparse.Action) -> str:
    """An option as the page has it: its form, and its help."""
    value = action.metavar or action.dest.upper()
    if action.choices:
        value = action.metavar or "{" + ",".join(map(str, action.choices)) + "}"
    names = [f"{name} {value}" for name in action.option_strings] or [str(value)]
    if action.nargs == 0:
        names = [*action.option_strings]
    help_text = ((action.help or "") % {"default": action.default}).replace("|", r"\|")
    required = " (required)" if action.required and action.option_strings else ""
    form = ", ".join(names).replace("|", r"\|")
    return f"| `{form}` | {' '.join(help_text.split())}{required} |"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    (commands,) = (
        action
        for action in command_line()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {f"harness {name}": parser for name, parser in commands.choices.items()}


class Recorder:
    """Stands for pytest's parser and its groups of options."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(add_help=False)

    def getgroup(self, name: str, description: str) -> Recorder:
        """Return this; the page has one table."""
        del name, description
        return self

    def addoption(self, *names: str, **options: Any) -> None:
        """Take an option as argparse does."""
        self.parser.add_argument(*names, **options)

    def addini(self, *names: str, **options: Any) -> None:
        """Take nothing: a setting is no option."""


def expected() -> dict[str, list[str]]:
    """The rows of each section, in the order of the help."""
    recorder = Recorder()
    pytest_addoption(recorder)  # type: ignore[arg-type]
    found = {name: parser._actions for name, parser in parsers().items()}
    found["pytest"] = recorder.parser._actions
    return {
        name: [row(action) for action in actions if action.dest != "help"]
        for name, actions in found.items()
    }


def written() -> dict[str, list[str]]:
    """The rows of each section of the page."""
    sections = PAGE.read_text().partition("\n## `make`")[0].split("\n## ")[1:]
    return {
        section.partition("\n")[0].strip("`"): [
            line for line in section.splitlines() if line.startswith("| `")
        ]
        for section in sections
    }


def test_page_has_each_option_of_each_command() -> None:
    """Options and help stand there as the parsers have them, and nothing else does."""
    assert written() == expected()


def test_help_is_one_line_of_plain_words() -> None:
    """Each option and argument has a help, which does not end with a full stop."""
    for name, lines in expected().items():
        for line in lines:
            assert not line.endswith(("|  |", ". |")), (name, line)
