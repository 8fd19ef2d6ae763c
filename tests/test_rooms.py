"""The folders of harness/ and the imports between them, read from the sources."""

from __future__ import annotations

import ast
import itertools
import re
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
ENDINGS = ("c", "cpp", "cu", "cuh", "h")
# The folders in which compilers look for the harness's own headers.
INCLUDES = [
    HARNESS / folder
    for folder in (
        "compiler/include/light",
        "compiler/include/slim",
        "simulator/include",
        "simulator/native",
    )
]
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


def included(path: Path) -> Iterator[Path]:
    """Yield the files of harness/ that a C or C++ source or a header includes."""
    for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', path.read_text(), re.M):
        # Some headers stand in for one of torch in two folders. Compilers look in their own first.
        own = HARNESS / path.relative_to(HARNESS).parts[0]
        folders = sorted(INCLUDES, key=lambda each: own not in each.parents)
        places = (folder / name for folder in (path.parent, *folders))
        yield from (each.resolve() for each in itertools.islice(filter(Path.is_file, places), 1))


def rooms() -> dict[str, set[str]]:
    """Return the imports and includes between the parts of harness/.

    The parts are its folders and top-level modules.

    The key is a part's name, and the value is the names of the other parts that it imports.
    """
    found: dict[str, set[str]] = {}
    for path in HARNESS.rglob("*.py"):
        own = path.relative_to(HARNESS).parts[0].removesuffix(".py")
        others = {name.split(".")[1] for name in imported(path) if name.startswith("harness.")}
        found.setdefault(own, set()).update(others - {own})
    for path in (each for ending in ENDINGS for each in HARNESS.rglob(f"*.{ending}")):
        own = path.relative_to(HARNESS).parts[0]
        others = {each.relative_to(HARNESS).parts[0] for each in included(path)}
        found[own].update(others - {own})
    return found


def test_rooms_make_no_circle() -> None:
    """The imports and includes between the folders of harness/ form no cycle."""
    assert len(list(TopologicalSorter(rooms()).static_order())) >= len(rooms())


def test_includes_are_read() -> None:
    """The simulator's native side includes a header of the compiler, by a path and by a name."""
    (shim,) = HARNESS.glob("simulator/native/slim.cpp")
    assert HARNESS / "compiler/include/slim/harness/functions.h" in included(shim)
    (device,) = HARNESS.glob("simulator/native/device.cpp")
    assert any("simulator/include/c10" in each.as_posix() for each in included(device))


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
