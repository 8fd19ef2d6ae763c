"""Rules of the documentation's language that a program can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support import ROOT, harness

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
MOST_WORDS_A_SENTENCE = 25
# Words that make a reader wait for the subject, or that hide which kind of thing is documented.
FIRST_WORDS_TO_AVOID = {
    "as", "for", "in", "none", "of", "those", "what", "where", "whether", "which", "who", "whoever",
}  # fmt: skip

# Where a sentence ends.
_END = re.compile(r"(?<=[.!?])[)\"]*\s+")
_MARKDOWN = MarkdownIt().enable("table")


def parts(page: Path, within: set[str]) -> Iterator[Token]:
    """Yield the inline tokens of a Markdown page that lie directly in blocks of the given kinds."""
    tokens = _MARKDOWN.parse(page.read_text())
    for before, token in pairwise(tokens):
        if token.type == "inline" and before.type in within:
            yield token


def words_of(token: Token) -> str:
    """Return the text of an inline token, with code as one word and without pictures."""
    shown = {"softbreak": " ", "code_inline": "code"}
    children = token.children or ()
    return "".join(t.content if t.type == "text" else shown.get(t.type, "") for t in children)


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page's paragraphs and list items."""
    for token in parts(page, {"paragraph_open"}):
        yield from _END.split(words_of(token))


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and pictures."""
    for token in parts(page, {"paragraph_open", "heading_open", "td_open", "th_open"}):
        for each in token.children or ():
            target = each.attrGet("href") or each.attrGet("src")
            if target:
                yield str(target)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = (token.content.lower() for token in parts(page, {"heading_open"}))
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in headings}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring of a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    """A sentence of README and docs has at most 25 words."""
    long = [s for s in sentences(page) if len(s.split()) > MOST_WORDS_A_SENTENCE]
    assert not long, "\n".join(f"{len(s.split())}: {s}" for s in long)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link between pages names a file that exists, and a heading that exists in the file."""
    dead = []
    for target in links(page):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert not dead


def test_readme_is_a_page() -> None:
    """The README has at most 120 lines and 900 words."""
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 900


@pytest.mark.thorough
def test_readme_shows_a_real_verdict(tmp_path: Path) -> None:
    """The README's first command prints the output that the README shows."""
    shown = README.read_text().partition("$ harness ")[2].partition("```")[0]
    command, _, output = shown.partition("\n")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    printed = harness(*command.split(), folder=tmp_path).out.splitlines()
    # Lines of progress depend on the machine's speed.
    assert [line for line in printed if not line.startswith("... ")] == output.splitlines()


def test_every_page_is_on_the_map() -> None:
    """docs/index.md has a link to every page of docs/."""
    index = ROOT / "docs" / "index.md"
    linked = set(links(index))
    assert {page.name for page in index.parent.glob("*.md")} - {index.name} <= linked


def test_docstrings_begin_with_their_subject_or_verb() -> None:
    """No docstring in harness/ begins with a word such as `whether`, which delays the subject."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "harness").rglob("*.py"))
        for line, text in docstrings(path)
        if text.split()[0].strip(",.").lower() in FIRST_WORDS_TO_AVOID
    ]
    assert not found, "\n".join(found)
