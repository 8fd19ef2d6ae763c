"""Choice between inlining and calling device functions, and layout of called functions' frames.

Most functions are copied into the kernel at each call. The others are outlined, which means that
they are compiled once and called. Recursive functions and functions called through a pointer are
outlined, and so are all functions that an outlined function calls. The frame of an outlined
function begins at the frame pointer, and is laid out like this:

    parameters | results | registers of the previous activation | variables | the callee's frame
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.simulator.ptx.ptx import (
    Function,
    Group,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from harness.simulator.ptx.space import Space

FUNCTION_BASE = 7 << 56
"""Start of the addresses of functions, where no memory is."""
_FUNCTION_STEP = 16
_RETURN_ADDRESS_BYTES = 8


def function_addresses(module: Module) -> Mapping[str, int]:
    """Return the address of each device function: the value of `&function` in device code."""
    names = (n for n, f in module.functions.items() if f.is_defined and not f.is_kernel)
    return {name: FUNCTION_BASE + _FUNCTION_STEP * i for i, name in enumerate(names, 1)}


def callee_of(instruction: Instruction) -> tuple[Group, Operand, Group]:
    """Return the results, the called function and the arguments of a `call` instruction.

    The function is a symbol, or a register for a call through a pointer.
    """
    operands = list(instruction.operands)
    none = Group(())
    results = operands.pop(0) if isinstance(operands[0], Group) else none
    callee = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Group) else none
    if not isinstance(results, Group) or not isinstance(arguments, Group):
        return none, callee, none
    return results, callee, arguments


@dataclass(frozen=True)
class CallGraph:
    """The calls that one kernel of a PTX module makes, directly or through other functions."""

    module: Module
    kernel: str

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names of the functions whose address is used in another way than by a direct call."""
        names = {
            symbol.name
            for function in self.module.functions.values()
            for instruction in _instructions(function)
            if instruction.opcode != "call"
            for symbol in _symbols(instruction.operands)
        }
        for variable in self.module.variables.values():
            names |= {v.name for v in variable.values if isinstance(v, Symbol)}
        return frozenset(n for n in names if self._is_defined(n))

    @cached_property
    def outlined(self) -> frozenset[str]:
        """Names of the functions that are compiled once and called, and not inlined."""
        reachable = self._reachable(self.kernel)
        if not reachable:
            return frozenset()
        indirect = any(self._calls_indirectly(name) for name in (self.kernel, *reachable))
        roots = {n for n in reachable if n in self.recursive or (indirect and n in self.taken)}
        return frozenset(roots.union(*(self._reachable(n) for n in roots)))

    @cached_property
    def recursive(self) -> frozenset[str]:
        """Names of the functions that may be called again before they return."""
        return frozenset(n for n in self._reachable(self.kernel) if n in self._reachable(n))

    def candidates(self, call: Instruction) -> list[str]:
        """Return the names of the functions that a call through a pointer may call.

        They are the functions whose address is used, and that have the call's numbers of parameters
        and results.
        """
        results, _, arguments = callee_of(call)
        functions = self.module.functions
        return [
            name
            for name in sorted(self.taken)
            if len(functions[name].parameters) == len(arguments.parts)
            and len(functions[name].results) == len(results.parts)
        ]

    def _is_defined(self, name: str) -> bool:
        function = self.module.functions.get(name)
        return function is not None and function.is_defined and not function.is_kernel

    def _calls_indirectly(self, name: str) -> bool:
        return any(
            i.opcode == "call" and isinstance(callee_of(i)[1], Register)
            for i in _instructions(self.module.functions[name])
        )

    @cached_property
    def _known_callees(self) -> dict[str, set[str]]:
        return {}

    def _callees(self, name: str) -> set[str]:
        if name not in self._known_callees:
            self._known_callees[name] = self._find_callees(name)
        return self._known_callees[name]

    def _find_callees(self, name: str) -> set[str]:
        """Return the names of the functions that a function calls.

        A call through a pointer counts as a call of each of its `candidates`.
        """
        found: set[str] = set()
        for instruction in _instructions(self.module.functions[name]):
            if instruction.opcode == "call":
                callee = callee_of(instruction)[1]
                if isinstance(callee, Symbol) and self._is_defined(callee.name):
                    found.add(callee.name)
                elif isinstance(callee, Register):
                    found.update(self.candidates(instruction))
        return found

    def _reachable(self, name: str) -> set[str]:
        found: set[str] = set()
        rest = [name]
        while rest:
            new = self._callees(rest.pop()) - found
            found |= new
            rest += new
        return found


