"""Tracing of a model into torch's core operators, and propagation of error bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Event, Thread
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
    RoundingErrors,
    Tracked,
    constant,
    has_rule,
    rule_of,
)

# The only in-place operator that stays in a graph. It comes at the end, and writes to an argument.
_WRITES = torch.ops.aten.copy_.default
# Operators that need the layout of the reference's tensors, and what replaces them. Errors and
# changed values may lie in memory in another way.
_IN_ANY_LAYOUT: Mapping[Any, Any] = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}
# Operators that make integer indices. torch's decomposition computes them by square roots, so they
# are kept as they are.
_PLACES = (torch.ops.aten.tril_indices.default, torch.ops.aten.triu_indices.default)


def trace(function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> GraphModule:
    """Trace a function of tensors into a graph without in-place writes.

    Only in-place writes to the function's own arguments stay in the graph.

    Args:
        function: The function, which takes as many tensors as `tensors` has.
        tensors: The arguments of the traced call.

    Raises:
        NoRuleError: The function cannot be traced, since its operations depend on the numbers in a
            tensor.
    """
    try:
        with torch.no_grad():
            graph = _functional(function, tensors)
            # Decompositions are applied after functionalization, so their own writes into views
            # are left. What such a write stores would be lost.
            if any(map(_is_in_place, graph.graph.nodes)):
                graph = _functional(graph, tensors)
    except Exception as error:  # whatever torch says of what it cannot trace
        raise NoRuleError("shapes or branches that depend on the numbers in a tensor") from error
    for node in graph.graph.nodes:
        node.target = _IN_ANY_LAYOUT.get(node.target, node.target)
    return graph


def _functional(function: Callable[..., Any], tensors: Sequence[Tensor]) -> GraphModule:
    """Trace a function once; in-place operators are replaced by others that return new tensors."""
    _set_up_device_guard()
    functional = torch.func.functionalize(lambda *given: function(*given))
    # make_fx records the shape and dtype of each result in a fake mode. Without one given, it makes
    # a new mode for each result.
    fake = FakeTensorMode(allow_fallback_kernels=True)
    with tracing(TracingContext(fake)), WithoutLooking():
        return make_fx(functional, decomposition_table=_table())(*tensors)


@cache
def _set_up_device_guard() -> None:
    """Let torch set up what stands for a GPU that is missing, in a thread that does not end.

    A torch built for CUDA does so with the first fake tensor. Releases such as 2.11 keep it with
    the thread, so that the next fake tensor after the thread's end would crash the process.
    """
    if torch.version.cuda and not torch.cuda.is_available():
        is_set_up = Event()
        Thread(target=_stay, args=(is_set_up,), daemon=True).start()
        is_set_up.wait()


def _stay(is_set_up: Event) -> None:
    with FakeTensorMode():
        is_set_up.set()
        Event().wait()


def _is_in_place(node: Node) -> bool:
    """Return whether a node writes to a tensor other than an argument of the graph."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return False
    written = node.args[0]
    is_given = isinstance(written, Node) and written.op == "placeholder"
    return not (node.target is _WRITES and is_given)


def _table() -> Mapping[Any, Callable[..., Any]]:
    """Return torch's decompositions of all operators for which this package has no rule.

    An in-place operator is not decomposed if its out-of-place form has a rule. Rules are preferred
    because decompositions have wider bounds. For example, the decomposition of a sigmoid contains
    an exponential, which overflows.
    """
    return {
        overload: decomposition
        for overload, decomposition in decomposition_table.items()
        if isinstance(overload, torch._ops.OpOverload)
        and not has_rule(overload)
        and overload not in _PLACES
    }


def is_used(graph: GraphModule) -> list[bool]:
    """Return, for each argument of a traced function, whether the output depends on it."""
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    behind: dict[Node, set[Node]] = {node: {node} for node in given}
    for node in graph.graph.nodes:
        operands = (behind[each] for each in node.all_input_nodes)
        behind[node] = behind.get(node, set()).union(*operands)
        if node.target is _WRITES:
            # What reads the argument after the write reads what was written.
            behind[node.args[0]] |= behind[node]
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return [node in behind[output] for node in given]


def propagate(graph: GraphModule, tensors: Sequence[Tensor], arithmetic: Arithmetic) -> Tracked:
    """Compute the output of a traced function, and the bound of its rounding error.

    Args:
        graph: The graph that `trace` returned.
        tensors: The arguments of the call; floating-point numbers are float64.
        arithmetic: The arithmetic in which a correct output may have been computed.

    Raises:
        NoRuleError: The graph calls an operator that has no rule.
    """
    rounding = RoundingErrors(arithmetic)
    given = iter(tensors)
    known: dict[Node, Any] = {}
    # A tensor is dropped after its last use, so that a large graph fits into memory.
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
    """Replace each node in nested arguments by its result."""
    return torch.fx.node.map_arg(values, lambda node: known[node])


def _call(rounding: RoundingErrors, node: Node, known: Mapping[Node, Any]) -> Any:
    """Compute a node's result with its error bound, by the rule of the node's operator.

    Raises:
        NoRuleError: The operator has no rule for these arguments.
    """
    args = _known(node.args, known)
    kwargs = _known(node.kwargs, known)
    if node.target is operator.getitem:
        return args[0][args[1]]
    leaves = tree_leaves((args, kwargs), is_leaf=_is_tracked)
    # An operator without tensors makes a constant, for example `arange`.
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
        # The rule does not know an argument of this overload, or cannot give the layout.
        raise NoRuleError(_name(node)) from error


def _written(
    rounding: RoundingErrors, known: Mapping[Node, Any], target: Any, source: Any
) -> Tracked:
    """Return the argument `target` of the graph after `source` was written over it."""
    whole = structure.copy(rounding, _WRITES, known[target], known[source])
    assert isinstance(whole, Tracked)  # noqa: S101 - for the type checker
    return whole


def _name(node: Node) -> str:
    """Return an operator's name without namespace and overload."""
    return str(node.target).split(".")[1]


def _constant(rounding: RoundingErrors, value: object) -> object:
    """Return a constant of the graph with its errors, in float64.

    A constant that the graph makes in float32 is converted, so that later results are exact. A
    trace has float64 inputs, so the graph makes some constants in float64 that a kernel makes in
    float32. Such a constant gets the error of rounding to float32.
    """
    if not isinstance(value, Tensor):
        return value
    made = constant(value)
    given = rounding.given(made.value)
    return given if made.error is None else Tracked(made.value, given.bound + made.error)


def _last_uses(graph: GraphModule) -> dict[Node, list[Node]]:
    """Return, for each node, the nodes whose results no later node uses."""
    last: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        for used in node.all_input_nodes:
            last[used] = node
    uses: dict[Node, list[Node]] = {}
    for used, node in last.items():
        uses.setdefault(node, []).append(used)
    return uses
