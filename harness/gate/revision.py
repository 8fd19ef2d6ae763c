"""Export of files from a git repository, at a revision and from the working tree, to compare both.

The bytes of both versions are those that git has stored. A checkout would convert both versions
by the .gitattributes of only one of them (line ends, encodings, filters). A change to
.gitattributes could then decide how the other version is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.gate import git
from harness.gate.git import RevisionError

__all__ = ["RevisionError", "Tree", "VersionSnapshot", "content_at", "export"]

# A link may lead to another link. A chain that is longer than operating systems follow leads
# nowhere.
_MOST_LINKS = 40

_Stored = Mapping[str, tuple[str, str]]
_Found = dict[str, tuple[str, bytes]]
"""Mode and content of each file by name; the content of a link is its target."""


@dataclass(frozen=True)
class VersionSnapshot:
    """One version of some files and folders of a repository, written to a folder.

    Attributes:
        folder: Folder with the files, under the same relative names as in the repository.
        files: For each file, by its name relative to the top folder: git's mode, and a hash of the
            content.
        outside: Targets of the symbolic links that lead out of the repository, by name of the link.
            The folder does not have these links, since their targets are not part of the version.
    """

    folder: Path
    files: Mapping[str, tuple[str, int]]
    outside: Mapping[str, str]

    def where(self, name: str) -> Path | None:
        """Return the path of the file or folder `name`; None if this version does not have it."""
        there = self.folder / name
        return there if there.exists() else None

    def name(self, path: Path) -> str:
        """Return the name relative to the repository's top folder, for a path in `folder`."""
        return str(path.relative_to(self.folder))


@dataclass(frozen=True)
class Tree:
    """An older and the present version of some files and folders of a repository.

    Attributes:
        commit: Full hash of the older version's commit.
        root: Top folder of the repository.
        base: The older version.
        head: The working tree, without the files that git ignores.
    """

    commit: str
    root: Path
    base: VersionSnapshot
    head: VersionSnapshot

    def name(self, path: Path) -> str | None:
        """Return the name of a path relative to `root`; None for a path outside `root`."""
        return _name(self.root, path)

    def changed(self) -> frozenset[str]:
        """Return the names of files that differ between both versions, or exist only in one."""
        names = self.base.files.keys() | self.head.files.keys()
        return frozenset(n for n in names if self.base.files.get(n) != self.head.files.get(n))


def export(revision: str, paths: Sequence[Path], references: Sequence[Path], folder: Path) -> Tree:
    """Write the older and the present version of some paths to `folder`/base and `folder`/head.

    Args:
        revision: Any name that git accepts for a commit.
        paths: Files and folders of one repository. They need not exist in the working tree.
        references: Files of references to write too, if they are in the repository.
        folder: An empty folder.

    Raises:
        RevisionError: The repository or the revision does not exist, or a path lies
            outside the repository.
    """
    root = _root()
    commit = _commit(root, revision)
    inside = [_below(root, path) for path in paths]
    inside += [name for path in references if (name := _name(root, path)) is not None]
    base = _committed(root, git.in_commit(root, commit, ()), inside)
    head = _present(root, inside)
    return Tree(commit, root, _write(folder / "base", base), _write(folder / "head", head))


def content_at(revision: str, path: Path) -> bytes | None:
    """Return a file's content at a git revision; None if the revision does not have the file.

    Raises:
        RevisionError: The repository or the revision does not exist, or the path lies
            outside the repository.
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
    # The path is tried unresolved first, because a link inside the repository is itself a file of
    # it, and may be new.
    here = Path(os.path.normpath(Path.cwd().resolve() / path))
    for there in (here, path.resolve()):
        if there.is_relative_to(root):
            return str(there.relative_to(root))
    return None


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(f in (".", name) or name.startswith(f"{f}/") for f in folders)


def _committed(root: Path, stored: _Stored, inside: Sequence[str]) -> _Found:
    """Return the stored files at or below some paths, and the targets of symbolic links there."""
    found: _Found = {}
    wanted = list(inside)
    # Each pass reads the files that the links of the last pass lead to.
    for _ in range(_MOST_LINKS):
        names = [n for n in stored if n not in found and _is_below(n, wanted)]
        fresh = _read(root, {name: stored[name] for name in names})
        found |= fresh
        wanted = [name for name in map(_target, fresh.items()) if name is not None]
        if not wanted:
            break
    return found


def _present(root: Path, inside: Sequence[str]) -> _Found:
    """Return the present files: as git has stored them, or from disk if they changed or are new."""
    # Unchanged files come from git's store, not from disk. A checkout may have changed their bytes.
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
    """Return the stored contents of files and symbolic links; leave out submodules."""
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
    """Return the name of a symbolic link's target in the tree; None if there is no such target."""
    name, (mode, content) = entry
    target = os.fsdecode(content)
    if mode != git.LINK or target.startswith("/"):
        return None
    there = os.path.normpath(PurePosixPath(name).parent / target)
    return None if there.startswith("..") else there


def _write(folder: Path, found: _Found) -> VersionSnapshot:
    """Write files before links, so that no file is written through a link; return the snapshot."""
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
    return VersionSnapshot(
        folder, {n: (mode, hash(content)) for n, (mode, content) in found.items()}, outside
    )


def _place(folder: Path, name: str) -> Path:
    """Return the path for a file name; refuse names such as `..`, which a bad commit can have."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise RevisionError(f"{name!a} is not a valid file name; run: git fsck")
    return folder / name


def _stays(folder: Path, link: Path) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(folder)
