"""Submissions as they were at a revision of a git repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.system.errors import HarnessError


class RevisionError(HarnessError, ValueError):
    """The revision cannot be had; the message is one line and says what to do."""


@dataclass(frozen=True)
class Tree:
    """Some files and folders as they were.

    Attributes:
        commit: The revision's full name.
        root: The repository's top folder.
        folder: Where they lie now, below the same names as in the repository.
        names: Every file that was there, from the top folder.
        head_names: Every file that is there now and that git does not ignore.
    """

    commit: str
    root: Path
    folder: Path
    names: frozenset[str]
    head_names: frozenset[str]

    def where(self, path: Path) -> Path | None:
        """Where a path of the working tree lies in the older one; None if it was not there."""
        path = path.resolve()
        if not path.is_relative_to(self.root):
            return None
        there = self.folder / path.relative_to(self.root)
        return there if there.exists() else None

    def changed(self) -> frozenset[Path]:
        """Files of the working tree that are not as they were; those that are gone as well."""
        return frozenset(
            self.root / name
            for name in self.names | self.head_names
            if _content(self.root / name) != _content(self.folder / name)
        )


def export(revision: str, paths: Sequence[Path], references: Sequence[Path], folder: Path) -> Tree:
    """Put what lay under some paths at a revision into a folder.

    Args:
        revision: Whatever git takes for a commit.
        paths: Files and folders of one repository, there now or not.
        references: More of them; one that lies outside of the repository is left out.
        folder: An empty folder.

    Raises:
        RevisionError: There is no repository, no such revision, or a path lies outside.
    """
    root = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel").strip())
    commit = _commit(root, revision)
    inside = [_below(root, path) for path in paths]
    inside += [_below(root, path) for path in references if path.is_relative_to(root)]
    names = _names(_git(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", *inside))
    # An index of its own: the user's is not ours to touch.
    index = {"GIT_INDEX_FILE": str(folder / "index")}
    _git(root, "read-tree", commit, environment=index)
    there = folder / "tree"
    there.mkdir()
    # Unlike `git archive`, this converts line ends as the working tree's were.
    command = ("checkout-index", "-z", "--stdin", f"--prefix={there}/")
    _git(root, *command, environment=index, given="\0".join(sorted(names)))
    now = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *inside)
    return Tree(commit, root, there, names, _names(_git(root, *now)))


def _commit(root: Path, revision: str) -> str:
    try:
        wanted = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return _git(root, *wanted).strip()
    except RevisionError:
        raise RevisionError(
            f"--base {revision}: neither a file nor a revision of {root}; in a shallow clone, run: "
            "git fetch --unshallow"
        ) from None


def _below(root: Path, path: Path) -> str:
    path = path.resolve()
    if not path.is_relative_to(root):
        raise RevisionError(f"{path}: lies outside of the repository {root}")
    return str(path.relative_to(root))


def _names(listing: str) -> frozenset[str]:
    return frozenset(filter(None, listing.split("\0")))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _git(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, given: str = ""
) -> str:
    """What git answers.

    Raises:
        RevisionError: It is not there, or says no.
    """
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - git is found on the PATH, as its users do
            cwd=folder,
            env={**os.environ, **(environment or {})},
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        raise RevisionError("git is missing; run: apt-get install git") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().partition("\n")[0]
        raise RevisionError(f"git {arguments[0]} in {folder}: {said}") from None
    return done.stdout
