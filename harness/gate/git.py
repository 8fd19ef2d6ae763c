"""Ask git: names and contents are bytes, and nothing of the repository's settings changes them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.system.errors import HarnessError

BLOB, LINK = "100", "120000"
"""How the mode of a file begins, and the mode of a symbolic link."""


class RevisionError(HarnessError, ValueError):
    """The revision cannot be had; the message is one line and says what to do."""


def ask(folder: Path, *arguments: str) -> str:
    """What git answers; bytes that are no UTF-8 are as in file names (`os.fsdecode`).

    Raises:
        RevisionError: It is not there, or says no.
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
    """What git answers with `-z`, in pieces."""
    return [piece for piece in ask(folder, *arguments).split("\0") if piece]


def blobs(folder: Path, objects: Sequence[str]) -> Iterator[bytes]:
    """The contents of objects, as they are stored: without filters, encodings and line ends.

    Raises:
        RevisionError: One of them is not there.
    """
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
    """Mode and object of each file of a commit under some paths, by name."""
    found = {}
    for line in listed(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *below):
        facts, _, name = line.partition("\t")
        mode, _, blob = facts.split(" ")
        found[name] = (mode, blob)
    return found


def in_index(root: Path, below: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Mode and object of each tracked file under some paths, by name."""
    found = {}
    for line in listed(root, "ls-files", "-z", "--stage", "--", *below):
        facts, _, name = line.partition("\t")
        mode, blob, _ = facts.split(" ")
        found[name] = (mode, blob)
    return found


# Names are names, not patterns: a file may be called `*.py`. An object is itself, whatever
# refs/replace/ has in its place.
_COMMAND = ("git", "--literal-pathspecs", "--no-replace-objects")
