"""Kinds of mistakes in the Python code of a submission's class `ModelNew`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial

from tree_sitter import Node

from mutants.mutant import Edit, Kind, instead, swapped, text_of

_COMPARISONS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is not": "is",
    "is": "is not",
}
_ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "%": "//"}
_OTHERS = {"True": "False", "False": "True"}


def _comparison(node: Node) -> Iterator[Edit]:
    if node.type == "comparison_operator":
        for child in node.children:
            if text_of(child) in _COMPARISONS and not child.is_named:
                yield instead(child, _COMPARISONS[text_of(child)])


def _arithmetic(node: Node) -> Iterator[Edit]:
    sign = node.child_by_field_name("operator") if node.type == "binary_operator" else None
    if sign and text_of(sign) in _ARITHMETIC:
        yield instead(sign, _ARITHMETIC[text_of(sign)])


def _is_default(node: Node) -> bool:
    return node.parent is not None and "default" in node.parent.type


def _default(node: Node) -> Iterator[Edit]:
    if _is_default(node) and node.type in ("integer", "true", "false"):
        text = text_of(node)
        yield instead(node, _OTHERS.get(text) or str(int(text) + 1))


def _constant(node: Node, step: int) -> Iterator[Edit]:
    if node.type == "integer" and not _is_default(node):
        yield instead(node, str(int(text_of(node)) + step))


def _dropped_contiguous(node: Node) -> Iterator[Edit]:
    if node.type == "call" and text_of(node).endswith(".contiguous()"):
        yield instead(node, text_of(node).removesuffix(".contiguous()"))


def _swapped_arguments(node: Node) -> Iterator[Edit]:
    if node.type == "argument_list":
        plain = [a for a in node.named_children if a.type in ("attribute", "identifier", "call")]
        for first, second in itertools.pairwise(plain):
            if text_of(first) != text_of(second) and first.type == second.type:
                yield swapped(first, second)


def _dropped_keyword(node: Node) -> Iterator[Edit]:
    if node.type == "keyword_argument" and node.next_sibling:
        end = node.next_sibling.end_byte if text_of(node.next_sibling) == "," else node.end_byte
        yield Edit(node.start_byte, end, "")


def _dropped_statement(node: Node) -> Iterator[Edit]:
    if node.type == "expression_statement" and "super()" not in text_of(node):
        inside = node.named_children[0]
        if inside.type != "string":
            yield instead(node, "pass")


def _dropped_guard(node: Node) -> Iterator[Edit]:
    if node.type == "if_statement" and node.child_by_field_name("alternative") is None:
        yield instead(node, "pass")


def _negated(node: Node) -> Iterator[Edit]:
    condition = node.child_by_field_name("condition")
    if node.type == "if_statement" and condition:
        yield instead(condition, f"not ({text_of(condition)})")


def _another_attribute(node: Node) -> Iterator[Edit]:
    """Yield the edit that makes an assignment store the value of the next assignment.

    For example, `self.a = a; self.b = b` becomes `self.a = b; self.b = b`.
    """
    if node.type != "assignment":
        return
    target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
    statement = node.parent
    following = statement.next_named_sibling if statement else None
    other = following.named_children[0] if following and following.named_children else None
    right = other.child_by_field_name("right") if other and other.type == "assignment" else None
    if target and value and right and value.type == right.type == "identifier":
        yield instead(value, text_of(right))


KINDS: Mapping[str, Kind] = {
    "Python: another comparison": _comparison,
    "Python: another operator": _arithmetic,
    "Python: another default": _default,
    "Python: constant + 1": partial(_constant, step=1),
    "Python: constant - 1": partial(_constant, step=-1),
    "Python: dropped contiguous()": _dropped_contiguous,
    "Python: swapped arguments": _swapped_arguments,
    "Python: dropped keyword": _dropped_keyword,
    "Python: dropped statement": _dropped_statement,
    "Python: dropped if": _dropped_guard,
    "Python: condition negated": _negated,
    "Python: another argument stored": _another_attribute,
}
