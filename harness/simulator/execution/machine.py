"""A machine that runs kernels: it takes PTX, changes memory and returns findings.

All threads of a chunk of blocks run as one vector. Each instruction is a few calls on arrays that
have one element for each thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.simulator.execution.chosen import AtRandom, Near, chosen_blocks
from harness.simulator.execution.codegen import Compiler
from harness.simulator.execution.coverage import Lines, lines_in
from harness.simulator.execution.launch import Kernel, Launch, LaunchEnvironment, NeedsOneCore
from harness.simulator.execution.launch import LaunchResult as LaunchResult
from harness.simulator.execution.multicore import (
    MulticoreLaunches,
    Task,
    chunk_lanes,
    why_all_blocks,
    why_one_core,
)
from harness.simulator.execution.prepared import Prepared
from harness.simulator.hardware.budget import Budget
from harness.simulator.hardware.errors import InvalidLaunch, UnsupportedCall
from harness.simulator.hardware.geometry import Extent, Geometry
from harness.simulator.hardware.memory import Memory
from harness.simulator.hardware.team import Output
from harness.simulator.lowering import prepare
from harness.simulator.lowering.inlining import function_addresses
from harness.simulator.lowering.printing import print_to_stderr, print_to_stdout
from harness.simulator.lowering.program import Program
from harness.simulator.native.bindings import Native
from harness.simulator.ptx.mangling import readable
from harness.simulator.ptx.parser import parse
from harness.simulator.ptx.ptx import Function, Module, Symbol
from harness.simulator.ptx.space import Space
from harness.simulator.sanitizer.race import RaceHistory

CHUNK_LANES = 16384
"""Most threads that run together; their registers should stay in the processor's cache."""
MAX_THREADS_PER_BLOCK = 1024
_GRID_BARRIER_BYTES = 32


@dataclass
class LoadedModule:
    """A module whose variables have been placed in device memory.

    Kernels are prepared at their first launch, and kept.

    Attributes:
        module: The module.
        addresses: Addresses of its variables by name.
        number: Number of modules that were loaded on the machine before it.
        prepared: The prepared kernels by mangled name.
    """

    module: Module
    addresses: Mapping[str, int]
    number: int
    prepared: dict[str, Kernel] = field(default_factory=dict)

    @property
    def kernels(self) -> Mapping[str, Function]:
        """The kernels by mangled name."""
        return self.module.kernels

    def address_of(self, name: str) -> int:
        """Return the address of a variable, or 0 if the module has no variable of that name."""
        return self.addresses.get(name, 0)