@dataclass(frozen=True)
class FrameLayout:
    """The layout of a function's frame on the call stack, in bytes from the frame pointer.

    Attributes:
        results: Offset of the results.
        saved: Offset of each register that a recursive function saves, by name.
        variables: Offset of each variable, by name.
        size: Size of the frame in bytes.
    """

    results: int
    saved: Mapping[str, int]
    variables: Mapping[str, int]
    size: int


def least_frame_bytes(function: Function) -> int:
    """Return the fewest bytes that a function's frame has on a GPU.

    The frame holds the function's local variables and the return address. ptxas decides how many
    registers it holds as well, so registers are not counted.
    """
    local = sum(v.size for v in function.variables if v.space is Space.LOCAL)
    return local + _RETURN_ADDRESS_BYTES


def arguments_layout(
    arguments: Iterable[Variable], results: Iterable[Variable]
) -> Mapping[str, int]:
    """Return the place of each argument and result of a call in the callee's frame.

    The result maps the name of the caller's variable to an offset in bytes.

    Args:
        arguments: The caller's variables that hold the arguments.
        results: The caller's variables that receive the results.
    """
    places: dict[str, int] = {}
    end = _lay_out(places, 0, ((v.name, v.size, v.align) for v in arguments))
    _lay_out(places, _aligned(end, 16), ((v.name, v.size, v.align) for v in results))
    return places


def frame_layout(
    function: Function, saved: Mapping[str, int], variables: Iterable[Variable]
) -> FrameLayout:
    """Return the layout of a function's frame.

    Args:
        function: The function.
        saved: Size in bytes of each register that the function saves, by name.
        variables: The variables of the function that are in its frame.
    """
    results = _aligned(function.parameter_bytes, 16)
    end = max((p.offset + p.size for p in function.results), default=0) + results
    registers: dict[str, int] = {}
    by_size = sorted(saved.items(), key=lambda item: -item[1])
    end = _lay_out(registers, _aligned(end, 8), ((n, size, size) for n, size in by_size))
    places: dict[str, int] = {}
    end = _lay_out(places, end, ((v.name, v.size, v.align) for v in variables))
    return FrameLayout(results, registers, places, _aligned(end, 16))


def register_names(function: Function) -> frozenset[str]:
    """Return the names of the registers that a function's instructions mention."""
    names: set[str] = set()
    for instruction in _instructions(function):
        if instruction.guard:
            names.add(instruction.guard.register.name)
        names.update(r.name for r in _leaves(instruction.operands) if isinstance(r, Register))
    return frozenset(names)


def _lay_out(places: dict[str, int], start: int, items: Iterable[tuple[str, int, int]]) -> int:
    for name, size, align in items:
        places[name] = start = _aligned(start, align)
        start += size
    return start


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _instructions(function: Function) -> Iterable[Instruction]:
    return (item for item in function.body if isinstance(item, Instruction))


def _leaves(operands: Iterable[object]) -> Iterable[object]:
    """Yield the registers and symbols in operands, including those in vectors and addresses."""
    for operand in operands:
        if isinstance(operand, Vector | Group):
            yield from _leaves(operand.parts)
        elif isinstance(operand, Register | Symbol) or operand is None:
            yield operand
        else:
            parts = (getattr(operand, n, None) for n in ("base", "register", "first", "second"))
            yield from (p for p in parts if isinstance(p, Register | Symbol))


def _symbols(operands: Iterable[object]) -> Iterable[Symbol]:
    return (leaf for leaf in _leaves(operands) if isinstance(leaf, Symbol))
