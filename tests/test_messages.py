"""docs/verdicts.md explains every message that a user can meet; the tests only read sources.

A message is a text of at least four words in a module of the harness. Its pattern stands in the
first column of a table of docs/verdicts.md, with `...` or a word in capitals for each variable
part.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support import ROOT

PAGE = ROOT / "docs" / "verdicts.md"
PACKAGE = ROOT / "harness"

INSIDE_OTHERS = (
    # "the worker sent an invalid message (...)" holds what these say.
    "device/calls.py",
    "device/operators.py",
    "device/streams.py",
    "device/tensors.py",
    "device/values.py",
    "messages/channel.py",
    "worker/build_service.py",
    "worker/steps.py",
    # A diagnosis, or the pattern of the failing cases, holds what these say.
    "judging/other_calls.py",
    "judging/pattern.py",
    "judging/resemblance.py",
    # "not run: in a sample of blocks, ..." holds what this says.
    "judging/sample.py",
    "problems/families/conv_transpose1d/__init__.py",
    "problems/families/conv_transpose1d/computation.py",
    "problems/families/conv_transpose1d/lengths.py",
    # "... is not ... of schema ..." holds what this says.
    "system/codec.py",
    # "does not support running a few blocks of a kernel only: ..." holds what this says.
    "simulator/execution/launch.py",
)
"""Modules whose texts are parts of messages that others make."""

NO_MESSAGES = (
    # Commands, headers and generated code.
    "compiler/flags.py",
    "compiler/job.py",
    "compiler/ninja.py",
    "compiler/prelude.py",
    "sandbox/view.py",
    "simulator/execution/codegen.py",
    "simulator/layout/",
    "worker/start.py",
    "worker/inside/simulated.py",
    # Headings and labels of tables and pages.
    "cli/ranking.py",
    "leaderboard/",
    "profile/tables.py",
    "report_page/",
    # Errors of the harness's own code, which no user's input raises.
    "__init__.py",
    "gpu/arena.py",
    "problems/families/__init__.py",
    "simulator/execution/multicore.py",
    "simulator/ptx/",
    "worker/baseline_worker.py",
)
"""Modules whose texts no user meets as messages."""

OF_TORCH = {"Torch not compiled with CUDA enabled", "Cannot access accelerator device"}
"""What torch says, for which the harness has words of its own."""

_WORD = re.compile(r"(?<!\S)[('\"]?[A-Za-z][A-Za-z0-9'-]*(?=[\s,;:.)'\"]|$)")
_VARIABLE = re.compile(r"\.\.\.|\b[A-Z][A-Z0-9_]*\b")
_PLACEHOLDER = re.compile(r"%[sd]|\{(?:[^{}]|\{[^{}]*\})*\}")
_FEWEST_WORDS = 4
_ALTERNATIVES = re.compile(r"\w\|\w")
_ENOUGH_TRIGRAMS = 3
_NAME = re.compile(r'\b(?:Mistake|Diagnosis|_Guess|MistakenOutput)\(\s*"([^"{]+)"')
_SOURCES = ("*.c", "*.cpp", "*.h")
_MOST_WORDS_OF_A_SENTENCE = 25

_DOCSTRING_OR_COMMENT = re.compile(r'r?""".*?"""|^\s*#[^\n]*', re.DOTALL | re.MULTILINE)
_NEXT_LINE = re.compile(r'"\s*\n\s*f?"')
_TEXT = re.compile(
    r"""(?P<other>(?:\b(?:help|meaning|description)=|\bAssertionError\(|"harness[\w-]*",)\(?\s*)?
    (?P<raw>r?)f?"(?P<text>(?:[^"\\\n]|\\.)*)\"""",
    re.VERBOSE,
)
"""A text in quotes; after `other` it is a help or a heading, after `raw` a regular expression."""


@cache
def sources() -> dict[str, str]:
    """Return the text of each module of the harness without comments, by its path in harness/.

    A literal text that spans several lines is joined to one line.
    """
    return {
        path.relative_to(PACKAGE).as_posix(): _NEXT_LINE.sub(
            "", _DOCSTRING_OR_COMMENT.sub("", path.read_text())
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def messages() -> dict[str, tuple[str, ...]]:
    """Return the literal parts of each message, between its placeholders.

    The key is the message's file and text.
    """
    found = {}
    for name, source in sources().items():
        if name.startswith((*INSIDE_OTHERS, *NO_MESSAGES)):
            continue
        for text in _TEXT.finditer(source):
            plain = text["text"].replace(r"\"", '"').replace(r"\n", " ")
            parts = tuple(_PLACEHOLDER.split(plain.replace("{{", "").replace("}}", "")))
            is_other = text["other"] or text["raw"] or _ALTERNATIVES.search(plain)
            is_long = len(_WORD.findall(" ".join(parts))) >= _FEWEST_WORDS
            if is_long and not is_other and plain not in OF_TORCH:
                found[f"{name}: {plain}"] = parts
    return found


@cache
def rows() -> tuple[tuple[str, str], ...]:
    """Return pattern and explanation of each message in the tables of docs/verdicts.md."""
    found = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `"):
            pattern, explanation = re.split(r"(?<!\\)\|", line)[1:3]
            pattern = pattern.strip().strip("`").strip().replace(r"\|", "|")
            found.append((pattern, explanation.strip()))
    return tuple(found)


def stands_in(parts: tuple[str, ...], pattern: str) -> bool:
    """Return whether a pattern contains all the given parts of a message, in their order."""
    place = 0
    for part in parts:
        fixed = " ".join(part.split())
        if not re.search(r"\w", fixed):
            continue
        place = pattern.find(fixed, place)
        if place < 0:
            return False
        place += len(fixed)
    return True


def test_every_message_is_explained() -> None:
    """Each message of the harness matches a pattern in docs/verdicts.md."""
    # The advice of a diagnosis stands beside its name, and parts of a help on the other page.
    patterns = [each for row in rows() for each in (row[0], ": ".join(row))]
    patterns += (ROOT / "docs" / "commands.md").read_text().splitlines()
    missing = [
        place
        for place, parts in messages().items()
        if not any(
            longest in pattern and stands_in(parts, pattern)
            for longest in [max((" ".join(part.split()) for part in parts), key=len)]
            for pattern in patterns
        )
    ]
    assert not missing, "explain in docs/verdicts.md:\n" + "\n".join(missing)


def test_every_diagnosis_is_listed() -> None:
    """docs/verdicts.md lists the name of each mistake that a diagnosis can give."""
    listed = {pattern.partition(":")[0] for pattern, _ in rows()}
    named = {name for source in sources().values() for name in _NAME.findall(source)}
    assert "no divisibility test" in named
    assert not named - listed


def words_of(text: str) -> list[str]:
    """Return the words of a text, without punctuation."""
    return re.findall(r"[\w'/-]+", text)


def trigrams(text: str) -> list[str]:
    """Return each sequence of three successive words in a text that has no placeholders."""
    words = words_of(text)
    return [" ".join(each) for each in zip(words, words[1:], words[2:], strict=False)]


def test_no_row_is_of_an_older_text() -> None:
    """Each pattern in docs/verdicts.md shares three successive words with the sources.

    So the page does not explain a message that no longer exists.
    """
    known = [text["text"] for source in sources().values() for text in _TEXT.finditer(source)]
    known += [path.read_text() for kind in _SOURCES for path in PACKAGE.rglob(kind)]
    known += [(ROOT / "Makefile").read_text()]
    every = "\n".join(" ".join(words_of(text)) for text in known)
    stale = []
    for pattern, _ in rows():
        words = [each for part in _VARIABLE.split(pattern) for each in trigrams(part)]
        if len(words) >= _ENOUGH_TRIGRAMS and not any(each in every for each in words):
            stale.append(pattern)
    assert not stale


@pytest.mark.parametrize("name", ["verdicts.md", "commands.md"])
def test_sentences_are_short(name: str) -> None:
    """No sentence of docs/verdicts.md or docs/commands.md has more than 25 words."""
    long = []
    for line in (ROOT / "docs" / name).read_text().split("\n\n"):
        cells = line.splitlines() if line.startswith("|") else [" ".join(line.split())]
        for cell in cells:
            prose = cell.rstrip(" |").rpartition(" | ")[2] if cell.startswith("|") else cell
            plain = re.sub(r"`[^`]*`", "x", prose)
            long += [
                sentence
                for sentence in re.split(r"(?<=[.;:!?])\s", plain)
                if len(sentence.split()) > _MOST_WORDS_OF_A_SENTENCE
            ]
    assert not long
