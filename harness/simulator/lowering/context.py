"""Resolution of names in a kernel: registers, variables, constants and source lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from harness.simulator.hardware.errors import UnsupportedInstruction
from harness.simulator.hardware.team import Lanes, Team
from harness.simulator.instructions.operation import BITS, Array, Operation, copy
from harness.simulator.lowering.inlining import CallGraph, FrameLayout, function_addresses
from harness.simulator.lowering.listing import Listing
from harness.simulator.lowering.program import Collective, Compute, Constant, Source
from harness.simulator.ptx.ptx import (
    Address,
    DestinationPair,
    Function,
    Immediate,
    Instruction,
    Location,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from harness.simulator.ptx.space import Space

SPECIAL_BITS: Mapping[str, int] = {
    **{f"%{name}.{axis}": 32 for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{f"%{name}": 32 for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid")},
    **{f"%lanemask_{name}": 32 for name in ("eq", "le", "lt", "ge", "gt")},
    **{
        f"%{name}.{axis}": 32
        for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
        for axis in "xyz"
    },
    **{f"%{name}": 32 for name in ("cluster_ctarank", "cluster_nctarank", "envreg1", "envreg2")},
    "%dynamic_smem_size": 32,
    "%total_smem_size": 32,
    "%gridid": 64,
    "dynamic shared memory": 32,
}
"""Special registers and their widths in bits."""
CLOCKS: Mapping[str, tuple[int, int]] = {
    "%clock": (32, 0),
    "%clock_hi": (32, 32),
    "%clock64": (64, 0),
    "%globaltimer": (64, 0),
    "%globaltimer_lo": (32, 0),
    "%globaltimer_hi": (32, 32),
}
"""Registers that count cycles of one nanosecond: width in bits, and right shift of the count."""


SymbolAddress = tuple[Space | Literal["dynamic", "frame", "function"], int]
"""The space of a variable, and its address there.

Three names stand for a space:

