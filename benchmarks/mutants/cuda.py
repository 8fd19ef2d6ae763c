"""Kinds of mistakes in CUDA C++.

`KINDS` maps the name of each kind of mistake to a function. The function takes one node of a syntax
tree, and yields the edits that make the mistake at this node. Most kinds are the usual mutation
operators (comparison, arithmetic, constants, dropped statements). Others are specific to CUDA, such
as a dropped barrier or fence, `blockIdx.y` for `blockIdx.x`, `threadIdx` for `blockIdx`, and 32-bit
indices.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import partial

from tree_sitter import Node

from mutants.mutant import Edit, Kind, instead, swapped, text_of

_WAITS = re.compile(r"sync|wait|fence|barrier|arrive|commit|settle|publish")
_LEAVES = ("return_statement", "break_statement", "continue_statement")
_INTEGER = re.compile(r"(0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"(\d+\.\d*)(f?)$")


def _operator(
    node: Node, others: Mapping[str, str], type_: str = "binary_expression"
) -> Iterator[Edit]:
    sign = node.child_by_field_name("operator")
    if node.type == type_ and sign and text_of(sign) in others:
        yield instead(sign, others[text_of(sign)])


def _signs(pairs: str) -> Mapping[str, str]:
    words = pairs.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _integer(node: Node) -> int | None:
    """Return the value of an integer literal, or None if the node is not one."""
    is_integer = node.type == "number_literal" and _INTEGER.match(text_of(node))
    return int(text_of(node), 0) if is_integer else None


def _constant(node: Node, step: int) -> Iterator[Edit]:
    value = _integer(node)
    if value is not None and value + step >= 0:
        yield instead(node, str(value + step))


def _constant_zero(node: Node) -> Iterator[Edit]:
    value = _integer(node)
    if value is not None and value > 1:
        yield instead(node, "0")


def _constant_half(node: Node) -> Iterator[Edit]:
    value = _integer(node)
    if value is not None and value > 3:
        yield instead(node, str(value // 2))


def _float_constant(node: Node) -> Iterator[Edit]:
    found = _FLOAT.match(text_of(node)) if node.type == "number_literal" else None
    if found:
        yield instead(node, f"{float(found[1]) + 1}{found[2]}")


def _dropped_statement(node: Node) -> Iterator[Edit]:
    if node.type == "expression_statement":
        text = text_of(node)
        if not _is_wait(node) and "CHECK" not in text:
            yield instead(node, ";")


def _is_wait(node: Node) -> bool:
    inside = node.named_children[0] if node.named_children else node
    if inside.type == "call_expression":
        function = inside.child_by_field_name("function")
        return bool(function and _WAITS.search(text_of(function)))
    return inside.type == "gnu_asm_expression"


def _dropped_wait(node: Node) -> Iterator[Edit]:
    if node.type == "expression_statement" and _is_wait(node):
        yield instead(node, ";")


def _dropped_check(node: Node) -> Iterator[Edit]:
    if node.type == "expression_statement" and text_of(node).startswith("TORCH_CHECK"):
        yield instead(node, ";")


def _dropped_guard(node: Node) -> Iterator[Edit]:
    if node.type == "if_statement" and node.child_by_field_name("alternative") is None:
        body = node.child_by_field_name("consequence")
        inner = body.named_children if body and body.type == "compound_statement" else [body]
        if inner and inner[-1] and inner[-1].type in _LEAVES:
            yield instead(node, ";")


def _condition(node: Node, value: str) -> Iterator[Edit]:
    if node.type in ("if_statement", "conditional_expression"):
        condition = node.child_by_field_name("condition")
        if condition:
            yield instead(condition, f"({value})")


def _negated(node: Node) -> Iterator[Edit]:
    if node.type in ("if_statement", "conditional_expression"):
        condition = node.child_by_field_name("condition")
        if condition:
            yield instead(
                condition, f"(!({text_of(condition).removeprefix('(').removesuffix(')')}))"
            )


def _one_side(node: Node) -> Iterator[Edit]:
    """Yield edits that replace a condition `a && b` or `a || b` by `a`, or by `b`."""
    sign = node.child_by_field_name("operator")
    if node.type == "binary_expression" and sign and text_of(sign) in ("&&", "||"):
        for side in ("left", "right"):
            kept = node.child_by_field_name(side)
            if kept:
                yield instead(node, text_of(kept))


def _one_operand(node: Node) -> Iterator[Edit]:
    """Yield the edit that replaces `a + b`, `a - b`, `a * b` or `a % b` by `a`."""
    sign, kept = node.child_by_field_name("operator"), node.child_by_field_name("left")
    if node.type == "binary_expression" and sign and kept and text_of(sign) in ("+", "-", "*", "%"):
        yield instead(node, text_of(kept))


def _swapped_operands(node: Node) -> Iterator[Edit]:
    sign = node.child_by_field_name("operator")
    if node.type == "binary_expression" and sign and text_of(sign) in ("-", "/", "%"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left and right:
            yield swapped(left, right)


def _swapped_arguments(node: Node) -> Iterator[Edit]:
    if node.type != "argument_list" or node.parent is None or "CHECK" in text_of(node.parent):
        return
    arguments = [a for a in node.named_children if a.type != "comment"]
    for first, second in itertools.pairwise(arguments):
        if _shape(first) == _shape(second) and text_of(first) != text_of(second):
            yield swapped(first, second)


def _shape(node: Node) -> str:
    """Return an argument's text with its last name replaced by `_`, such as `x._` for `x.size`.

    Two arguments for which this text is equal mostly have the same type.
    """
    return re.sub(r"\w+(?=$|\)$)", "_", text_of(node)) if node.type != "string_literal" else "'"


def _another_variable(node: Node) -> Iterator[Edit]:
    """Yield the edit that replaces a use of a function's parameter by another of the same type.

    The other parameter is the next one of this type in the parameter list.
    """
    if node.type != "identifier" or (node.parent and "declarator" in node.parent.type):
        return
    for same in _parameters_by_type(node).values():
        if text_of(node) in same and len(same) > 1:
            yield instead(node, same[(same.index(text_of(node)) + 1) % len(same)])


def _parameters_by_type(node: Node) -> Mapping[str, list[str]]:
    function: Node | None = node
    while function and function.type != "function_definition":
        function = function.parent
    declarator = function.child_by_field_name("declarator") if function else None
    parameters = declarator.child_by_field_name("parameters") if declarator else None
    if parameters is None or (parameters.start_byte <= node.start_byte < parameters.end_byte):
        return {}
    found: dict[str, list[str]] = {}
    for each in parameters.named_children:
        name = re.search(r"(\w+)$", text_of(each))
        if name:
            found.setdefault(text_of(each)[: name.start()], []).append(name[1])
    return found


def _assignment(node: Node) -> Iterator[Edit]:
    yield from _operator(node, {"+=": "=", "-=": "=", "*=": "="}, "assignment_expression")


def _other_assignment(node: Node) -> Iterator[Edit]:
    yield from _operator(node, {"+=": "-=", "-=": "+=", "=": "+="}, "assignment_expression")


def _step(node: Node) -> Iterator[Edit]:
    if node.type == "update_expression" and node.parent and node.parent.type == "for_statement":
        name = node.child_by_field_name("argument")
        if name:
            yield instead(node, f"{text_of(name)} += 2")


def _loop_exit(node: Node) -> Iterator[Edit]:
    if node.type == "break_statement":
        yield instead(node, "continue;")
    if node.type == "continue_statement":
        yield instead(node, "break;")


def _narrowed(node: Node) -> Iterator[Edit]:
    if node.type in ("primitive_type", "type_identifier") and text_of(node) in (
        "int64_t",
        "uint64_t",
    ):
        yield instead(node, "int")


def _dropped_cast(node: Node) -> Iterator[Edit]:
    value = node.child_by_field_name("value") if node.type == "cast_expression" else None
    if value:
        yield instead(node, text_of(value))


def _dropped_contiguous(node: Node) -> Iterator[Edit]:
    text = text_of(node)
    if node.type == "call_expression" and text.endswith(".contiguous()"):
        yield instead(node, text.removesuffix(".contiguous()"))
    if node.type == "call_expression" and text.endswith("->contiguous()"):
        yield instead(node, "*" + text.removesuffix("->contiguous()"))


def _uninitialised(node: Node) -> Iterator[Edit]:
    fixed = re.compile(r"const|^auto\b")  # neither compiles without a value
    if node.type == "init_declarator" and node.parent and not fixed.search(text_of(node.parent)):
        name = node.child_by_field_name("declarator")
        if (
            name
            and node.parent.type == "declaration"
            and not (node.parent.parent and node.parent.parent.type == "for_statement")
        ):
            yield instead(node, text_of(name))


def _axis(node: Node) -> Iterator[Edit]:
    names = {
        "blockIdx": "threadIdx",
        "threadIdx": "blockIdx",
        "blockDim": "gridDim",
        "gridDim": "blockDim",
    }
    if node.type == "field_expression":
        of = node.child_by_field_name("argument")
        if of and text_of(of) in names:
            yield instead(of, names[text_of(of)])


def _other_axis(node: Node) -> Iterator[Edit]:
    axes = {"x": "y", "y": "z", "z": "x"}
    field = node.child_by_field_name("field") if node.type == "field_expression" else None
    of = node.child_by_field_name("argument")
    if field and of and text_of(of) in ("blockIdx", "gridDim") and text_of(field) in axes:
        yield instead(field, axes[text_of(field)])


def _extremum(node: Node) -> Iterator[Edit]:
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    found = re.match(r"((?:std::)?)(min|max)\b", text_of(function)) if function else None
    if function and found:
        other = {"min": "max", "max": "min"}[found[2]]
        yield instead(function, found[1] + other + text_of(function)[found.end() :])


def _swapped_branches(node: Node) -> Iterator[Edit]:
    if node.type == "conditional_expression":
        first, second = (node.child_by_field_name(n) for n in ("consequence", "alternative"))
        if first and second:
            yield swapped(first, second)


def _dropped_subtraction_of_one(node: Node) -> Iterator[Edit]:
    """Yield the edit that drops the right operand of an expression if it is 1.

    An example is the `- 1` of `(n + size - 1) / size`.
    """
    right = node.child_by_field_name("right")
    left = node.child_by_field_name("left")
    if node.type == "binary_expression" and left and right and text_of(right) == "1":
        yield instead(node, text_of(left))


KINDS: Mapping[str, Kind] = {
    "edge of a comparison": partial(_operator, others=_signs("< <= <= < > >= >= > == >= != >")),
    "comparison the other way": partial(
        _operator, others=_signs("< > <= >= > < >= <= == != != ==")
    ),
    "+ for -, - for +": partial(_operator, others=_signs("+ - - +")),
    "* for /, / for *": partial(_operator, others=_signs("* / / *")),
    "% for /, / for %": partial(_operator, others=_signs("% / / %")),
    "&& for ||, || for &&": partial(_operator, others=_signs("&& || || &&")),
    "another bit operator": partial(_operator, others=_signs("<< >> >> << & | | & ^ &")),
    "constant + 1": partial(_constant, step=1),
    "constant - 1": partial(_constant, step=-1),
    "constant 0": _constant_zero,
    "half the constant": _constant_half,
    "another float constant": _float_constant,
    "dropped - 1 or + 1": _dropped_subtraction_of_one,
    "dropped statement": _dropped_statement,
    "dropped wait or fence": _dropped_wait,
    "dropped TORCH_CHECK": _dropped_check,
    "dropped guard": _dropped_guard,
    "condition always true": partial(_condition, value="true"),
    "condition always false": partial(_condition, value="false"),
    "condition negated": _negated,
    "half a condition": _one_side,
    "dropped operand": _one_operand,
    "swapped operands": _swapped_operands,
    "swapped arguments": _swapped_arguments,
    "another parameter of its type": _another_variable,
    "= for +=": _assignment,
    "another assignment": _other_assignment,
    "loop by twos": _step,
    "break for continue": _loop_exit,
    "int for int64_t": _narrowed,
    "dropped cast": _dropped_cast,
    "dropped contiguous()": _dropped_contiguous,
    "uninitialised variable": _uninitialised,
    "threadIdx for blockIdx, gridDim for blockDim": _axis,
    "another axis": _other_axis,
    "max for min, min for max": _extremum,
    "swapped branches": _swapped_branches,
}
