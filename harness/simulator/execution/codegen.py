"""Compilation of basic blocks of PTX to Python functions that run on all threads at once.

A basic block is compiled once for each state of the threads that affects its code:

- `uniform`: the registers that hold one value for all threads. They are arrays of length 1.
- `kept`: the registers that are still needed by threads that do not run this basic block.
- `in_step`: whether all threads run the basic block together. The code then has no masks.

If some threads do not run the basic block, only the registers in `kept` are written through a mask.
In these threads, all other registers may get arbitrary values, because no thread reads them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.simulator.instructions.operation import BITS, DTYPES, Array
from harness.simulator.layout.memory import Shape
from harness.simulator.lowering.program import (
    ATOMICS,
    COPY,
    Access,
    Block,
    Branch,
    Collective,
    Compute,
    Constant,
    Order,
    Perform,
    Program,
    Source,
    Step,
)
from harness.simulator.native.bindings import Native
from harness.simulator.ptx.ptx import TYPE_BYTES, Immediate
from harness.simulator.ptx.space import Space

_ACTION_NAMES = {"cp": COPY, "wgmma": "wgmma", "mbarrier": "mbarrier operation"}


@dataclass(frozen=True, slots=True)
class State:
    """The state of the threads for which a basic block is compiled.

    Attributes:
        uniform: Registers that hold one value for all threads (a bit mask).
        kept: Registers that must keep their values in threads that do not run the basic block (a
            bit mask).
        in_step: True if all threads that are simulated together run the basic block.
    """

    uniform: int
    kept: int
    in_step: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """A basic block compiled to a function, and its effect on which registers are uniform.

    A register is uniform if it holds one value for all threads.

    Attributes:
        run: The function, which executes the block's steps but not the branch at its end.
        becomes_uniform: Registers that are uniform after the function has run but not before (a bit
            mask).
        becomes_varying: Registers that are uniform before the function runs but not afterwards (a
            bit mask).
        condition: Index in `Slots.pairs` of the branch's condition, or -1 without a branch.
        condition_is_uniform: True if the register of the branch's condition is uniform.
    """

    run: Callable[..., None]
    becomes_uniform: int
    becomes_varying: int
    condition: int
    condition_is_uniform: bool


@dataclass
class Slots:
    """The slots of compiled code: each is a register that is viewed as a PTX type.

    Attributes:
        bits: Width of each register in bits; 1 for a predicate.
        pairs: For each slot, the register's number and the type.
        numbers: The slot (index in `pairs`) of each pair of a register's number and a type.
    """

    bits: list[int]
    pairs: list[tuple[int, str]] = field(default_factory=list)
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def number(self, register: int, kind: str) -> int:
        """Return the slot of a register that is viewed as PTX type `kind`; add it if it is new."""
        key = register, kind
        if key not in self.numbers:
            self.numbers[key] = len(self.pairs)
            self.pairs.append(key)
        return self.numbers[key]


class BlockCompiler:
    """Compiler that translates the basic blocks of one kernel to Python functions.

    Attributes:
        program: The kernel, lowered to steps on numbered registers.
        native: The simulator's C functions.
        slots: Registers and types that the compiled code uses.
        sites: The loads, stores and atomics of the kernel, in order. Two further accesses for each
            action (such as `cp.async`) follow: the action's reads and its writes.
    """

    def __init__(self, program: Program, native: Native) -> None:
        self.program = program
        self.native = native
        self.slots = Slots(list(program.register_bits))
        steps = (step for block in program.blocks for step in block.steps)
        self.sites = [step for step in steps if isinstance(step, Access)]
        self._site_numbers = {id(step): number for number, step in enumerate(self.sites)}
        self._action_sites: dict[int, int] = {}
        for block in program.blocks:
            if isinstance(block.end, Perform):
                self._action_sites[id(block.end)] = len(self.sites)
                self.sites += [_access_of(block.end, is_store=s) for s in (False, True)]
        self._constants: dict[tuple[str, Immediate], tuple[str, Array]] = {}
        self._shapes: dict[tuple[int, bool], Shape] = {}
        self._temporaries: dict[tuple[int, int], int] = {}
        self._globals: dict[str, Any] = {
            "load": native.load,
            "store": native.store,
            "atomic": native.atomic,
            "warp_sync": native.warp_sync,
            "fence": native.fence,
            "block_fence": native.block_fence,
            "copyto": np.copyto,
        }

    def compile(self, block: Block, state: State) -> Compiled:
        """Compile a basic block for one state of the threads."""
        writer = Writer(self, state)
        for step in block.steps:
            self.write(step, writer)
        condition = -1
        condition_is_uniform = False
        if isinstance(block.end, Branch):
            condition = self.slots.number(block.end.register, "pred")
            condition_is_uniform = bool(writer.uniform >> block.end.register & 1)
        body = writer.lines or ["pass"]
        head = "def run(V, U, VP, UP, n, mask, L, count, S, fault, team):"
        source = "\n    ".join([head, *body])
        local: dict[str, Any] = {}
        code = compile(source, f"<{self.program.name}>", "exec")
        exec(code, self._globals, local)  # noqa: S102 - it is the code written here
        return Compiled(
            local["run"],
            writer.uniform & ~state.uniform,
            state.uniform & ~writer.uniform,
            condition,
            condition_is_uniform,
        )

    def write(self, step: Step, writer: Writer) -> None:
        """Add the Python lines of one step of a basic block to `writer`."""
        if isinstance(step, Compute):
            writer.compute(step)
        elif isinstance(step, Order):
            writer.order(step)
        elif isinstance(step, Collective):
            writer.collective(step)
        else:
            writer.access(step)

    def function(self, function: object) -> str:
        """Make a Python function available to compiled code; return its name there."""
        name = f"f{id(function)}"
        self._globals[name] = function
        return name

    def vector(self, name: str, inputs: int) -> str:
        """Make a function of arithmetic.c available to compiled code; return its name there.

        Args:
            name: Name of the C function.
            inputs: Number of the operands that it takes.
        """
        self._globals[f"native_{name}"] = self.native.vector(name, inputs)
        return f"native_{name}"

    def constant(self, value: Immediate, kind: str) -> tuple[str, int]:
        """Store a constant as an array of length 1 and PTX type `kind` for compiled code.

        Return the array's name in compiled code, and the address of its data.
        """
        key = kind, value
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            array = constant_array(value, kind)
            self._constants[key] = name, array
            self._globals[name] = array
        name, array = self._constants[key]
        return name, array.ctypes.data

    def temporary(self, bits: int, position: int) -> int:
        """Return the number of a register of `bits` bits that no instruction of the program uses.

        The register holds, for a short time, the output at index `position` of one step. All steps
        use the same register for an output of this width and position.
        """
        key = bits, position
        if key not in self._temporaries:
            self._temporaries[key] = len(self.slots.bits)
            self.slots.bits.append(bits)
        return self._temporaries[key]

    def site(self, step: Access) -> int:
        """Return the index in `sites` of a load, store or atomic."""
        return self._site_numbers[id(step)]

    def action_site(self, end: Perform, *, is_store: bool) -> int:
        """Return the index in `sites` of an action's writes (`is_store`) or of its reads.

        An action is an instruction such as `cp.async`.
        """
        return self._action_sites[id(end)] + is_store

    def shape(self, step: Access, *, once: bool = False) -> Shape:
        """Return the C struct that tells the functions of access.c the properties of an access.

        Args:
            step: The access.
            once: True if one load serves all threads.
        """
        site = self.site(step)
        if (site, once) not in self._shapes:
            registers = step.targets or tuple(s for s in step.sources if isinstance(s, int))
            width = TYPE_BYTES[step.type]
            bits = self.slots.bits[registers[0]] if registers else 0
            self._shapes[site, once] = Shape(
                step.space.number,
                width,
                step.elements,
                max(bits // 8, width),
                int(step.type[0] == "s"),
                8 if isinstance(step.address, Constant) else self.slots.bits[step.address] // 8,
                step.offset,
                site,
                step.how,
                once,
                "nc" in step.instruction.modifiers,
            )
        return self._shapes[site, once]


def _access_of(end: Perform, *, is_store: bool) -> Access:
    """Return an `Access` for the writes (`is_store`) or reads of an action such as `cp.async`.

    Counters and messages use this object to describe the action's memory access.
    """
    zero = Constant(Immediate(0))
    return Access(
        Space.GENERIC,
        "b8",
        end.action.row_bytes,
        zero,
        0,
        end.instruction,
        end.location,
        (),
        (zero,) if is_store else (),
        name=_ACTION_NAMES.get(end.instruction.opcode, ""),
    )


def constant_array(value: Immediate, kind: str) -> Array:
    """Return an array of length 1 that holds a constant of a PTX instruction as PTX type `kind`."""
    dtype = np.dtype(DTYPES[kind])
    if kind == "pred":
        return np.array([value.value != 0])
    # A floating-point constant is stored as its bits. It is converted for a floating-point type,
    # and reinterpreted for others.
    if value.float_bits:
        source = np.array([value.value], f"u{value.float_bits // 8}").view(
            f"f{value.float_bits // 8}"
        )
        if dtype.kind == "f":
            return source.astype(dtype)
        return source.view(f"u{value.float_bits // 8}").astype(f"u{BITS[kind] // 8}").view(dtype)
    if kind.endswith("x2"):
        return np.array([value.value & 0xFFFFFFFF], np.uint32).view(dtype).reshape(1, 2)
    bits = np.array([value.value & (2 ** BITS[kind] - 1)], f"u{BITS[kind] // 8}")
    if dtype.kind == "f" and kind != "f16":
        return np.array([value.value], dtype)
    return bits.view(dtype)


class Writer:
    """Writer of the Python code of one basic block, for one state of the threads.

    It tracks which registers become uniform (hold one value for all threads). In the written code,
    `V` is the list of register arrays with one element for each thread. `U` is the list of register
    arrays with one element for all threads. `VP` and `UP` hold the addresses of the arrays' data.
    """

    def __init__(self, compiler: BlockCompiler, state: State) -> None:
        self.compiler = compiler
        self.slots = compiler.slots
        self.uniform = state.uniform
        self.kept = 0 if state.in_step else state.kept
        self.in_step = state.in_step
        self.lines: list[str] = []

    def _is_uniform(self, source: Source) -> bool:
        return isinstance(source, Constant) or bool(self.uniform >> source & 1)

    def _is_kept(self, register: int) -> bool:
        return bool(self.kept >> register & 1)

    def _array(self, source: Source, kind: str) -> str:
        if isinstance(source, Constant):
            return self.compiler.constant(source.value, kind)[0]
        slot = self.slots.number(source, kind)
        return f"U[{slot}]" if self._is_uniform(source) else f"V[{slot}]"

    def _pointer(self, source: Source, kind: str) -> tuple[str, int]:
        """Return a Python expression for the address of an operand's data, and the stride.

        The stride counts elements: 1 for one value for each thread, 0 for one value for all.
        """
        if isinstance(source, Constant):
            return str(self.compiler.constant(source.value, kind)[1]), 0
        slot = self.slots.number(source, kind)
        return (f"UP[{slot}]", 0) if self._is_uniform(source) else (f"VP[{slot}]", 1)

    def _set_uniform(self, register: int, *, uniform: bool) -> None:
        if uniform:
            self.uniform |= 1 << register
        else:
            self.uniform &= ~(1 << register)

    def _spread(self, register: int) -> None:
        """Write code that copies the one value of a uniform register to an element for each thread.

        Do nothing if the register is not uniform.
        """
        if self.uniform >> register & 1:
            slot = self.slots.number(register, _plain(self.slots.bits[register]))
            self.lines.append(f"V[{slot}][...] = U[{slot}]")
            self._set_uniform(register, uniform=False)

    def compute(self, step: Compute) -> None:
        """Write the code of an operation that uses only the thread's own registers."""
        # Equal inputs give equal outputs, so an operation on uniform registers is computed once.
        uniform = all(self._is_uniform(s) for s in step.inputs)
        if any(self._is_kept(r) for r in step.outputs):
            self._compute_kept(step, uniform=uniform)
            return
        self._call(step, step.outputs, uniform=uniform)
        for register in step.outputs:
            self._set_uniform(register, uniform=uniform)

    def _compute_kept(self, step: Compute, *, uniform: bool) -> None:
        """Write the code of an operation that must keep its output registers in idle threads.

        Idle threads do not run the basic block, but still need the values in these registers. The
        operation therefore writes to temporary registers. A masked copy then moves the results to
        the output registers, only for the threads that run the basic block.
        """
        temporaries = tuple(
            self.compiler.temporary(self.slots.bits[r], i) for i, r in enumerate(step.outputs)
        )
        self._call(step, temporaries, uniform=uniform)
        for register, temporary in zip(step.outputs, temporaries, strict=True):
            self._spread(register)
            kind = _plain(self.slots.bits[register])
            target = self.slots.number(register, kind)
            source = self.slots.number(temporary, kind)
            where = "U" if uniform else "V"
            self.lines.append(f"copyto(V[{target}], {where}[{source}], where=mask)")

    def _call(self, step: Compute, outputs: tuple[int, ...], *, uniform: bool) -> None:
        operation = step.operation
        where = "U" if uniform else "V"
        typed = list(zip(step.inputs, operation.inputs, strict=True))
        if operation.native:
            name = self.compiler.vector(operation.native, len(operation.inputs))
            arguments = ["1" if uniform else "n"]
            for source, kind in typed:
                pointer, stride = self._pointer(source, kind)
                arguments += [pointer, str(stride)]
            slot = self.slots.number(outputs[0], operation.outputs[0])
            arguments.append(f"{where}P[{slot}]")
        else:
            name = self.compiler.function(operation.function)
            arguments = [self._array(source, kind) for source, kind in typed]
            for register, kind in zip(outputs, operation.outputs, strict=True):
                arguments.append(f"{where}[{self.slots.number(register, kind)}]")
        self.lines.append(f"{name}({', '.join(arguments)})")

    def order(self, step: Order) -> None:
        """Write a call that reports a warp synchronisation or a memory fence to race detection."""
        self.lines.append(f"{_ORDERS[step.kind]}(S, L, count)")

    def collective(self, step: Collective) -> None:
        """Write the code of an operation across threads, such as a shuffle or a vote.

        The results may differ between threads even if all threads have the same inputs.
        """
        operation = step.operation
        arguments = ["team", "None" if self.in_step else "mask"]
        for source, kind in zip(step.inputs, operation.inputs, strict=True):
            arguments.append(self._array(source, kind))
        lines = []
        for i, (register, kind) in enumerate(zip(step.outputs, operation.outputs, strict=True)):
            bits = self.slots.bits[register]
            if self._is_kept(register):
                temporary = self.compiler.temporary(bits, i)
                arguments.append(f"V[{self.slots.number(temporary, kind)}]")
                self._spread(register)
                source = self.slots.number(temporary, _plain(bits))
                target = self.slots.number(register, _plain(bits))
                lines.append(f"copyto(V[{target}], V[{source}], where=mask)")
            else:
                arguments.append(f"V[{self.slots.number(register, kind)}]")
        name = self.compiler.function(operation.function)
        self.lines += [f"{name}({', '.join(arguments)})", *lines]
        for register in step.outputs:
            self._set_uniform(register, uniform=False)

    def access(self, step: Access) -> None:
        """Write the code that executes a load, store or atomic operation and reports its faults."""
        address_kind = "u64"
        if not isinstance(step.address, Constant):
            address_kind = _plain(self.slots.bits[step.address])
        pointer, stride = self._pointer(step.address, address_kind)
        # All threads load from one address. One access suffices in global and parameter memory.
        # Shared and local memory differ between blocks or threads, and a store or an atomic needs
        # every thread.
        once = (
            not step.sources
            and stride == 0
            and step.space in (Space.GLOBAL, Space.PARAM)
            and not any(self._is_kept(r) for r in step.targets)
        )
        shape = self.compiler.shape(step, once=once)
        register_kind = f"b{shape.register_width * 8}"
        for register in step.targets:
            if not once and self._is_kept(register):
                self._spread(register)
        where = "UP" if once else "VP"
        targets = [
            f"{where}[{self.slots.number(r, _plain(self.slots.bits[r]))}]" for r in step.targets
        ]
        sources = [self._pointer(s, register_kind) for s in step.sources]
        strides = sum(s[1] << i for i, s in enumerate(sources))
        head = f"{ctypes.addressof(shape)}, S, L, count, {pointer}, {stride}"
        if step.operation:
            code = ATOMICS[step.operation] | _atomic_type(step.type) << 8
            operands = _padded([s[0] for s in sources], 2)
            target = targets[0] if targets else "None"
            call = f"atomic({head}, {code}, {strides}, {operands}, {target})"
        elif step.sources:
            call = f"store({head}, {strides}, {_padded([s[0] for s in sources], 4)})"
        else:
            call = f"load({head}, {_padded(targets, 4)})"
        address = self._array(step.address, address_kind)
        self.lines.append(f"if {call}: fault({self.compiler.site(step)}, {address}, {once})")
        for register in step.targets:
            self._set_uniform(register, uniform=once)


_ORDERS = {"warp": "warp_sync", "fence": "fence", "block fence": "block_fence"}
_ATOMIC_TYPES = {"f32": 2, "f64": 2, "f16": 3, "bf16": 4, "f16x2": 5, "bf16x2": 6}


def _atomic_type(kind: str) -> int:
    """Return the number by which atomic.c identifies the PTX type `kind`."""
    return _ATOMIC_TYPES.get(kind, int(kind[0] == "s"))


def _padded(names: list[str], count: int) -> str:
    return ", ".join(names + ["None"] * (count - len(names)))


def _plain(bits: int) -> str:
    return "pred" if bits == 1 else f"b{bits}"