- "dynamic": dynamic shared memory, whose start is known only when all static variables are placed.
- "frame": the frame of an outlined function, wherever it is.
- "function": a function.
"""


@dataclass
class Scope:
    """One copy of a function in the lowered code, and the addresses of the copy's variables.

    Attributes:
        function: The function.
        prefix: Prefix that makes the names of the function's registers and labels unique.
        symbols: State space and address of each parameter, result and variable, by name.
        returns_to: Label of the end of the function's code; empty for the kernel.
        callers: Names of the functions that this function is inlined into, the outermost first.
        frame: Layout of the frame if the function is called instead of inlined; else None.
    """

    function: Function
    prefix: str
    symbols: dict[str, SymbolAddress]
    returns_to: str
    callers: tuple[str, ...] = ()
    frame: FrameLayout | None = None


@dataclass
class Context:
    """Resolver of names and operands at the instruction that is being lowered.

    Attributes:
        module: The PTX module.
        name: The kernel's name as in its source.
        addresses: Addresses of the module's variables in global memory.
        native: Function that takes the name of a C function of arithmetic.c, and returns that C
            function as a Python function on arrays.
        home: The source file that defines the kernel.
        graph: The call graph of the kernel.
        scope: The function that is being lowered.
        current: The instruction that is being lowered.
        listing: The kernel's lowered code so far.
        shared_bytes: Static shared memory that is used so far, in bytes.
        local_bytes: Local memory that is used so far, in bytes of each thread.
    """

    module: Module
    name: str
    addresses: Mapping[str, int]
    native: Callable[..., Callable[..., None]]
    home: str
    graph: CallGraph
    scope: Scope
    current: Instruction = field(init=False)
    listing: Listing = field(default_factory=Listing)
    shared_bytes: int = 0
    local_bytes: int = 0
    _shared: dict[str, int] = field(default_factory=dict)

    def unsupported(self) -> UnsupportedInstruction:
        """Return an error which says that the simulator lacks the current instruction."""
        return UnsupportedInstruction(self.current.text, self.name, self.current.location)

    def place(self, location: Location | None) -> Location | None:
        """Return the position in the kernel's own source file that a location belongs to.

        For code that was inlined from another file, the result is the innermost call in the
        kernel's file. If no call is in the kernel's file, the result is the outermost call.
        """
        inner = location
        while inner:
            if inner.file == self.home:
                return Location(inner.file, inner.line, inner.column)
            inner = inner.inlined_at
        return location.outermost if location else None

    # Variables

    def place_shared(self, key: str, variable: Variable) -> int:
        """Return the address in shared memory of a static variable; allocate the variable if new.

        Args:
            key: A name of the variable that is unique in the kernel.
            variable: The variable.
        """
        if key not in self._shared:
            self._shared[key] = -(-self.shared_bytes // variable.align) * variable.align
            self.shared_bytes = self._shared[key] + variable.size
        return self._shared[key]

    def place_local(self, size: int, align: int) -> int:
        """Allocate `size` bytes of each thread's local memory, and return the address."""
        start = -(-self.local_bytes // align) * align
        self.local_bytes = start + size
        return start

    def symbol(self, name: str) -> SymbolAddress | None:
        """Return the state space and address of a variable or function; None if unknown."""
        if name in self.scope.symbols:
            return self.scope.symbols[name]
        if name in self._shared:
            return Space.SHARED, self._shared[name]
        variable = self.module.variables.get(name)
        if variable and variable.space is Space.SHARED:
            # Dynamic shared memory follows the static part, whose size is not known yet.
            return "dynamic", 0
        if name in self.addresses:
            return Space.GLOBAL, self.addresses[name]
        functions = function_addresses(self.module)
        return ("function", functions[name]) if name in functions else None

    @property
    def frame_pointer(self) -> int:
        """The number of the register with the address of the current frame on the call stack."""
        return self.listing.number("frame pointer", 64)

    def move_frame(self, target: int, nbytes: int) -> None:
        """Add a step that sets register `target` to the frame pointer plus `nbytes`."""
        self.add_to(target, self.frame_pointer, nbytes)

    def add_to(self, target: int, register: int, number: int) -> None:
        """Add a step that sets register `target` to another register plus `number`, modulo 2^64."""
        operation = Operation(("u64", "u64"), ("u64",), np.add)
        step = Constant(Immediate(number))
        self.listing.add(Compute(operation, (register, step), (target,)))

    # Operands

    def register(self, register: Register) -> int:
        """Return the number of a PTX register, after adding the register if it is new."""
        name = register.name
        if name == "_":
            return self.listing.number("_64", 64)
        if name.startswith("%") and name in SPECIAL_BITS:
            return self.listing.number(name, SPECIAL_BITS[name])
        if name in CLOCKS:
            return self._clock(name)
        return self.listing.number(self.scope.prefix + name, self.register_bits(register))

    def register_bits(self, operand: Operand) -> int:
        """Return the width of a register operand in bits, or 0 for any other operand."""
        if not isinstance(operand, Register):
            return 0
        if operand.name in SPECIAL_BITS:
            return SPECIAL_BITS[operand.name]
        if operand.name in CLOCKS:
            return CLOCKS[operand.name][0]
        try:
            return BITS[self.scope.function.register_type(operand.name)]
        except KeyError:
            raise self.unsupported() from None

    def targets(self, operand: Operand) -> tuple[int, ...]:
        """Return the numbers of the registers in a destination operand."""
        if isinstance(operand, Register):
            return (self.register(operand),)
        if isinstance(operand, DestinationPair):
            return (self.register(operand.first), self.register(operand.second))
        if isinstance(operand, Vector):
            return tuple(r for part in operand.parts for r in self.targets(part))
        raise self.unsupported()

    def sources(self, operand: Operand) -> tuple[Source, ...]:
        """Return the registers or constants of a source operand, one for each vector element."""
        if isinstance(operand, Vector):
            return tuple(s for part in operand.parts for s in self.sources(part))
        return (self.source(operand),)

    def source(self, operand: Operand) -> Source:
        """Return the register or constant of a source operand that is not a vector."""
        if isinstance(operand, Register):
            if operand.name == "%is_explicit_cluster":
                return Constant(Immediate(0))
            return self.register(operand)
        if isinstance(operand, Immediate):
            return Constant(operand)
        if isinstance(operand, Negated):
            return self._inverse(operand.register)
        if isinstance(operand, Symbol) and (place := self.symbol(operand.name)):
            if place[0] == "dynamic":
                return self.listing.number("dynamic shared memory", 32)
            if place[0] == "frame":
                return self._frame_address(place[1] + operand.offset)
            return Constant(Immediate(place[1] + operand.offset))
        raise self.unsupported()

    def address(self, operand: Operand, space: Space) -> tuple[Space, Source, int]:
        """Return the state space, the base and the byte offset that an address operand refers to.

        `space` is the state space that the instruction names.
        """
        if not isinstance(operand, Address):
            raise self.unsupported()
        base = operand.base
        if isinstance(base, Immediate):
            return space.lies_in, Constant(base), operand.offset
        if isinstance(base, Register):
            if space is Space.PARAM and self.scope.returns_to:
                raise self.unsupported()
            return space.lies_in, self.register(base), operand.offset
        place = self.symbol(base.name)
        if place is None:
            raise self.unsupported()
        if place[0] == "dynamic":
            register = self.listing.number("dynamic shared memory", 32)
            return Space.SHARED, register, operand.offset
        if place[0] == "frame":
            return Space.LOCAL, self.frame_pointer, place[1] + operand.offset
        if not isinstance(place[0], Space):
            raise self.unsupported()
        return place[0], Constant(Immediate(place[1])), operand.offset

    def _inverse(self, register: Register) -> int:
        inverse = self.listing.number(f"{self.scope.prefix}!{register.name}", 1)
        operation = Operation(("pred",), ("pred",), lambda a, out: copy(~a, out))
        self.listing.add(Compute(operation, (self.register(register),), (inverse,)))
        return inverse

    def _frame_address(self, offset: int) -> int:
        register = self.listing.number(f"{self.scope.prefix}frame address", 64)
        self.move_frame(register, offset)
        return register

    def _clock(self, name: str) -> int:
        """Add a step that reads the clock register `name`; return the register with the result."""
        bits, shift = CLOCKS[name]
        register = self.listing.number(f"{self.scope.prefix}{name}", bits)

        def read(team: Team, _active: Lanes | None, out: Array) -> None:
            out.fill(team.clock() >> shift & (2**bits - 1))

        self.listing.add(Collective(Operation((), (f"u{bits}",), read), (), (register,)))
        return register
