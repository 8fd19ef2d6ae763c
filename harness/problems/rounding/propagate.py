"""Trace a model into torch's core operators, and carry bounds of errors through them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from harness.problems.bounds import Arithmetic
from harness.problems.rounding import (  # noqa: F401 - they register their rules
    complex_numbers,
    elementwise,
    functions,
    normalising,
    pooling,
    products,
    reductions,
    structure,
)
from harness.problems.rounding.looking import WithoutLooking
from harness.problems.rounding.tracked import (
    NoRuleError,
    Rounding,
    Tracked,
    constant,
    has_rule,
    rule_of,
)

# All that is left of writing in place: it comes at the end, for what is given.
_WRITES = torch.ops.aten.copy_.default
# What asks for a layout that the reference's tensors have. Errors of them, and changed values, may
# be laid out otherwise.
_IN_ANY_LAYOUT: Mapping[Any, Any] = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}
# Integers, which torch would have calculated by roots.
_PLACES = (torch.ops.aten.tril_indices.default, torch.ops.aten.triu_indices.default)


def trace(function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> GraphModule:
    """Trace a function of tensors, without what it writes in place.

    Args:
        function: Of as many tensors.
        tensors: To call it with.

    Raises:
        NoRuleError: What it does depends on the numbers in them.
    """
    try:
        with torch.no_grad():
            graph = _functional(function, tensors)
            # Decompositions write in place as well: into views, and they lay tensors out otherwise.
            if any(map(_is_in_place, graph.graph.nodes)):
                graph = _functional(graph, tensors)
    except Exception as error:  # whatever torch says of what it cannot trace
        raise NoRuleError("what depends on the numbers in a tensor") from error
    for node in graph.graph.nodes:
        node.target = _IN_ANY_LAYOUT.get(node.target, node.target)
    return graph


def _functional(function: Callable[..., Any], tensors: Sequence[Tensor]) -> GraphModule:
    functional = torch.func.functionalize(lambda *given: function(*given))
    # make_fx notes what each result looks like, in a mode that it makes anew for each if none is
    # given to it.
    fake = FakeTensorMode(allow_fallback_kernels=True)
    with tracing(TracingContext(fake)), WithoutLooking():
        return make_fx(functional, decomposition_table=_table())(*tensors)


def _is_in_place(node: Node) -> bool:
    """Whether it writes to something other than what is given."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return False
    written = node.args[0]
    is_given = isinstance(written, Node) and written.op == "placeholder"
    return not (node.target is _WRITES and is_given)


def _table() -> Mapping[Any, Callable[..., Any]]:
    """Decompositions of all operators that have no rule here.

    One that writes its result over an operand has that of the one that does not: what it would be
    decomposed into loses more, such as a sigmoid by an exponential that overflows.
    """
    return {
        overload: decomposition
        for overload, decomposition in decomposition_table.items()
        if isinstance(overload, torch._ops.OpOverload)
        and not has_rule(overload)
        and overload not in _PLACES
    }


def propagate(graph: GraphModule, tensors: Sequence[Tensor], arithmetic: Arithmetic) -> Tracked:
    """Compute the output of a traced function, and how far from it rounding may lead.

    Args:
        graph: As `trace` gives it.
        tensors: What it is called with, floating-point numbers in float64.
        arithmetic: In which a right output may have been computed.

    Raises:
        NoRuleError: It calls an operator that has no rule.
    """
    rounding = Rounding(arithmetic)
    given = iter(tensors)
    known: dict[Node, Any] = {}
    last = _last_uses(graph)
    with torch.no_grad():
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                known[node] = rounding.given(next(given))
            elif node.op == "get_attr":
                known[node] = _constant(rounding, getattr(graph, str(node.target)))
            elif node.op == "output":
                (result,) = tree_leaves(_known(node.args[0], known), is_leaf=_is_tracked)
                assert isinstance(result, Tracked)  # noqa: S101 - for the type checker
                return result
            elif node.target is _WRITES:
                target, source = node.args[0], node.args[1]
                known[node] = _written(rounding, known, target, source)
                known[target] = known[node]
            else:
                known[node] = _call(rounding, node, known)
            for done in last.get(node, ()):
                known.pop(done, None)
    raise AssertionError("a graph has an output")


def _is_tracked(value: object) -> bool:
    return isinstance(value, Tracked)


def _known(values: Any, known: Mapping[Node, Any]) -> Any:
    return torch.fx.node.map_arg(values, lambda node: known[node])


def _call(rounding: Rounding, node: Node, known: Mapping[Node, Any]) -> Any:
    args = _known(node.args, known)
    kwargs = _known(node.kwargs, known)
    if node.target is operator.getitem:
        return args[0][args[1]]
    leaves = tree_leaves((args, kwargs), is_leaf=_is_tracked)
    if not any(map(_is_tracked, leaves)):
        made = node.target(*args, **kwargs)  # type: ignore[operator]
        return tree_map(lambda value: _constant(rounding, value), made)
    applied = rule_of(node.target, leaves)
    if applied is None:
        raise NoRuleError(_name(node))
    try:
        return applied(rounding, node.target, *args, **kwargs)
    except (NoRuleError, torch.OutOfMemoryError):
        raise
    except (TypeError, RuntimeError) as error:
        # An overload with arguments that the rule does not know, or a layout that it cannot give.
        raise NoRuleError(_name(node)) from error


def _written(rounding: Rounding, known: Mapping[Node, Any], target: Any, source: Any) -> Tracked:
    whole = structure.replaced(rounding, _WRITES, known[target], known[source])
    assert isinstance(whole, Tracked)  # noqa: S101 - for the type checker
    return whole


def _name(node: Node) -> str:
    """An operator's name without namespace and overload."""
    return str(node.target).split(".")[1]


def _constant(rounding: Rounding, value: object) -> object:
    """In float64, though it was made in float32: what is computed from it is to be exact.

    What was made in float64, of the kind that the inputs have, is float32 where they are.
    """
    if not isinstance(value, Tensor):
        return value
    made = constant(value)
    given = rounding.given(made.value)
    return given if made.error is None else Tracked(made.value, given.bound + made.error)


def _last_uses(graph: GraphModule) -> dict[Node, list[Node]]:
    """What is needed no more after each node."""
    last: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        for used in node.all_input_nodes:
            last[used] = node
    uses: dict[Node, list[Node]] = {}
    for used, node in last.items():
        uses.setdefault(node, []).append(used)
    return uses