class Machine:
    """An executor of kernels on a device memory.

    Args:
        memory: The device's memory.
        chunk_lanes: Most threads that run together.
        racecheck: True to look for races.
        counters: True to count what launches do, which takes about twice the time.
        schedule: Order of blocks and warps, as in `Placement`.
        cores: Most processes, this one included, that run blocks of one launch in parallel. Their
            result is the same as that of one core.
        print_out: Receives what kernels print.
        print_error: Receives the kernels' failed assertions.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        chunk_lanes: int = CHUNK_LANES,
        racecheck: bool = True,
        counters: bool = False,
        schedule: int = 0,
        cores: int = 1,
        print_out: Output = print_to_stdout,
        print_error: Output = print_to_stderr,
    ) -> None:
        self.memory = memory
        self.counters = counters
        self._racecheck = racecheck
        self.schedule = schedule
        self._history = RaceHistory()
        self._native = Native(memory.library)
        self._chunk_lanes = chunk_lanes
        self._print = print_out
        self._print_error = print_error
        self._grid_barrier = 0
        self._modules: dict[int, LoadedModule] = {}
        self._loads = 0
        self.budget = Budget()
        """The budget of the current call."""
        self.near: Near | AtRandom | None = None
        """The choice of the blocks that run, or None where all blocks run."""
        self._shared = MulticoreLaunches(memory, cores, self._launch_of)

    def load(self, ptx_text: str) -> LoadedModule:
        """Parse PTX, and place its initialised global and constant variables in memory.

        Raises:
            PtxSyntaxError: The text cannot be parsed.
            OutOfDeviceMemory: The variables do not fit.
        """
        module = parse(ptx_text)
        placed = [
            v for v in module.variables.values() if v.space.lies_in is Space.GLOBAL and v.size
        ]
        addresses = {v.name: self.memory.allocate(v.size) for v in placed}
        known = {**function_addresses(module), **addresses}
        for variable in placed:
            data = b"".join(
                _element(value, known).to_bytes(variable.element, "little")
                for value in variable.values
            )
            # CUDA C++ initialises variables without an initialiser with zeros.
            self.memory.write(addresses[variable.name], data.ljust(variable.size, b"\0"))
        loaded = self._modules[self._loads] = LoadedModule(module, addresses, self._loads)
        self._loads += 1
        return loaded

    def close(self) -> None:
        """End the processes that run blocks beside this one; they are forked again when needed."""
        self._shared.close()

    def lines(self, file: str) -> Lines:
        """Return which lines of a source file have run in any launch so far."""
        modules = self._modules.values()
        return lines_in(
            file, ((m.module, [k.prepared for k in m.prepared.values()]) for m in modules)
        )

    def prepare(self, loaded: LoadedModule, kernel_name: str) -> Kernel:
        """Return the kernel ready to run; it is kept for later calls.

        Raises:
            KeyError: The module has no such kernel.
            UnsupportedInstruction: The kernel has an instruction that the machine lacks.
        """
        if kernel_name not in loaded.prepared:
            program = prepare(
                loaded.module,
                kernel_name,
                readable(kernel_name),
                loaded.addresses,
                self._native.on_arrays,
            )
            loaded.prepared[kernel_name] = Kernel(
                Prepared(Compiler(program, self._native)), needs_one_core=why_one_core(program)
            )
        return loaded.prepared[kernel_name]

    def launch(
        self,
        loaded: LoadedModule,
        kernel_name: str,
        grid: Extent,
        block: Extent,
        dynamic_shared_bytes: int,
        parameters: Sequence[bytes],
        *,
        cooperative: bool = False,
    ) -> LaunchResult:
        """Run a kernel to its end.

        A faulty access does not stop the kernel: a faulty load returns poison, a faulty store is
        dropped, and each is a finding.

        Args:
            loaded: The module.
            kernel_name: Mangled name of the kernel.
            grid: Blocks along x, y and z.
            block: Threads along x, y and z.
            dynamic_shared_bytes: Dynamic shared memory of a block.
            parameters: Raw bytes of each argument.
            cooperative: True if blocks may wait at a barrier of the whole grid.

        Raises:
            KeyError: The module has no such kernel.
            InvalidLaunch: The grid, the block or the parameters are invalid.
            UnsupportedInstruction: The kernel has an instruction that the machine lacks.
            KernelTrap: A thread executed `trap`.
            BarrierDeadlock, UnmetCondition: Threads wait for an event that cannot happen.
            OverBudget: The call exceeds its budget.
            UnsupportedCall: Only a few blocks are to run, but they may depend on the others.
        """
        kernel = self.prepare(loaded, kernel_name)
        geometry = Geometry(grid, block)
        _check(geometry)
        task = Task(
            loaded.number,
            kernel_name,
            geometry,
            dynamic_shared_bytes,
            _arguments(loaded.kernels[kernel_name], parameters),
            self._chunk_lanes,
            self.counters,
            self._fresh_grid_barrier(kernel.prepared.compiler.program) if cooperative else 0,
            self.schedule,
            budget=self.budget,
            chosen=self._chosen(geometry, kernel),
        )
        result = self._run(task, kernel)
        self.budget.spend(result.work)
        return result

    def _chosen(self, geometry: Geometry, kernel: Kernel) -> tuple[int, ...]:
        """Return the blocks that run if not all do, or none for all.

        Raises:
            UnsupportedCall: The blocks may depend on others.
        """
        chosen = chosen_blocks(geometry, self.near) if self.near else ()
        why = why_all_blocks(kernel.prepared.compiler.program) if chosen else ""
        if why:
            raise UnsupportedCall(f"running a few blocks of a kernel only: {why}")
        return chosen

    def _run(self, task: Task, kernel: Kernel) -> LaunchResult:
        """Run the launch on several cores if that is worthwhile and possible, else on one."""
        geometry = task.geometry
        if self._shared.processes > 1 and not task.chosen:
            threads = geometry.blocks * geometry.threads
            lanes = chunk_lanes(kernel, threads, self._chunk_lanes, self._shared.processes)
            shared = replace(task, chunk_lanes=lanes, is_shared=True)
            if lanes and (result := self._shared.run(shared, self._loads)):
                return result
        return self._launch_of(task).run()

    def _launch_of(self, task: Task) -> Launch:
        loaded = self._modules[task.module]
        kernel = self.prepare(loaded, task.kernel)
        host = LaunchEnvironment(
            self.memory,
            self._native,
            self._history,
            self._racecheck and not task.chosen,
            task.counters,
            task.schedule,
            task.chunk_lanes,
            _refuse if task.is_shared else self._print,
            _refuse if task.is_shared else self._print_error,
            task.grid_barrier,
            task.budget,
        )
        how = task.dynamic_shared_bytes, task.arguments, task.chosen
        return Launch(host, kernel, task.geometry, *how)

    def _fresh_grid_barrier(self, program: Program) -> int:
        """Reset the block counter of the grid's barrier; return its address, or 0 if unused.

        Cooperative groups find the address in %envreg1 and %envreg2.
        """
        if "%envreg1" not in program.specials:
            return 0
        self._grid_barrier = self._grid_barrier or self.memory.allocate(_GRID_BARRIER_BYTES)
        self.memory.write(self._grid_barrier, bytes(_GRID_BARRIER_BYTES))
        return self._grid_barrier


def _refuse(_: bytes) -> None:
    """Give up a shared launch that prints, because only one core prints in the order of blocks."""
    raise NeedsOneCore("it prints")


def _element(value: int | Symbol, addresses: Mapping[str, int]) -> int:
    """Return an initialiser's element as bits; a symbol that is only declared has address 0."""
    if isinstance(value, Symbol):
        return addresses.get(value.name, -value.offset) + value.offset
    return value % 2**64


def _check(geometry: Geometry) -> None:
    if min(*geometry.grid, *geometry.block) < 1 or geometry.threads > MAX_THREADS_PER_BLOCK:
        raise InvalidLaunch(f"grid {geometry.grid}, block {geometry.block}")


def _arguments(kernel: Function, parameters: Sequence[bytes]) -> bytes:
    if len(parameters) != len(kernel.parameters):
        raise InvalidLaunch(
            f"{readable(kernel.name)} takes {len(kernel.parameters)} arguments, "
            f"not {len(parameters)}"
        )
    data = bytearray(kernel.parameter_bytes)
    for parameter, value in zip(kernel.parameters, parameters, strict=True):
        if len(value) != parameter.size:
            raise InvalidLaunch(f"{parameter.name} has {parameter.size} bytes, not {len(value)}")
        data[parameter.offset : parameter.offset + parameter.size] = value
    return bytes(data)
