"""Tests of discovery, which reads submissions in files and folders without running them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.compiler.prelude import begins
from harness.problems.discovery import (
    ConstructorParameter,
    Discovery,
    Kind,
    Submission,
    discover,
    fits,
)
from harness.problems.problem import Problem, load
from harness.problems.source_numbers import numbers_in
from tests.support import REFERENCE

SIMPLE = """
class ModelNew:
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        pass
"""


def write(path: Path, text: str = SIMPLE) -> Path:
    """Write `text`, by default a simple submission, to a file, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str) -> Submission:
    """Return the only submission that discovery finds in a file with this text."""
    found = discover([write(tmp_path / "kernel.py", text)])
    assert found.rejected == ()
    return found.submissions[0]


def rejection(tmp_path: Path, text: str) -> str:
    """Return the message, of one line, with which discovery rejects a file with this text."""
    found = discover([write(tmp_path / "kernel.py", text)])
    assert found.submissions == ()
    message = found.rejected[0].message
    assert "\n" not in message
    return message


def names(submission: Submission) -> list[str]:
    """Return the names of the parameters of a submission's constructor."""
    return [parameter.name for parameter in submission.parameters]


@pytest.fixture(scope="module")
def dilated() -> Problem:
    return load(REFERENCE / "conv_transpose1d_dilated.py")


@pytest.fixture(scope="module")
def plain() -> Problem:
    return load(REFERENCE / "conv_transpose1d.py")


def test_reads_every_kind_of_parameter(tmp_path: Path) -> None:
    """Discovery reads each parameter's name, kind and default, and whether it is required."""
    submission = read(
        tmp_path,
        """
class ModelNew:
    def __init__(self, a, /, b, c=-1, *rest, d, e=WIDTH, **others):
        pass
""",
    )
    assert submission.parameters == (
        ConstructorParameter("a", Kind.POSITIONAL_ONLY),
        ConstructorParameter("b"),
        ConstructorParameter("c", required=False, default=-1),
        ConstructorParameter("rest", Kind.VAR_POSITIONAL, required=False),
        ConstructorParameter("d", Kind.KEYWORD_ONLY),
        ConstructorParameter("e", Kind.KEYWORD_ONLY, required=False),
        ConstructorParameter("others", Kind.VAR_KEYWORD, required=False),
    )
    assert submission.accepts_any


def test_never_runs_the_file(tmp_path: Path) -> None:
    """Discovery does not execute the submission's file."""
    trace = tmp_path / "trace"
    read(tmp_path, f"open({str(trace)!r}, 'w').close()\n{SIMPLE}")
    assert not trace.exists()


