"""`harness gate` reads the content that git stores, whatever checkout settings a change has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gate.test_command import (
    SLOWER,
    Repository,
    commit,
    repository,
    text_of,
    verdicts,
)

__all__ = ["repository"]

FLAT_INDEX = Path("submissions") / "flat_index.py"


def check_out(repository: Repository) -> None:
    """Check out all submissions anew, so that git applies the attributes."""
    for path in (repository.folder / "submissions").iterdir():
        path.unlink()
    repository.git("checkout", "-q", "--", ".")


@pytest.mark.thorough
@pytest.mark.parametrize("attribute", ["working-tree-encoding=UTF-7", "eol=crlf"])
def test_attributes_of_a_change_change_neither_version(
    repository: Repository, attribute: str
) -> None:
    """A .gitattributes file in a change does not affect how the gate compares versions.

    The gate still sees that a submission is unchanged, or that it is slower.
    """
    attributes = repository.folder / ".gitattributes"
    attributes.write_text(f"flat_index.py text {attribute}\n")
    # The author's own file need not follow the attribute. A fresh checkout does.
    repository.git("add", ".gitattributes")
    repository.git("commit", "-q", "-m", "attributes")
    check_out(repository)
    assert (repository.folder / FLAT_INDEX).read_bytes() != text_of("flat_index").encode()
    unchanged = repository.gate("--base", "HEAD~1", "--allow-new")
    assert unchanged.out.endswith("1 unchanged and not evaluated\n"), unchanged.out + unchanged.err
    if "UTF-7" not in attribute:
        return
    text = attributes.read_text()
    repository.git("rm", "-q", "-f", ".gitattributes")
    repository.write({"flat_index": SLOWER})
    commit(repository)
    attributes.write_text(text)
    repository.git("add", ".gitattributes")
    repository.git("commit", "-q", "-m", "attributes again")
    check_out(repository)
    done = repository.gate("--base", "HEAD~3", "--allow-new")
    assert done.status == 1, done.out + done.err
    assert verdicts(done) == {"flat_index": "slower"}


def test_what_replaces_an_object_is_not_it(repository: Repository) -> None:
    """The gate ignores git's refs/replace/ when it reads the base.

    Otherwise, anyone who can write these refs could choose the base.
    """
    (repository.folder / "other").write_text("x = 1\n")
    repository.git("hash-object", "-w", "other")
    repository.git("add", "other")
    repository.git("replace", "HEAD:submissions/flat_index.py", ":other")
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.out.endswith("1 unchanged and not evaluated\n"), done.out + done.err


@pytest.mark.thorough
def test_base_that_cannot_be_read_fails(repository: Repository) -> None:
    """The gate's verdict on a file is `missing` if the base's version of it does not parse.

    If the base's version is not a submission, the verdict is `new`.
    """
    repository.write({"flat_index": "class ModelNew(:\n", "dilated": "x = 1\n"})
    commit(repository)
    repository.write({"flat_index": text_of("flat_index"), "dilated": text_of("dilated")})
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.status == 1, done.out + done.err
    assert verdicts(done) == {"flat_index": "missing", "dilated": "new"}
    assert "the base's file cannot be read: it does not parse in line 1" in done.out


def test_links_and_names_that_are_no_text(repository: Repository) -> None:
    """A link out of the repository is refused, and so is a file name that is not UTF-8.

    Links and names of this kind that did not change are ignored.
    """
    folder = repository.folder / "submissions"
    (repository.folder / "other").mkdir()
    (repository.folder / "other" / "dilated.py").write_text(text_of("dilated"))
    (folder / "dilated.py").symlink_to("../other/dilated.py")
    (folder / "away.py").symlink_to("/etc/hostname")
    (folder / "absent.py").symlink_to("nowhere.py")
    Path(os.fsdecode(bytes(folder) + b"/n\xffme.py")).write_text(text_of("flat_index"))
    commit(repository)
    unchanged = repository.gate("--base", "HEAD")
    assert unchanged.status == 0, unchanged.out + unchanged.err
    assert unchanged.out.endswith("2 unchanged and not evaluated\n")
    (folder / "gone.py").symlink_to("/etc/passwd")
    Path(os.fsdecode(bytes(folder) + b"/m\xffre.py")).write_text(text_of("flat_index"))
    done = repository.gate("--base", "HEAD", "--allow-new")
    assert done.status == 1, done.out + done.err
    assert "is a link to /etc/passwd, which the repository does not have" in done.out
    assert "m?re" in done.out
    assert "has a name that is not UTF-8; rename it" in done.out
    assert "Traceback" not in done.err


def test_name_is_no_pattern(repository: Repository) -> None:
    """The argument `*.py` selects a file of that name, not every file that the pattern matches."""
    repository.write({"*": text_of("flat_index").replace("flat_index", "another")})
    commit(repository)
    repository.write({"dilated": text_of("dilated")})
    done = repository.gate("submissions/*.py", "--base", "HEAD")
    assert done.status == 0, done.out + done.err
    assert done.out.endswith("1 unchanged and not evaluated\n")


@pytest.mark.parametrize("name", ["..", "away"])
def test_commit_that_no_git_would_make_writes_nothing_elsewhere(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    """A forged commit with file names that lead out of the repository gives an error of one line.

    One such name is `..`; another is the name of both a folder and a link.
    """
    away = tmp_path / "elsewhere"
    away.mkdir()
    made = repository.folder / "made"
    made.write_text(str(away))
    link = repository.git("hash-object", "-w", "made")
    file = repository.git("rev-parse", "HEAD:submissions/flat_index.py")
    inner = repository.git("mktree", told=f"100644 blob {file}\tevil.py\n")
    entries = f"040000 tree {inner}\t{name}\n"
    if name == "away":
        entries = f"120000 blob {link}\t{name}\n{entries}"
    submissions = repository.git("mktree", told=entries)
    top = repository.git("mktree", told=f"040000 tree {submissions}\tsubmissions\n")
    forged = repository.git("commit-tree", "-m", "forged", top)
    done = repository.gate("--base", forged)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert "is not a valid file name" in line or "cannot be written" in line
    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.thorough
def test_folder_that_became_a_link_is_compared_with_what_it_was(repository: Repository) -> None:
    """If a change replaces a folder of submissions by a link, the gate follows the link.

    It compares the submissions there with those of the old folder.
    """
    moved = repository.folder / "moved"
    (repository.folder / "submissions").rename(moved)
    (repository.folder / "submissions").symlink_to("moved")
    commit(repository)
    done = repository.gate("--base", "HEAD~1", "--allow-new")
    assert done.status == 0, done.out + done.err
    assert verdicts(done) == {"flat_index": "same"}
