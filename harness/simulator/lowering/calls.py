"""Lowering of calls to steps of a `Program`.

Device functions are inlined, or compiled once and called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.simulator.instructions.operation import Operation
from harness.simulator.lowering import library_calls
from harness.simulator.lowering.context import CLOCKS, SPECIAL_BITS, Context, Scope, SymbolAddress
from harness.simulator.lowering.inlining import (
    STACK_BYTES,
    arguments_layout,
    callee_of,
    frame_layout,
    function_addresses,
    register_names,
)
from harness.simulator.lowering.program import (
    Access,
    Branch,
    Compute,
    Constant,
    Dispatch,
    Jump,
    Trap,
)
from harness.simulator.ptx.ptx import Function, Group, Immediate, Instruction, Register, Symbol
from harness.simulator.ptx.space import Space

_KERNEL = "kernel:"


@dataclass
class Calls:
    """Lowering of `call` instructions, and of the functions that are called instead of inlined.

    Attributes:
        context: Resolves names and operands at the current instruction.
        lower: Lowers the code of a function in its scope.
    """

    context: Context
    lower: Callable[[Scope], None]
    _inlined: int = 0
    _sites: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Number and label of each place that an outlined function may return to, by its name."""

    def call(self, instruction: Instruction) -> None:
        """Lower a `call` of a device function, of `printf` or of `assert`."""
        context = self.context
        results, callee, arguments = callee_of(instruction)
        if isinstance(callee, Register):
            self._call_outlined(instruction, callee)
            return
        function = context.module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if function and function.name in context.graph.outlined:
            self._call_outlined(instruction, function)
        elif function and not function.is_defined and function.name in library_calls.NAMES:
            library_calls.call(context, instruction, function.name, results, arguments)
        elif function and function.is_defined:
            self._inline(instruction, function, results, arguments)
        else:
            raise context.unsupported()

    def _inline(
        self, instruction: Instruction, function: Function, results: Group, arguments: Group
    ) -> None:
        """Copy a function's code into its caller.

        A prefix makes the names of the copy's registers and labels unique. Local variables of the
        caller hold the arguments and results. A recursive function is never copied.
        """
        context = self.context
        callers = (*context.scope.callers, context.scope.function.name)
        if function.name in callers:
            raise context.unsupported()
        context.listing.add(None, 1)
        self._inlined += 1
        prefix = f"{self._inlined}:"
        symbols: dict[str, SymbolAddress] = {}
        pairs = (
            *zip(function.parameters, arguments.parts, strict=True),
            *zip(function.results, results.parts, strict=True),
        )
        for parameter, operand in pairs:
            place = context.symbol(operand.name) if isinstance(operand, Symbol) else None
            if place is None or place[0] is not Space.LOCAL:
                raise context.unsupported()
            symbols[parameter.name] = place
        end = f"{prefix}return:"
        self.lower(Scope(function, prefix, symbols, end, callers))
        context.listing.mark(end)
        context.current = instruction

    # Outlined functions

    def outlined_functions(self) -> None:
        """Add the code of the functions that are called instead of inlined.

        This code precedes the kernel's code, so its basic blocks have lower numbers. The scheduler
        runs blocks with low numbers first. Threads that skip a call therefore wait after the call
        for the threads that make it.
        """
        context = self.context
        context.local_bytes = STACK_BYTES
        context.listing.add(Jump(_KERNEL))
        for name in sorted(context.graph.outlined):
            self._outlined_function(context.module.functions[name])
        context.listing.mark(_KERNEL)
        context.listing.fill(context.frame_pointer, 0)

    def resolve_returns(self) -> None:
        """Set the labels that the return of each called function may jump to.

        All calls of these functions must have been lowered before.
        """
        items = self.context.listing.items
        for index, (item, count) in enumerate(items):
            if isinstance(item, Dispatch) and item.function:
                sites = self._sites.get(item.function, [])
                values, labels = tuple(s[0] for s in sites), tuple(s[1] for s in sites)
                items[index] = replace(item, values=values, targets=labels), count

    def passed(self, scope: Scope) -> Mapping[str, int]:
        """Return where a function stores the arguments and results of the calls that it makes.

        The result maps a variable's name to its offset in the callee's frame, in bytes. Calls of
        inlined functions are left out, because an inlined function has no frame.
        """
        variables = {v.name: v for v in scope.function.variables}
        places: dict[str, int] = {}
        for item in scope.function.body:
            if isinstance(item, Instruction) and item.opcode == "call":
                results, callee, arguments = callee_of(item)
                name = callee.name if isinstance(callee, Symbol | Register) else ""
                if isinstance(callee, Register) or name in self.context.graph.outlined:
                    places.update(
                        arguments_layout(
                            (variables[p.name] for p in arguments.parts if isinstance(p, Symbol)),
                            (variables[p.name] for p in results.parts if isinstance(p, Symbol)),
                        )
                    )
        return places

    def _outlined_function(self, function: Function) -> None:
        context, listing = self.context, self.context.listing
        prefix = f"{function.name}:"
        first = next(i for i in function.body if isinstance(i, Instruction))
        scope = Scope(function, prefix, {}, f"{prefix}return:")
        outer, context.scope, context.current = context.scope, scope, first
        link = listing.number(f"{prefix}link", 32)
        returns = listing.number("return to", 32)
        registers = self._kept_by(function)
        if function.name in context.graph.recursive:
            registers["link"] = link
        saved = {n: max(listing.bits[r] // 8, 1) for n, r in registers.items()}
        passed = self.passed(scope)
        own = [
            v for v in function.variables if v.space is not Space.SHARED and v.name not in passed
        ]
        scope.frame = layout = frame_layout(function, saved, own)
        scope.symbols |= {p.name: ("frame", p.offset) for p in function.parameters}
        scope.symbols |= {p.name: ("frame", layout.results + p.offset) for p in function.results}
        listing.mark(f"{prefix}entry:")
        if saved:
            self._check_stack(layout.size, first)
        for name, offset in layout.saved.items():
            self._spill(registers[name], saved[name], offset, first, is_store=True)
        listing.copy(returns, link)
        self.lower(scope)
        listing.mark(scope.returns_to)
        context.scope, context.current = scope, first
        listing.copy(link, returns)
        for name, offset in layout.saved.items():
            self._spill(registers[name], saved[name], offset, first, is_store=False)
        listing.add(Dispatch(returns, (), (), None, function.name))
        context.scope = outer

    def _kept_by(self, function: Function) -> dict[str, int]:
        """Return the registers that a recursive function must save on entry and restore on return.

        The result maps a register's name to its number. For a function that is not recursive, the
        result is empty.
        """
        if function.name not in self.context.graph.recursive:
            return {}
        own = register_names(function) - SPECIAL_BITS.keys() - CLOCKS.keys() - {"_"}
        return {name: self.context.register(Register(name)) for name in sorted(own)}

    def _spill(
        self, register: int, nbytes: int, offset: int, first: Instruction, *, is_store: bool
    ) -> None:
        """Add a step that saves a register of a recursive function in its frame, or restores it."""
        where = Space.LOCAL, f"b{nbytes * 8}", 1, self.context.frame_pointer, offset
        place = self.context.place(first.location)
        if is_store:
            step = Access(*where, first, place, (), (register,))
        else:
            step = Access(*where, first, place, (register,))
        self.context.listing.add(step)

    def _check_stack(self, nbytes: int, first: Instruction) -> None:
        """Add steps that trap if a frame of `nbytes` bytes does not fit on the call stack."""
        listing = self.context.listing
        fits = listing.number("stack fits", 1)
        limit = Constant(Immediate(STACK_BYTES - nbytes))
        operation = Operation(("u64", "u64"), ("pred",), np.less_equal)
        listing.add(Compute(operation, (self.context.frame_pointer, limit), (fits,)))
        label = f"stack fits:{listing.next_label()}"
        listing.add(Branch(fits, False, label))
        reason = f"the {STACK_BYTES} bytes of the call stack are used up"
        listing.add(Trap(self.context.place(first.location), reason))
        listing.mark(label)

    def _call_outlined(self, instruction: Instruction, callee: Function | Register) -> None:
        """Add the steps of a call of a function that is not inlined.

        The steps store the number of the return place, move the frame pointer, and jump. For a call
        through a pointer, the pointer's value selects one of the functions of `_candidates`.
        """
        context, listing = self.context, self.context.listing
        is_known = isinstance(callee, Function)
        names = [callee.name] if is_known else self._candidates(instruction)
        site = listing.next_label()
        label = f"returned:{site}"
        for name in names:
            self._sites.setdefault(name, []).append((site, label))
        listing.fill(listing.number("return to", 32), site)
        above = context.scope.frame.size if context.scope.frame else 0
        if above:
            context.move_frame(context.frame_pointer, above)
        if isinstance(callee, Function):
            listing.add(Jump(f"{callee.name}:entry:"), 1)
        else:
            addresses = function_addresses(context.module)
            targets = tuple(f"{n}:entry:" for n in names)
            values = tuple(addresses[n] for n in names)
            place = context.place(instruction.location)
            listing.add(Dispatch(context.register(callee), values, targets, place), 1)
        listing.mark(label)
        if above:
            context.move_frame(context.frame_pointer, 2**64 - above)

    def _candidates(self, instruction: Instruction) -> list[str]:
        """Return the names of the functions that a call through a pointer may call.

        They are the functions that are not inlined, whose address is used, and that have the call's
        numbers of parameters and results.
        """
        results, _, arguments = callee_of(instruction)
        graph, functions = self.context.graph, self.context.module.functions
        return [
            name
            for name in sorted(graph.taken & graph.outlined)
            if len(functions[name].parameters) == len(arguments.parts)
            and len(functions[name].results) == len(results.parts)
        ]
