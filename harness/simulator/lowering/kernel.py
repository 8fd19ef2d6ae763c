"""Lowering of a PTX kernel, and of the device functions that it calls, to a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.simulator.instructions import warp
from harness.simulator.lowering import compute, flow, memory
from harness.simulator.lowering.blocks import basic_blocks
from harness.simulator.lowering.calls import CallLowering
from harness.simulator.lowering.context import SPECIAL_BITS, Context, Scope, SymbolAddress
from harness.simulator.lowering.inlining import CallGraph
from harness.simulator.lowering.program import Branch, Exit, Order, Program, Trap, Yield
from harness.simulator.ptx.ptx import Function, Instruction, Label, Module
from harness.simulator.ptx.space import Space

_NO_EFFECT = frozenset(
    {"prefetch", "prefetchu", "applypriority", "pmevent"} | {"setmaxnreg", "griddepcontrol"}
)


def prepare(
    module: Module,
    kernel: str,
    readable_name: str,
    addresses: Mapping[str, int],
    native: Callable[..., Callable[..., None]],
    stack_bytes: int,
) -> Program:
    """Lower a PTX kernel to a program that the simulator can run.

    Args:
        module: The PTX module.
        kernel: Mangled name of the kernel.
        readable_name: Name of the kernel for messages.
        addresses: Addresses of the module's variables in global memory.
        native: Function that takes the name of a C function of arithmetic.c, and returns that C
            function as a Python function on arrays.
        stack_bytes: Size of a thread's stack on a GPU, in bytes, which limits recursion.

    Raises:
        UnsupportedInstruction: The kernel has an instruction that is not implemented.
    """
    return _Lowering(module, kernel, readable_name, addresses, native, stack_bytes).program()


class _Lowering:
    """Lowering of one kernel; the opcode of an instruction selects the function that lowers it."""

    def __init__(
        self,
        module: Module,
        kernel: str,
        readable_name: str,
        addresses: Mapping[str, int],
        native: Callable[..., Callable[..., None]],
        stack_bytes: int,
    ) -> None:
        function = module.functions[kernel]
        scope = Scope(
            function, "", {p.name: (Space.PARAM, p.offset) for p in function.parameters}, ""
        )
        graph = CallGraph(module, kernel)
        self.kernel = scope
        self.context = Context(
            module, readable_name, addresses, native, _home(function), graph, scope
        )
        self.listing = self.context.listing
        self.calls = CallLowering(self.context, self.function, stack_bytes)

    def program(self) -> Program:
        context = self.context
        flow.refuse_clusters(self.kernel.function, context.name)
        shared = [v for v in context.module.variables.values() if v.space is Space.SHARED]
        for variable in shared:
            if not variable.is_extern:
                context.place_shared(variable.name, variable)
        if context.graph.outlined:
            self.calls.outlined_functions()
        self.function(self.kernel)
        self.listing.add(Exit())
        self.calls.resolve_returns()
        align = max(16, *(v.align for v in shared), 16)
        return Program(
            context.name,
            basic_blocks(self.listing),
            tuple(self.listing.bits),
            {n: i for n, i in self.listing.numbers.items() if n in SPECIAL_BITS},
            context.shared_bytes,
            -(-context.shared_bytes // align) * align,
            context.local_bytes,
            self.kernel.function.parameter_bytes,
            bool(context.graph.recursive),
        )

    def function(self, scope: Scope) -> None:
        """Lower all instructions of one function: the kernel, or a function that it calls."""
        outer, self.context.scope = self.context.scope, scope
        self._place_variables(scope)
        for item in scope.function.body:
            if isinstance(item, Label):
                self.listing.mark(scope.prefix + item.name)
            else:
                self.context.current = item
                start = len(self.listing.items)
                self._instruction(item)
                self.listing.own(start, item)
        self.context.scope = outer

    def _place_variables(self, scope: Scope) -> None:
        passed = self.calls.passed(scope)
        for variable in scope.function.variables:
            if variable.space is Space.SHARED:
                key = f"{scope.function.name}:{variable.name}"
                place: SymbolAddress = Space.SHARED, self.context.place_shared(key, variable)
            elif variable.name in passed:
                above = scope.frame.size if scope.frame else 0
                place = "frame" if scope.frame else Space.LOCAL, above + passed[variable.name]
            elif scope.frame:
                place = "frame", scope.frame.variables[variable.name]
            else:
                place = Space.LOCAL, self.context.place_local(variable.size, variable.align)
            scope.symbols[variable.name] = place

    def _instruction(self, instruction: Instruction) -> None:
        if instruction.opcode == "bra":
            flow.branch(self.context, instruction)
        elif instruction.opcode in ("ret", "exit"):
            flow.end(self.context, instruction)
        elif instruction.guard:
            # Guarded instructions are rare, so a branch around them is simpler than a mask for
            # each.
            guard = instruction.guard
            skip = f"skip:{self.listing.next_label()}"
            register = self.context.register(guard.register)
            self.listing.add(Branch(register, not guard.negated, skip))
            self._plain(instruction)
            self.listing.mark(skip)
        else:
            self._plain(instruction)

    def _plain(self, instruction: Instruction) -> None:
        """Lower an instruction other than a branch or return.

        The guard predicate is ignored here, because the caller has added a branch for it.
        """
        context, opcode = self.context, instruction.opcode
        if opcode in ("ld", "ldu"):
            memory.load(context, instruction)
        elif opcode == "st":
            memory.store(context, instruction)
        elif opcode in ("atom", "red"):
            memory.atomic(context, instruction)
        elif opcode == "call":
            self.calls.call(instruction)
        elif opcode in ("bar", "barrier"):
            flow.barrier(context, instruction)
        elif opcode == "brx":
            flow.indexed_branch(context, instruction)
        elif opcode in warp.SYNCHRONISING or opcode in warp.ALONE:
            compute.collective(context, instruction)
        elif opcode == "nanosleep":
            self.listing.add(Yield(), 1)
        elif compute.handles_flag(instruction):
            compute.with_flag(context, instruction)
        elif opcode in ("trap", "brkpt"):
            # Without a debugger, a breakpoint ends the kernel, too.
            self.listing.add(Trap(context.place(instruction.location), opcode), 1)
        elif opcode in ("membar", "fence"):
            # A fence between the proxies of one thread, or for the initialisation of an mbarrier,
            # orders nothing between threads.
            is_special = instruction.modifiers[:1] in (("proxy",), ("mbarrier_init",))
            order = None if is_special else Order(memory.fence_of(instruction))
            self.listing.add(order, 1)
        elif opcode in _NO_EFFECT:
            self.listing.add(None, 1)
        elif not compute.action(context, instruction):
            compute.compute(context, instruction)


def _home(kernel: Function) -> str:
    """Return the source file that defines the kernel, or an empty string if the PTX names none."""
    first = next((i for i in kernel.body if isinstance(i, Instruction) and i.location), None)
    return first.location.outermost.file if first and first.location else ""
