"""Submissions as they were at a revision of a git repository, and as they are now.

Both sides are what git has stored, byte for byte. A checkout would follow the attributes of one of
them (line ends, encodings, filters), and so let a change decide how the other is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.gate import git
from harness.gate.git import RevisionError

__all__ = ["RevisionError", "Side", "Tree", "content_at", "export"]

# A link may lead to another; a chain that is longer than what systems follow leads nowhere.
_MOST_LINKS = 40

_Stored = Mapping[str, tuple[str, str]]
_Found = dict[str, tuple[str, bytes]]
"""Mode and content of each file, by name; a link's content is where it leads."""


@dataclass(frozen=True)
class Side:
    """Some files and folders of a repository, as one of its versions has them.

    Attributes:
        folder: Where they lie, below the same names as in the repository.
        files: Every file, by its name from the top folder: its mode and its content's hash.
        outside: The links that lead out of the repository, with where they lead to. Nothing lies
            there: what is behind them is no part of the version.
    """

    folder: Path
    files: Mapping[str, tuple[str, int]]
    outside: Mapping[str, str]

    def where(self, name: str) -> Path | None:
        """Where something lies; None if this version does not have it."""
        there = self.folder / name
        return there if there.exists() else None

    def name(self, path: Path) -> str:
        """What something that lies here is called in the repository."""
        return str(path.relative_to(self.folder))


@dataclass(frozen=True)
class Tree:
    """Two versions of some files and folders.

    Attributes:
        commit: The older revision's full name.
        root: The repository's top folder.
        base: The older version.
        head: What is there now, but for what git ignores.
    """

    commit: str
    root: Path
    base: Side
    head: Side

    def name(self, path: Path) -> str | None:
        """What a path of the working tree is called; None if it lies outside."""
        return _name(self.root, path)

    def changed(self) -> frozenset[str]:
        """Names of the files that are not as they were; of those that are gone as well."""
        names = self.base.files.keys() | self.head.files.keys()
        return frozenset(n for n in names if self.base.files.get(n) != self.head.files.get(n))


def export(revision: str, paths: Sequence[Path], references: Sequence[Path], folder: Path) -> Tree:
    """Put what lies under some paths, and what lay there at a revision, into a folder.

    Args:
        revision: Whatever git takes for a commit.
        paths: Files and folders of one repository, there now or not.
        references: More of them; one that lies outside of the repository is left out.
        folder: An empty folder.

    Raises:
        RevisionError: There is no repository, no such revision, or a path lies outside.
    """
    root = _root()
    commit = _commit(root, revision)
    inside = [_below(root, path) for path in paths]
    inside += [name for path in references if (name := _name(root, path)) is not None]
    base = _committed(root, git.in_commit(root, commit, ()), inside)
    head = _present(root, inside)
    return Tree(commit, root, _write(folder / "base", base), _write(folder / "head", head))


def content_at(revision: str, path: Path) -> bytes | None:
    """What a file held at a revision of the repository; None where it was not there.

    Raises:
        RevisionError: There is no repository, no such revision, or the path lies outside.
    """
    root = _root()
    name = _below(root, path)
    stored = git.in_commit(root, _commit(root, revision), [name])
    found = _read(root, {name: stored[name]} if name in stored else {})
    return found[name][1] if name in found else None


def _root() -> Path:
    return Path(git.ask(Path.cwd(), "rev-parse", "--show-toplevel").removesuffix("\n"))


def _commit(root: Path, revision: str) -> str:
    try:
        wanted = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return git.ask(root, *wanted).strip()
    except RevisionError:
        raise RevisionError(
            f"--base {revision}: neither a file nor a revision of {root}; in a shallow clone, run: "
            "git fetch --unshallow"
        ) from None


def _below(root: Path, path: Path) -> str:
    name = _name(root, path)
    if name is None:
        raise RevisionError(f"{path}: lies outside of the repository {root}")
    return name


def _name(root: Path, path: Path) -> str | None:
    # By its words first: a link in the repository is a file of it, and may be new.
    here = Path(os.path.normpath(Path.cwd().resolve() / path))
    for there in (here, path.resolve()):
        if there.is_relative_to(root):
            return str(there.relative_to(root))
    return None


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(f in (".", name) or name.startswith(f"{f}/") for f in folders)


def _committed(root: Path, stored: _Stored, inside: Sequence[str]) -> _Found:
    """What a commit has under some paths, and what its links there lead to."""
    found: _Found = {}
    wanted = list(inside)
    for _ in range(_MOST_LINKS):
        names = [n for n in stored if n not in found and _is_below(n, wanted)]
        fresh = _read(root, {name: stored[name] for name in names})
        found |= fresh
        wanted = [name for name in map(_target, fresh.items()) if name is not None]
        if not wanted:
            break
    return found


def _present(root: Path, inside: Sequence[str]) -> _Found:
    """What is there now: what git has stored, but for what was changed since, or is new."""
    stored = git.in_index(root, ())
    changed = set(git.listed(root, "diff-files", "-z", "--name-only"))
    found = {
        name: entry
        for name, entry in _committed(root, stored, inside).items()
        if name not in changed
    }
    new = git.listed(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *inside)
    for name in {*new, *(n for n in changed if _is_below(n, inside))}:
        entry = _on_disk(root, name)
        if entry is not None:
            found[name] = entry
    return found


def _read(root: Path, stored: _Stored) -> _Found:
    """The contents of files; what is neither file nor link, a submodule, is left out."""
    files = {
        name: (mode, blob)
        for name, (mode, blob) in stored.items()
        if mode.startswith(git.BLOB) or mode == git.LINK
    }
    contents = git.blobs(root, [blob for _, blob in files.values()])
    return {
        name: (git.LINK if mode == git.LINK else git.BLOB, content)
        for (name, (mode, _)), content in zip(files.items(), contents, strict=True)
    }


def _on_disk(root: Path, name: str) -> tuple[str, bytes] | None:
    path = root / name
    if any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(root)):
        return None
    try:
        if path.is_symlink():
            return git.LINK, os.fsencode(path.readlink())
        return (git.BLOB, path.read_bytes()) if path.is_file() else None
    except OSError as error:
        raise RevisionError(f"{path}: cannot be read: {error.strerror}") from None


def _target(entry: tuple[str, tuple[str, bytes]]) -> str | None:
    """What a link leads to in the repository; None of a file, and of a link that leaves it."""
    name, (mode, content) = entry
    target = os.fsdecode(content)
    if mode != git.LINK or target.startswith("/"):
        return None
    there = os.path.normpath(PurePosixPath(name).parent / target)
    return None if there.startswith("..") else there


def _write(folder: Path, found: _Found) -> Side:
    """Write files, then links: nothing is written through one."""
    folder.mkdir()
    outside: dict[str, str] = {}
    try:
        for name, (mode, content) in sorted(found.items(), key=lambda entry: entry[1][0]):
            path = _place(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if mode == git.LINK:
                path.symlink_to(os.fsdecode(content))
            else:
                path.write_bytes(content)
        for name, (mode, content) in found.items():
            if mode == git.LINK and not _stays(folder, folder / name):
                outside[name] = os.fsdecode(content)
        for name in outside:
            (folder / name).unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RevisionError(f"{name!a} of the repository cannot be written: {reason}") from None
    return Side(folder, {n: (mode, hash(content)) for n, (mode, content) in found.items()}, outside)


def _place(folder: Path, name: str) -> Path:
    """Where a file belongs; git's own tools refuse these names, but a commit can have them."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise RevisionError(f"{name!a} is no name for a file; run: git fsck")
    return folder / name


def _stays(folder: Path, link: Path) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(folder)
