"""Refusal of settings, conftest files and plugins that pytest would use from submissions' folders.

The author of a submission may also have written the files beside it, and pytest applies or runs
them outside of any sandbox. A setting can deselect all tests, and a conftest file is a program. So
both are allowed only in the root (the folder from which pytest is called) and in folders above it.
Like hints.py, this module imports almost nothing.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

_SETTINGS = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_SECTION = re.compile(rb"^[ \t]*\[(tool:)?pytest\]", re.MULTILINE)
_SUBMISSION = re.compile(rb"^[ \t\f]*(class\s+ModelNew\b|ModelNew\s*[=:])", re.MULTILINE)
# Files that pytest imports besides tests. `__init__.py` configures nothing, but it is a program
# too.
_PROGRAMS = ("conftest.py", "__init__.py")
_MOST_BYTES = 1 << 20


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Refuse untrusted settings and programs, before pytest imports the first conftest file.

    Raises:
        pytest.UsageError: A settings file, conftest file or plugin is in a folder of submissions.
    """
    del args
    known = early_config.known_args_namespace
    root = early_config.invocation_params.dir.resolve()
    untrusted = bool(known.untrusted)
    if not untrusted and not _is_used(early_config, root):
        return
    given = [str(each).partition("::")[0] for each in known.file_or_dir]
    paths = [root / each for each in given or early_config.getini("testpaths") or ["."]]
    # For a symbolic link, pytest looks above the link itself, but below the link's target.
    paths = [each for path in paths for each in (Path(os.path.normpath(path)), _resolved(path))]
    folders = {path if path.is_dir() else path.parent for path in paths}
    # With -c, the user chose the settings file.
    chosen = None if known.inifilename else early_config.inipath
    for path in _found(folders, chosen, early_config, untrusted=untrusted):
        if not root.is_relative_to(_resolved(path.parent)):
            shown = path.relative_to(root) if path.is_relative_to(root) else path
            raise pytest.UsageError(
                f"{str(shown)!a} is in a folder of submissions, and pytest would apply or "
                f"import it: remove it, or move it to {root}; check untrusted files with "
                "harness check"
            )


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_used(config: pytest.Config, root: Path) -> bool:
    """Return whether this pytest session checks submissions.

    A settings file below the root may replace the root's settings in pytest. So the settings files
    of the root and above are searched for `harness_reference` too.
    """
    if config.known_args_namespace.reference or config.getini("harness_reference"):
        return True
    if config.inipath is None or root.is_relative_to(config.inipath.parent):
        return False
    own = (folder / name for folder in (root, *root.parents) for name in _SETTINGS)
    return any(b"harness_reference" in _content(path) for path in own)


def _found(
    folders: Iterable[Path], chosen: Path | None, config: pytest.Config, *, untrusted: bool
) -> Iterator[Path]:
    """Yield each file that may be untrusted and from which pytest would take settings or code.

    The files are the settings file that pytest selected, imported plugins, and settings files at or
    below the given paths. Programs, such as conftest.py, above or below the paths are yielded too.
    Other settings files above a path are left out, because pytest does not read them.
    """
    if chosen is not None:
        # pytest also searches the folder of --reference for settings. They are the user's own,
        # unless submissions lie there, too.
        is_theirs = any(_are_related(chosen.parent, folder) for folder in folders)
        if (untrusted and is_theirs) or _has_submissions(chosen.parent):
            yield chosen
    for folder in sorted(folders):
        below = list(_walk(folder))
        holding = {here for here in below if _has_submissions(here)}
        for above in folder.parents:
            if untrusted or _has_submissions(above):
                yield from _programs(above, untrusted=untrusted)
        for here in below:
            # A folder between the root and the submissions counts too, because pytest takes its
            # settings and conftest files on the way down. A folder with tests of its own is left
            # alone: those files belong to the tests.
            leads_there = here in holding or (
                any(each.is_relative_to(here) for each in holding) and not _has_tests(here)
            )
            if untrusted or leads_there:
                yield from _orders(here, untrusted=untrusted)
        if untrusted or holding:
            yield from _plugins(config, below if untrusted else holding)


def _are_related(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield once each folder at or below `folder` that pytest may look into."""
    seen = set()
    # pytest follows links to folders as well as to files.
    for here, below, _ in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        below[:] = sorted(
            each
            for each in below
            if each not in ("__pycache__", ".git", ".harness")
            and not (Path(here) / each / "pyvenv.cfg").exists()
        )
        yield Path(here)


def _orders(folder: Path, *, untrusted: bool) -> Iterator[Path]:
    for name in _SETTINGS:
        path = folder / name
        if path.exists() and _has_settings(path):
            yield path
    yield from _programs(folder, untrusted=untrusted)


def _programs(folder: Path, *, untrusted: bool) -> Iterator[Path]:
    for name in _PROGRAMS if untrusted else _PROGRAMS[:1]:
        if os.path.lexists(folder / name):
            yield folder / name


def _plugins(config: pytest.Config, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of those imported plugins that are in one of the folders."""
    there = set(folders)
    for plugin in config.pluginmanager.get_plugins():
        file = getattr(plugin, "__file__", None)
        if file and _resolved(Path(file)).parent in there:
            yield _resolved(Path(file))


def _has_settings(path: Path) -> bool:
    """Return whether a settings file has settings of pytest, not only of other tools."""
    if "pytest" in path.name:
        return True
    content = _content(path)
    if path.suffix != ".toml":
        return bool(_SECTION.search(content))
    try:
        return "pytest" in tomllib.loads(content.decode()).get("tool", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return True


def _has_submissions(folder: Path) -> bool:
    files = folder.glob("*.py")
    return any(not _is_test(path) and _SUBMISSION.search(_content(path)) for path in files)


def _has_tests(folder: Path) -> bool:
    return any(map(_is_test, folder.glob("*.py")))


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name.endswith("_test.py")


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""
