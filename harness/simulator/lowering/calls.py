"""Lowering of calls to steps of a `Program`.

Device functions are inlined, or compiled once and called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.simulator.instructions.operation import Operation
from harness.simulator.lowering import library_calls
from harness.simulator.lowering.context import CLOCKS, SPECIAL_BITS, Context, Scope, SymbolAddress
from harness.simulator.lowering.inlining import (
    FrameLayout,
    arguments_layout,
    callee_of,
    frame_layout,
    function_addresses,
    least_frame_bytes,
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
_MOST_STACK_BYTES = 256 << 10
"""Most local memory of a thread, in bytes, for the frames of recursive functions.

These frames hold all registers of PTX, so they are larger than a GPU's.
"""


@dataclass(frozen=True)
class _Outlined:
    """A function that is called instead of inlined, before its code is lowered.

    Attributes:
        scope: The scope of the function.
        first: The first instruction of the function.
        layout: The layout of its frame.
        registers: Number of each register that the function saves, by name.
        saved: Size in bytes of each of these registers, by name.
    """

    scope: Scope
    first: Instruction
    layout: FrameLayout
    registers: Mapping[str, int]
    saved: Mapping[str, int]

    @property
    def function(self) -> Function:
        """The function."""
        return self.scope.function


@dataclass
class CallLowering:
    """Lowering of `call` instructions, and of the functions that are called instead of inlined.

    Attributes:
        context: Resolves names and operands at the current instruction.
        lower: Lowers the code of a function in its scope.
        stack_bytes: Size of a thread's stack on a GPU, in bytes (cudaLimitStackSize).
    """

    context: Context
    lower: Callable[[Scope], None]
    stack_bytes: int
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
        functions = context.module.functions
        outlined = [self._outlined(functions[name]) for name in sorted(context.graph.outlined)]
        frames = {each.function.name: each.layout.size for each in outlined}
        recursion = self._recursion_bytes(frames)
        room = min(recursion, _MOST_STACK_BYTES) + sum(frames.values())
        context.local_bytes = room
        context.listing.add(Jump(_KERNEL))
        # Functions that are not recursive do not test whether their frames fit.
        others = sum(size for name, size in frames.items() if name not in context.graph.recursive)
        for each in outlined:
            self._outlined_function(each, room - others if recursion > _MOST_STACK_BYTES else None)
        context.listing.mark(_KERNEL)
        context.listing.fill(context.frame_pointer, 0)
        if context.graph.recursive:
            context.listing.fill(self._stack_used, 0)

    def _recursion_bytes(self, frames: Mapping[str, int]) -> int:
        """Return the room for all frames of recursive functions that a GPU's stack can hold.

        Args:
            frames: Size of each function's frame here, in bytes, by the function's name.
        """
        functions = self.context.module.functions
        larger = (
            -(-frames[name] // least_frame_bytes(functions[name]))
            for name in self.context.graph.recursive
        )
        return self.stack_bytes * max(larger, default=0)

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

    def _outlined(self, function: Function) -> _Outlined:
        """Lay out the frame of a function that is not inlined."""
        context = self.context
        first = next(i for i in function.body if isinstance(i, Instruction))
        prefix = f"{function.name}:"
        scope = Scope(function, prefix, {}, f"{prefix}return:")
        outer, context.scope, context.current = context.scope, scope, first
        registers = self._kept_by(function)
        if function.name in context.graph.recursive:
            registers["link"] = self._link(function)
        context.scope = outer
        saved = {n: max(context.listing.bits[r] // 8, 1) for n, r in registers.items()}
        passed = self.passed(scope)
        own = [
            v for v in function.variables if v.space is not Space.SHARED and v.name not in passed
        ]
        scope.frame = layout = frame_layout(function, saved, own)
        scope.symbols |= {p.name: ("frame", p.offset) for p in function.parameters}
        scope.symbols |= {p.name: ("frame", layout.results + p.offset) for p in function.results}
        return _Outlined(scope, first, layout, registers, saved)

    def _outlined_function(self, outlined: _Outlined, room: int | None) -> None:
        """Add the code of a function that is not inlined.

        Args:
            outlined: The function and its frame.
            room: Bytes of local memory for the frames of recursive functions, if a recursion may
                need more; else None.
        """
        context, listing = self.context, self.context.listing
        scope, first, layout = outlined.scope, outlined.first, outlined.layout
        outer, context.scope, context.current = context.scope, scope, first
        link, returns = self._link(outlined.function), listing.number("return to", 32)
        listing.mark(f"{scope.prefix}entry:")
        if outlined.saved and room is not None:
            self._check_room(layout.size, room, first)
        for name, offset in layout.saved.items():
            self._spill(
                outlined.registers[name], outlined.saved[name], offset, first, is_store=True
            )
        listing.copy(returns, link)
        self.lower(scope)
        listing.mark(scope.returns_to)
        context.scope, context.current = scope, first
        listing.copy(link, returns)
        for name, offset in layout.saved.items():
            self._spill(
                outlined.registers[name], outlined.saved[name], offset, first, is_store=False
            )
        listing.add(Dispatch(returns, (), (), None, outlined.function.name))
        context.scope = outer

    def _link(self, function: Function) -> int:
        """Return the register with the place that a called function returns to."""
        return self.context.listing.number(f"{function.name}:link", 32)

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

    def _check_room(self, nbytes: int, room: int, first: Instruction) -> None:
        """Add steps that stop the kernel if a frame of `nbytes` bytes does not fit in `room`."""
        trap = Trap(self.context.place(first.location), "a recursion as deep as this", "depth")
        self._trap_above(self.context.frame_pointer, room - nbytes, trap)

    def _trap_above(self, register: int, limit: int, trap: Trap) -> None:
        """Add steps that execute `trap` in the threads whose register is above `limit`."""
        listing = self.context.listing
        fits = listing.number("stack fits", 1)
        operation = Operation(("u64", "u64"), ("pred",), np.less_equal)
        listing.add(Compute(operation, (register, Constant(Immediate(limit))), (fits,)))
        label = f"stack fits:{listing.next_label()}"
        listing.add(Branch(fits, False, label))
        listing.add(trap)
        listing.mark(label)

    @property
    def _stack_used(self) -> int:
        """The number of the register with the bytes that a GPU's stack holds at least."""
        return self.context.listing.number("stack used", 64)

    def _least_bytes(self, names: Iterable[str]) -> int:
        """Return the fewest bytes of a GPU's stack that a call of one of these functions needs.

        The result is 0 unless all of them are recursive. Without recursion, ptxas computes how much
        the kernel needs, and the driver makes the stack as large.
        """
        graph, functions = self.context.graph, self.context.module.functions
        return min(
            (least_frame_bytes(functions[n]) if n in graph.recursive else 0 for n in names),
            default=0,
        )

    def _push(self, nbytes: int, call: Instruction) -> None:
        """Add steps that count `nbytes` bytes of a GPU's stack, and trap if it has fewer."""
        self.context.add_to(self._stack_used, self._stack_used, nbytes)
        reason = (
            f"the recursion needs more than the stack's {self.stack_bytes} bytes; "
            "raise cudaLimitStackSize"
        )
        trap = Trap(self.context.place(call.location), reason, "stack")
        self._trap_above(self._stack_used, self.stack_bytes, trap)

    def _call_outlined(self, instruction: Instruction, callee: Function | Register) -> None:
        """Add the steps of a call of a function that is not inlined.

        The steps store the number of the return place, move the frame pointer, and jump. For a call
        through a pointer, the pointer's value selects one of the graph's `candidates`.
        """
        context, listing = self.context, self.context.listing
        is_known = isinstance(callee, Function)
        names = [callee.name] if is_known else context.graph.candidates(instruction)
        site = listing.next_label()
        label = f"returned:{site}"
        for name in names:
            self._sites.setdefault(name, []).append((site, label))
        listing.fill(listing.number("return to", 32), site)
        above = context.scope.frame.size if context.scope.frame else 0
        used = self._least_bytes(names)
        if used:
            self._push(used, instruction)
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
        if used:
            context.add_to(self._stack_used, self._stack_used, 2**64 - used)