def test_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    """A submission's content hash changes with its bytes and does not depend on its path."""
    one = discover([write(tmp_path / "a" / "k.py")]).submissions[0]
    same = discover([write(tmp_path / "b" / "k.py")]).submissions[0]
    other = discover([write(tmp_path / "c" / "k.py", SIMPLE + "\n")]).submissions[0]
    assert one.content_hash == same.content_hash != other.content_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "class Base:\n def __init__(self, a): pass\nclass ModelNew(Base): pass",
            ["a"],
            id="base",
        ),
        pytest.param(
            "class Net:\n def __init__(self, a): pass\nModelNew = Net", ["a"], id="assignment"
        ),
        pytest.param(
            "if True:\n class ModelNew:\n  def __init__(self, a): pass", ["a"], id="in an if"
        ),
        pytest.param(
            "try:\n class ModelNew:\n  def __init__(self, a): pass\n"
            "except ImportError:\n class ModelNew:\n  def __init__(self, b): pass",
            ["a"],
            id="the try's own branch",
        ),
        pytest.param(
            "from torch import nn\nclass ModelNew(nn.Module): pass", [], id="nn.Module's own"
        ),
        pytest.param(
            "class ModelNew:\n def __init__(self, a): pass\n"
            "class ModelNew:\n def __init__(self, b): pass",
            ["b"],
            id="the last definition",
        ),
        pytest.param(
            "from torch import nn\nclass ModelNew(nn.Module):\n @compiled\n"
            " def __init__(self, a): pass",
            ["a"],
            id="decorated",
        ),
    ],
)
def test_finds_the_constructor(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Discovery finds the constructor for many ways to define `ModelNew`.

    The constructor may be inherited or decorated. The class may be inside an `if` or `try`, defined
    twice, or assigned from another class.
    """
    assert names(read(tmp_path, text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import torch.nn as nn\nclass ModelNew(nn.ConvTranspose1d): pass",
        "import torch\nclass ModelNew(torch.nn.ConvTranspose1d): pass",
        "from torch.nn import ConvTranspose1d as Base\nclass ModelNew(Base): pass",
        "import torch.nn as nn\nModelNew = nn.ConvTranspose1d",
    ],
)
def test_knows_the_constructors_of_torch(tmp_path: Path, text: str) -> None:
    """A `ModelNew` that inherits the constructor of a torch.nn class has that class's parameters.

    The file may import the torch.nn class under any name.
    """
    submission = read(tmp_path, text)
    assert names(submission)[:4] == ["in_channels", "out_channels", "kernel_size", "stride"]
    assert submission.accepts("dilation")
    assert [p.name for p in submission.parameters if p.required] == names(submission)[:3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", ["ModelNew"]),
        ("", ["ModelNew"]),
        ("def f(:\n", ["line 1", "invalid syntax"]),
        ("x = 1\ny = (\n", ["line 2", "never closed"]),
        ("a = 1\0", ["parse"]),
        ("(" * 5000 + ")" * 5000, ["parse"]),
        ("ModelNew = " + "-" * 20000 + "1", ["parse"]),
        ("ModelNew = " + "a." * 2500 + "b", ["deep"]),
        ("ModelNew = build()", ["computed", "build()"]),
        ("def ModelNew(): pass", ["function"]),
        ("from other import ModelNew", ["other.ModelNew", "self-contained"]),
        ("class ModelNew(Model): pass", ["Model", "self-contained"]),
        ("class A(B): pass\nclass B(A): pass\nModelNew = A", ["itself"]),
        ("@dataclass\nclass ModelNew:\n a: int", ["@dataclass"]),
        ("class ModelNew:\n __init__ = make()", ["__init__"]),
        ("if __name__ == '__main__':\n class ModelNew: pass", ["defines no ModelNew"]),
    ],
)
def test_says_why_a_file_is_no_submission(tmp_path: Path, text: str, words: list[str]) -> None:
    """A file that defines no submission is rejected with a one-line message that says why.

    The message has the line number if the error has a line.
    """
    message = rejection(tmp_path, text)
    assert all(word in message for word in words), message


def test_says_where_a_file_is_not_utf8(tmp_path: Path) -> None:
    """The message for a file that is not UTF-8 has the line number of the first wrong byte."""
    path = tmp_path / "kernel.py"
    path.write_bytes(b"a = 1\nb = '\xe9'\n")
    assert "line 2" in discover([path]).rejected[0].message


def test_searches_folders_but_not_everything(tmp_path: Path) -> None:
    """A search of a folder skips tests, names with a leading underscore, and virtual environments.

    It also skips caches, hidden folders and files that are not Python.
    """
    for name in ("b.py", "deep/er/a.py"):
        write(tmp_path / name)
    for name in (
        "_helper.py",
        "test_b.py",
        "conftest.py",
        ".hidden/c.py",
        "__pycache__/d.py",
        "venv/e.py",
        "notes.txt",
    ):
        write(tmp_path / name)
    write(tmp_path / "venv" / "pyvenv.cfg", "")
    found = discover([tmp_path])
    assert [s.name for s in found.submissions] == ["b", "a"]
    assert found.rejected == ()


def test_reads_a_file_that_is_named(tmp_path: Path) -> None:
    """A file `_mine.py` is read if its path is given, though a search of its folder skips it."""
    assert discover([write(tmp_path / "_mine.py")]).submissions[0].name == "_mine"


def test_others_still_run(tmp_path: Path) -> None:
    """A file with a syntax error is reported and does not affect the other files of its folder."""
    write(tmp_path / "good.py")
    bad = write(tmp_path / "bad.py", "def")
    found = discover([tmp_path])
    assert [s.name for s in found.submissions] == ["good"]
    assert [r.path for r in found.rejected] == [bad]


def test_rejects_both_of_one_name(tmp_path: Path) -> None:
    """Two submissions with the same name are both rejected; each message has the other's path."""
    one, other = write(tmp_path / "a" / "k.py"), write(tmp_path / "b" / "k.py")
    found = discover([tmp_path])
    assert found.submissions == ()
    assert [r.path for r in found.rejected] == [one, other]
    assert str(other) in found.rejected[0].message
    assert str(one) in found.rejected[1].message


def test_same_file_twice_counts_once(tmp_path: Path) -> None:
    """A file that is given by its path, by its folder and by a link is one submission."""
    path = write(tmp_path / "k.py")
    (tmp_path / "link.py").symlink_to(path)
    assert len(discover([path, tmp_path, tmp_path / "." / "k.py"]).submissions) == 1


@pytest.mark.parametrize(
    ("name", "word"), [("gone.py", "exist"), ("empty", "no .py"), ("notes.txt", "not a Python")]
)
def test_says_what_is_wrong_with_a_path(tmp_path: Path, name: str, word: str) -> None:
    """A path that does not exist, is not a Python file, or is an empty folder is rejected."""
    (tmp_path / "empty").mkdir()
    write(tmp_path / "notes.txt")
    assert word in discover([tmp_path / name]).rejected[0].message


def test_order_does_not_depend_on_the_arguments(tmp_path: Path) -> None:
    """Discovery sorts the submissions, so the order of the given paths does not matter."""
    paths = [write(tmp_path / name) for name in ("b.py", "a.py", "c.py")]
    assert discover(paths) == discover(reversed(paths))
    assert [s.name for s in discover(paths).submissions] == ["a", "b", "c"]


def test_nothing_given_gives_nothing() -> None:
    """Discovery without paths returns no submissions and raises no error."""
    assert discover([]) == Discovery((), ())


def test_fits_when_all_that_matters_is_taken(tmp_path: Path, plain: Problem) -> None:
    """A submission may lack a parameter that has its neutral value in the reference (padding 0)."""
    assert fits(read(tmp_path, SIMPLE), plain) is None


def test_does_not_fit_without_dilation(tmp_path: Path, dilated: Problem) -> None:
    """A submission without a parameter `dilation` does not fit a reference with dilation 3."""
    reason = fits(read(tmp_path, SIMPLE), dilated)
    assert reason is not None
    assert "dilation=3" in reason


def test_any_keyword_fits(tmp_path: Path, dilated: Problem) -> None:
    """A submission whose constructor has **kwargs fits every reference."""
    assert fits(read(tmp_path, "class ModelNew:\n def __init__(self, **kw): pass"), dilated) is None


def test_does_not_fit_with_an_unknown_requirement(tmp_path: Path, plain: Problem) -> None:
    """A submission does not fit if it requires a parameter that the reference lacks.

    The message names the parameter.
    """
    text = "class ModelNew:\n def __init__(self, in_channels, out_channels, kernel): pass"
    reason = fits(read(tmp_path, text), plain)
    assert reason is not None
    assert reason.startswith("requires kernel,")


def test_does_not_fit_by_position_only(tmp_path: Path, plain: Problem) -> None:
    """A submission with a positional-only parameter does not fit; arguments are passed by name."""
    text = "class ModelNew:\n def __init__(self, in_channels, /, **kw): pass"
    reason = fits(read(tmp_path, text), plain)
    assert reason is not None
    assert "position" in reason


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        pytest.param("[2, 2, 3, 1]", 1, id="neutral, but not the default"),
        pytest.param("[2, 2, 3]", 2, id="the default, but not neutral"),
    ],
)
def test_a_value_that_a_submission_would_not_guess_must_be_taken(
    tmp_path: Path, arguments: str, value: int
) -> None:
    """A submission may lack a parameter only if the reference's value is neutral and a default.

    A dilation of 1, for example, is neutral. The value must also be the default of `Model`.
    """
    reference = write(
        tmp_path / "reference.py",
        f"""
from torch import nn, rand
class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=2):
        super().__init__()
        self.layer = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, dilation=dilation)
    def forward(self, x):
        return self.layer(x)
def get_inputs():
    return [rand(1, 2, 3)]
def get_init_inputs():
    return {arguments}
""",
    )
    reason = fits(read(tmp_path, SIMPLE), load(reference))
    assert reason is not None
    assert f"dilation={value}" in reason


