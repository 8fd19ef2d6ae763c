"""docs/commands.md has every option of every command, in the words of the program's own help."""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.main import command_line
from harness.pytest_plugin.plugin import pytest_addoption
from tests.support import ROOT

PAGE = ROOT / "docs" / "commands.md"


def row(action: argparse.Action) -> str:
    """Return an option's row in the table of docs/commands.md: the option's form and its help."""
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
    """Return the argument parser of each `harness` command, by name of the command."""
    (commands,) = (
        action
        for action in command_line()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {f"harness {name}": parser for name, parser in commands.choices.items()}


class Recorder:
    """A stand-in for pytest's parser and its option groups, which records the plugin's options."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(add_help=False)

    def getgroup(self, name: str, description: str) -> Recorder:
        """Return this recorder as the option group.

        The page docs/commands.md has one table for the options of all groups.
        """
        del name, description
        return self

    def addoption(self, *names: str, **options: Any) -> None:
        """Add an option to the argparse parser."""
        self.parser.add_argument(*names, **options)

    def addini(self, *names: str, **options: Any) -> None:
        """Ignore a setting of pytest's configuration file: docs/commands.md has only options."""


def expected() -> dict[str, list[str]]:
    """Return the table rows that each section of docs/commands.md must have, in order."""
    recorder = Recorder()
    pytest_addoption(recorder)  # type: ignore[arg-type]
    found = {name: parser._actions for name, parser in parsers().items()}
    found["pytest"] = recorder.parser._actions
    return {
        name: [row(action) for action in actions if action.dest != "help"]
        for name, actions in found.items()
    }


def written() -> dict[str, list[str]]:
    """Return the table rows that each section of docs/commands.md has."""
    sections = PAGE.read_text().partition("\n## `make`")[0].split("\n## ")[1:]
    return {
        section.partition("\n")[0].strip("`"): [
            line for line in section.splitlines() if line.startswith("| `")
        ]
        for section in sections
    }


def test_page_has_each_option_of_each_command() -> None:
    """docs/commands.md has exactly the options of the parsers, with the same help texts."""
    assert written() == expected()


def test_help_is_one_line_of_plain_words() -> None:
    """Each option and argument has a help text, which does not end with a full stop."""
    for name, lines in expected().items():
        for line in lines:
            assert not line.endswith(("|  |", ". |")), (name, line)
