"""The simulated machine: it loads PTX, runs kernels on device memory, and returns findings.

All threads of several blocks (a chunk) are simulated together as one vector. Each PTX instruction
is a few calls on arrays that have one element for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.simulator.execution.chosen import AtRandom, Near, chosen_blocks
from harness.simulator.execution.codegen import BlockCompiler
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
from harness.simulator.hardware.limits import STACK_BYTES
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
    """A PTX module whose global and constant variables have been placed in device memory.

    Attributes:
        module: The parsed PTX.
        addresses: Device address of each global or constant variable, by name.
        number: Number of modules that were loaded on the machine earlier.
        prepared: Kernels that are ready to run, by mangled name. A kernel is prepared at its first
            launch.
    """

    module: Module
    addresses: Mapping[str, int]
    number: int
    prepared: dict[str, Kernel] = field(default_factory=dict)

    @property
    def kernels(self) -> Mapping[str, Function]:
        """The parsed kernels of the module by mangled name."""
        return self.module.kernels

    def address_of(self, name: str) -> int:
        """Return the device address of the module's variable `name`, or 0 if it does not exist."""
        return self.addresses.get(name, 0)


class Machine:
    """The part of the simulated device that loads PTX modules and runs kernels.

    Args:
        memory: Global memory of the device.
        chunk_lanes: Maximum number of threads that are simulated together.
        racecheck: True to look for races.
        counters: True to count the traffic and instructions of launches, which takes about twice
            the time.
        schedule: Order of blocks and warps: 0 for the natural order, or the seed of a random one.
        cores: Maximum number of processes, this one included, that run blocks of one launch in
            parallel. The number does not change the result.
        print_out: Receives the output of `printf`, as bytes.
        print_error: Receives the messages of failed assertions, as bytes.
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
        """Parse PTX, and place its global and constant variables in device memory.

        Variables get their initial values, or zeros.

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
        """Kill the processes that help this one to run blocks.

        They are forked again when a launch needs them.
        """
        self._shared.close()

    def lines(self, file: str) -> Lines:
        """Return the coverage of a source file by all launches so far.

        Args:
            file: Name of the file without a folder.
        """
        modules = self._modules.values()
        return lines_in(
            file, ((m.module, [k.prepared for k in m.prepared.values()]) for m in modules)
        )

    def prepare(
        self, loaded: LoadedModule, kernel_name: str, stack_bytes: int = STACK_BYTES
    ) -> Kernel:
        """Return a kernel of a module, translated so that it can run.

        Later calls return the same object, which is kept in `loaded.prepared`. A recursive kernel
        is translated again when the size of the stack changes.

        Args:
            loaded: The module.
            kernel_name: Mangled name of the kernel.
            stack_bytes: Size of a thread's stack on a GPU, in bytes.

        Raises:
            KeyError: The module has no kernel of this name.
            UnsupportedInstruction: The kernel has an instruction that the machine lacks.
        """
        known = loaded.prepared.get(kernel_name)
        if known is None or known.stack_bytes not in (None, stack_bytes):
            program = prepare(
                loaded.module,
                kernel_name,
                readable(kernel_name),
                loaded.addresses,
                self._native.on_arrays,
                stack_bytes,
            )
            known = loaded.prepared[kernel_name] = Kernel(
                Prepared(BlockCompiler(program, self._native)),
                needs_one_core=why_one_core(program),
                stack_bytes=stack_bytes if program.is_recursive else None,
            )
        return known

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
        stack_bytes: int = STACK_BYTES,
        registers: Callable[[], int] = lambda: 0,
    ) -> LaunchResult:
        """Run a kernel to its end, and return the findings and counts of the launch.

        A faulty access does not stop the kernel. A faulty load returns poison (a fixed pattern of
        bits), a faulty store is dropped, and both are reported as findings.

        Args:
            loaded: The module.
            kernel_name: Mangled name of the kernel.
            grid: Blocks along x, y and z.
            block: Threads along x, y and z.
            dynamic_shared_bytes: Bytes of a block's dynamic shared memory.
            parameters: Bytes of each argument.
            cooperative: True for a cooperative launch, in which blocks may wait at a barrier of the
                whole grid.
            stack_bytes: Size of a thread's stack on a GPU, in bytes, which limits recursion.
            registers: Returns the number of registers of a thread, which limits how many blocks are
                resident. It is called only if many blocks wait for each other.

        Raises:
            KeyError: The module has no such kernel.
            InvalidLaunch: The grid, the block or the parameters are invalid.
            UnsupportedInstruction: The kernel has an instruction that the machine lacks.
            KernelTrap: A thread executed `trap`.
            StackOverflow: A recursion needs more than a thread's stack.
            BarrierDeadlock, UnmetCondition: Threads wait for an event that cannot happen.
            OverBudget: The call exceeds its budget.
            UnsupportedCall: The attribute `near` selects only some blocks, but blocks may depend on
                each other.
        """
        kernel = self.prepare(loaded, kernel_name, stack_bytes)
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
            stack_bytes=stack_bytes,
            budget=self.budget,
            chosen=self._chosen(geometry, kernel),
        )
        result = self._run(task, kernel, registers)
        self.budget.spend(result.work)
        return result

    def _chosen(self, geometry: Geometry, kernel: Kernel) -> tuple[int, ...]:
        """Return the numbers of the blocks that `self.near` selects; empty if all blocks run.

        Raises:
            UnsupportedCall: Only some blocks are selected, but blocks may depend on each other.
        """
        chosen = chosen_blocks(geometry, self.near) if self.near else ()
        why = why_all_blocks(kernel.prepared.compiler.program) if chosen else ""
        if why:
            raise UnsupportedCall(f"running a few blocks of a kernel only: {why}")
        return chosen

    def _run(self, task: Task, kernel: Kernel, registers: Callable[[], int]) -> LaunchResult:
        """Run a launch on several cores if it is large enough and the kernel allows it.

        Otherwise, or if the run shows that blocks may depend on each other, run it on one core.
        """
        geometry = task.geometry
        if self._shared.processes > 1 and not task.chosen:
            threads = geometry.blocks * geometry.threads
            lanes = chunk_lanes(kernel, threads, self._chunk_lanes, self._shared.processes)
            shared = replace(task, chunk_lanes=lanes, is_shared=True)
            if lanes and (result := self._shared.run(shared, self._loads)):
                return result
        return self._launch_of(task).run(registers)

    def _launch_of(self, task: Task) -> Launch:
        loaded = self._modules[task.module]
        kernel = self.prepare(loaded, task.kernel, task.stack_bytes)
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
        """Reset the memory in which cooperative groups count the blocks at the grid's barrier.

        Return its address, which kernels read from %envreg1 and %envreg2. Return 0 if the kernel
        does not read them.
        """
        if "%envreg1" not in program.specials:
            return 0
        self._grid_barrier = self._grid_barrier or self.memory.allocate(_GRID_BARRIER_BYTES)
        self.memory.write(self._grid_barrier, bytes(_GRID_BARRIER_BYTES))
        return self._grid_barrier


def _refuse(_: bytes) -> None:
    """Raise `NeedsOneCore` for a kernel that prints while it runs on several cores.

    Only a launch on one core prints in the order of blocks.
    """
    raise NeedsOneCore("it prints")


def _element(value: int | Symbol, addresses: Mapping[str, int]) -> int:
    """Return one element of a variable's initialiser as an unsigned 64-bit number.

    A symbol becomes its address plus its offset; a symbol without a definition becomes 0.
    """
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
