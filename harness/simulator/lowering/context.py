"""Meaning of names at an instruction: registers, variables, constants and source lines."""

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
    """The code of one function: the prefix of its registers, and the meaning of its names.

    Attributes:
        function: The function.
        prefix: Prefix of its registers and labels.
        symbols: Place of each name.
        returns_to: Label to return to; empty in the kernel itself.
        callers: Functions that this one is copied into.
        frame: Frame of an outlined function, else None.
    """

    function: Function
    prefix: str
    symbols: dict[str, SymbolAddress]
    returns_to: str
    callers: tuple[str, ...] = ()
    frame: FrameLayout | None = None


@dataclass
class Context:
    """Resolver of names and operands at the current instruction of the current scope.

    Attributes:
        module: The module.
        name: The kernel's name as in its source.
        addresses: Addresses of the module's variables.
        native: Returns the functions of arithmetic.c.
        home: The kernel's own source file.
        graph: The call graph.
        scope: The current function.
        current: The current instruction.
        listing: The kernel's code so far.
        shared_bytes: Static shared memory used so far.
        local_bytes: Local memory used so far.
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
        """Return the error that names the current instruction."""
        return UnsupportedInstruction(self.current.text, self.name, self.current.location)

    def place(self, location: Location | None) -> Location | None:
        """Return the innermost location that is in the kernel's own file."""
        inner = location
        while inner:
            if inner.file == self.home:
                return Location(inner.file, inner.line, inner.column)
            inner = inner.inlined_at
        return location.outermost if location else None

    # Variables

    def place_shared(self, key: str, variable: Variable) -> int:
        """Return the address of a variable in shared memory; place it if it is new."""
        if key not in self._shared:
            self._shared[key] = -(-self.shared_bytes // variable.align) * variable.align
            self.shared_bytes = self._shared[key] + variable.size
        return self._shared[key]

    def place_local(self, size: int, align: int) -> int:
        """Reserve local memory and return its address."""
        start = -(-self.local_bytes // align) * align
        self.local_bytes = start + size
        return start

    def symbol(self, name: str) -> SymbolAddress | None:
        """Return the place of a variable or function, or None."""
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
        """The register that holds the address of an outlined function's frame."""
        return self.listing.number("frame pointer", 64)

    def move_frame(self, target: int, nbytes: int) -> None:
        """Set a register to the frame pointer plus `nbytes`."""
        operation = Operation(("u64", "u64"), ("u64",), np.add)
        step = Constant(Immediate(nbytes))
        self.listing.add(Compute(operation, (self.frame_pointer, step), (target,)))

    # Operands

    def register(self, register: Register) -> int:
        """Return the register's number."""
        name = register.name
        if name == "_":
            return self.listing.number("_64", 64)
        if name.startswith("%") and name in SPECIAL_BITS:
            return self.listing.number(name, SPECIAL_BITS[name])
        if name in CLOCKS:
            return self._clock(name)
        return self.listing.number(self.scope.prefix + name, self.register_bits(register))

    def register_bits(self, operand: Operand) -> int:
        """Return the width of a register in bits, or 0 for another operand."""
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
        """Return the registers that an operand names as results."""
        if isinstance(operand, Register):
            return (self.register(operand),)
        if isinstance(operand, DestinationPair):
            return (self.register(operand.first), self.register(operand.second))
        if isinstance(operand, Vector):
            return tuple(r for part in operand.parts for r in self.targets(part))
        raise self.unsupported()

    def sources(self, operand: Operand) -> tuple[Source, ...]:
        """Return the values of an operand, element by element."""
        if isinstance(operand, Vector):
            return tuple(s for part in operand.parts for s in self.sources(part))
        return (self.source(operand),)

    def source(self, operand: Operand) -> Source:
        """Return the value of an operand that is not a vector."""
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
        """Return the space, the base address and the offset in bytes of an address operand."""
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
        """Add a read of the cycle counter; return the register that receives it."""
        bits, shift = CLOCKS[name]
        register = self.listing.number(f"{self.scope.prefix}{name}", bits)

        def read(team: Team, _active: Lanes | None, out: Array) -> None:
            out.fill(team.clock() >> shift & (2**bits - 1))

        self.listing.add(Collective(Operation((), (f"u{bits}",), read), (), (register,)))
        return register
