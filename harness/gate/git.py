"""Calls of git that return file names and contents as stored, independent of git's settings."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.system.errors import HarnessError

BLOB, LINK = "100", "120000"
"""First digits of a file's mode, and the mode of a symbolic link."""


class RevisionError(HarnessError, ValueError):
    """A git revision or path is unavailable; the message is one line and says what to do."""


def ask(folder: Path, *arguments: str) -> str:
    """Return the output of a git command; bytes that are not UTF-8 are decoded by `os.fsdecode`.

    Raises:
        RevisionError: git is not installed or fails.
    """
    try:
        done = subprocess.run([*_COMMAND, *arguments], cwd=folder, capture_output=True, check=True)
    except FileNotFoundError:
        raise RevisionError("git is missing; run: apt-get install git") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise RevisionError(f"git {arguments[0]} in {folder}: {said}") from None
    return os.fsdecode(done.stdout)


def listed(folder: Path, *arguments: str) -> list[str]:
    """Return the items that a git command prints, separated by NUL characters (option `-z`)."""
    return [piece for piece in ask(folder, *arguments).split("\0") if piece]


def blobs(folder: Path, objects: Sequence[str]) -> Iterator[bytes]:
    """Yield the contents of git objects as stored; git converts no line ends or encodings.

    Raises:
        RevisionError: An object does not exist.
    """
    # The names come from a file. With a pipe, git's output could fill its pipe while the names are
    # still being written, and both sides would wait.
    with tempfile.TemporaryFile() as wanted:
        wanted.write("".join(f"{each}\n" for each in objects).encode())
        wanted.seek(0)
        command = [*_COMMAND, "cat-file", "--batch"]
        with subprocess.Popen(command, cwd=folder, stdin=wanted, stdout=subprocess.PIPE) as git:
            assert git.stdout is not None  # noqa: S101 - for the type checker
            for each in objects:
                kind, *size = git.stdout.readline().decode().split()[1:]
                if kind != "blob":
                    git.kill()
                    raise RevisionError(
                        f"git cat-file in {folder}: {each} is {kind}; run: git fsck"
                    )
                content = git.stdout.read(int(size[0]))
                git.stdout.read(1)
                yield content


def in_commit(root: Path, commit: str, below: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return mode and object name of each file at or below some paths of a commit, by file name."""
    found = {}
    for line in listed(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *below):
        facts, _, name = line.partition("\t")
        mode, _, blob = facts.split(" ")
        found[name] = (mode, blob)
    return found


def in_index(root: Path, below: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return mode and object name of each tracked file at or below some paths, by file name."""
    found = {}
    for line in listed(root, "ls-files", "-z", "--stage", "--", *below):
        facts, _, name = line.partition("\t")
        mode, blob, _ = facts.split(" ")
        found[name] = (mode, blob)
    return found


# A file may be called `*.py`, so names are not patterns. Objects are read as they are, even if
# refs/replace/ has a replacement for them.
_COMMAND = ("git", "--literal-pathspecs", "--no-replace-objects")
