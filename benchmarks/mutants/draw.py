"""Random mutants of a submission: an edit of its CUDA C++ or of its `ModelNew`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import tree_sitter_cuda
import tree_sitter_python
from tree_sitter import Language, Node, Parser

from mutants import cuda, python
from mutants.mutant import Edit, Kind, Mutant, Part, changed, text_of

_LANGUAGES: Mapping[str, Language] = {
    "cuda": Language(tree_sitter_cuda.language()),
    "python": Language(tree_sitter_python.language()),
}
_SKIPPED = ("ERROR", "comment", "static_assert_declaration", "preproc_def", "launch_bounds")


def drawn(path: Path, count: int, seed: int) -> tuple[Mutant, ...]:
    """Draw different mutants of a submission; each kind of mistake is equally likely.

    A uniform draw would favour kinds with many possible edits: nearly every mutant would change a
    constant or an operand.

    Args:
        path: The submission's file.
        count: Number of mutants; fewer are returned if there are no more.
        seed: Seed of the draw. It is combined with the submission's name, so that the draw does not
            depend on other submissions.
    """
    chance = random.Random(f"{seed}/{path.stem}")  # noqa: S311 - no secret
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in every(path):
        by_kind.setdefault(mutant.kind, []).append(mutant)
    chosen: list[Mutant] = []
    while by_kind and len(chosen) < count:
        kind = chance.choice(sorted(by_kind))
        mutant = by_kind[kind].pop(chance.randrange(len(by_kind[kind])))
        if not by_kind[kind]:
            del by_kind[kind]
        if mutant.edit not in {other.edit for other in chosen}:
            chosen.append(replace(mutant, id=f"{path.stem}-{len(chosen) + 1}"))
    return tuple(chosen)


def every(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a submission: one for each edit of each kind of mistake."""
    content = path.read_bytes()
    tree = Parser(_LANGUAGES["python"]).parse(content)
    for node in _walk(tree.root_node):
        if node.type == "class_definition" and b"ModelNew" in (node.text or b"").split(b":")[0]:
            for inner in _walk(node):
                yield from _of_node(content, inner, 0, python.KINDS, "python")
        if node.type == "string_content" and _is_cuda(node):
            yield from _of_source(content, node)


def _is_cuda(node: Node) -> bool:
    """Return whether the node is a string of CUDA C++ whose literal has no escape sequences.

    Without escape sequences, an offset in the string is also an offset in the file.
    """
    literal = node.parent
    is_raw = literal is not None and text_of(literal).lower().startswith("r")
    text = text_of(node)
    return "#include" in text and (is_raw or "\\" not in text)


def _of_source(content: bytes, literal: Node) -> Iterator[Mutant]:
    tree = Parser(_LANGUAGES["cuda"]).parse(literal.text or b"")
    for node in _walk(tree.root_node):
        yield from _of_node(content, node, literal.start_byte, cuda.KINDS, _part(node))


def _part(node: Node) -> Part:
    around: Node | None = node
    while around:
        if around.type == "function_definition":
            words = {child.type for child in around.children}
            return "device" if words & {"__global__", "__device__"} else "host"
        around = around.parent
    return "device"


def _of_node(
    content: bytes, node: Node, offset: int, kinds: Mapping[str, Kind], part: Part
) -> Iterator[Mutant]:
    for name, kind in kinds.items():
        for edit in kind(node):
            moved = Edit(edit.start + offset, edit.end + offset, edit.text)
            now = changed(content, moved)
            if now != content:
                line = content.count(b"\n", 0, moved.start) + 1
                before, after = (
                    text.splitlines()[line - 1].decode().strip() for text in (content, now)
                )
                yield Mutant("", name, part, line, moved, before, after)


def _walk(node: Node) -> Iterator[Node]:
    if node.type in _SKIPPED:
        return
    yield node
    for child in node.children:
        yield from _walk(child)