def test_folder_too_deep_for_the_system_is_left_out(tmp_path: Path) -> None:
    """A folder whose nested path is too long for the system does not hide the files beside it."""
    (tmp_path / "right.py").write_text("class ModelNew:\n    pass\n")
    name = "d" * 200
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert [found.name for found in discover([tmp_path]).submissions] == ["right"]


def test_texts_made_to_take_for_ever_are_read(tmp_path: Path) -> None:
    """Files made to take exponential or quadratic time to parse are read quickly.

    One file has 2**60 paths through its base classes. The others have millions of line breaks or
    comment starts.
    """
    classes = [f"class C{n}(C{n + 1}, C{n + 1}): pass\n" for n in range(60)]
    text = f"{''.join(classes)}class C60: pass\nclass ModelNew(C0): pass\n"
    assert names(read(tmp_path, text)) == []
    for piece in ("\n", "/* ", "# "):
        assert numbers_in(piece * (1 << 22)) == ()
    assert not begins("\n" * (1 << 22))


def test_text_that_no_one_writes_is_not_read(tmp_path: Path) -> None:
    """A file longer than 256 KiB is rejected without being parsed.

    Parsing an f-string of a megabyte takes minutes.
    """
    text = f'{SIMPLE}\nx = f"{"{1}" * (1 << 17)}"\n'
    assert rejection(tmp_path, text) == "is longer than 256 KiB, and is not read"


def test_of_many_files_of_one_name_some_are_named(tmp_path: Path) -> None:
    """The message for a submission whose name five others have names at most three paths.

    Otherwise, each of a thousand files with one name would get a message of a thousand paths.
    """
    for number in range(6):
        write(tmp_path / str(number) / "one.py")
    messages = [rejected.message for rejected in discover([tmp_path]).rejected]
    assert len(messages) == 6
    for message in messages:
        assert message.count("one.py") == 3
        assert message.endswith(" and 2 more; rename one (one)")


def test_submission_is_for_the_reference_of_its_name(
    tmp_path: Path, plain: Problem, dilated: Problem
) -> None:
    """A submission that has the name of a reference is checked against that reference only."""
    every = (plain, dilated)
    text = "class ModelNew:\n def __init__(self, **kw): pass"
    named = replace(read(tmp_path, text), name=dilated.name)
    assert fits(named, dilated, every) is None
    assert "named like" in (fits(named, plain, every) or "")
    assert fits(named, plain, (plain,)) is None
