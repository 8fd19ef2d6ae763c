"""The folders of harness/ and the imports between them, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support import ROOT

HARNESS = ROOT / "harness"
# The entry points, and the modules that may import them. pytest_plugin uses cli's option types.
DOORS = {
    "cli": {"__main__", "pytest_plugin"},
    "pytest_plugin": set[str](),
    "client": {"__init__"},
}
FOLDERS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for path in HARNESS.rglob("__init__.py")
    if path.parent != HARNESS
)


def imported(path: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports, anywhere in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "harness":
            yield from (f"harness.{each.name}" for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def rooms() -> dict[str, set[str]]:
    """Return the imports between the parts of harness/, its folders and top-level modules.

    The key is a part's name, and the value is the names of the other parts that it imports.
    """
    found: dict[str, set[str]] = {}
    for path in HARNESS.rglob("*.py"):
        own = path.relative_to(HARNESS).parts[0].removesuffix(".py")
        others = {name.split(".")[1] for name in imported(path) if name.startswith("harness.")}
        found.setdefault(own, set()).update(others - {own})
    return found


def test_rooms_make_no_circle() -> None:
    """The imports between the folders of harness/ form no cycle."""
    assert len(list(TopologicalSorter(rooms()).static_order())) >= len(rooms())


@pytest.mark.parametrize("door", DOORS)
def test_nothing_imports_a_door(door: str) -> None:
    """An entry point (cli, pytest_plugin, client) is imported only by the modules in `DOORS`."""
    assert {room for room, others in rooms().items() if door in others} == DOORS[door]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_says_what_belongs_there(folder: str) -> None:
    """The docstring of a folder's `__init__.py` has at least two sentences.

    One of them should say what belongs in the folder.
    """
    text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    assert text.count(".") + text.count(";") >= 2, text
