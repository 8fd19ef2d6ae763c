"""The simulated device, which loads modules and launches kernels by simulator/execution/."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from harness.device import gpu_only
from harness.device.executor import Assembler, Executor, KernelFacts, NoSuchKernel
from harness.device.record import Record
from harness.device.simulated_memory import SimulatedMemory
from harness.finding import Finding
from harness.simulator.counters.counters import KernelCounters, merged
from harness.simulator.execution.chosen import AtRandom, Near
from harness.simulator.execution.coverage import Lines
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware import limits
from harness.simulator.hardware.budget import Budget, resident_bytes
from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.errors import (
    ASSERTION_FAILED,
    BarrierDeadlock,
    KernelTrap,
    LibraryCall,
    StackOverflow,
    UnmetCondition,
    UnsupportedCall,
)
from harness.simulator.hardware.fault import Fault
from harness.simulator.hardware.limits import (
    LaunchBounds,
    LaunchLimits,
    LaunchRequest,
    RefusedLaunch,
)
from harness.simulator.hardware.memory import Memory, NotAnAllocation, OutOfDeviceMemory
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.hardware.resources import Resources
from harness.simulator.lowering.program import Program
from harness.simulator.ptx.fatbinary import DeviceCode, device_code_of
from harness.simulator.ptx.mangling import readable
from harness.simulator.ptx.ptx import Function, Instruction
from harness.simulator.ptx.space import Space

_FAULTS: Mapping[Fault, CudaError] = {
    "illegal address": CudaError.ILLEGAL_ADDRESS,
    "misaligned address": CudaError.MISALIGNED_ADDRESS,
}

# Bytes that kernels may touch of sparse memory, including its shadow, which is as large.
_MOST_TOUCHED = 2 << 30


@dataclass
class _Module:
    """A loaded module.

    Attributes:
        code: The module's PTX, and the options for ptxas.
        loaded: The module in the simulator.
        usage: Resources of the module's kernels, by mangled name; None until they are needed,
            because ptxas takes time.
        limits: Launch limits of the module's kernels, by mangled name; made when they are needed.
    """

    code: DeviceCode
    loaded: LoadedModule
    usage: Mapping[str, Resources] | None = None
    limits: dict[str, LaunchLimits] = field(default_factory=dict)


class _Stopped(Exception):
    """A memory fault has stopped a kernel; the launch's findings describe the fault."""

    def __init__(self, error: CudaError) -> None:
        super().__init__(error.name)
        self.error = error


class SimulatedDevice:
    """An `executor.Device` on the simulator; it adds each launch to `record`."""

    broken_by = ""
    properties = DEVICE

    def __init__(
        self,
        memory: Memory,
        record: Record,
        assembler: Assembler,
        schedule: int = 0,
        cores: int = 1,
    ) -> None:
        self._record = record
        self._usage = assembler.usage
        self._schedule = schedule
        self._machine = Machine(memory, schedule=schedule, cores=cores)
        self._modules: dict[int, _Module] = {}
        self._findings: list[Finding] = []
        self._counters: dict[str, KernelCounters] | None = None
        self._failure: BaseException | None = None
        self.share_of_blocks = 1.0

    # What the trusted side asks

    def observe(self) -> tuple[Finding, ...]:
        """Return the findings of the device's checks, such as memcheck, since the last call.

        Raises:
            BaseException: An error stopped the simulator in a launch, such as an instruction that
                the simulator lacks. The caller of the launch got only a CUDA error.
        """
        failure, self._failure = self._failure, None
        if failure:
            # The next call returns the findings from before the error.
            raise failure
        seen, self._findings = tuple(self._findings), []
        return seen

    def reorder(self, schedule: int | None) -> None:
        """Run blocks and warps in another order from now on.

        Args:
            schedule: Number of the order in `Machine`; None for the order that the device was
                created with.
        """
        self._machine.schedule = self._schedule if schedule is None else schedule

    def allow(self, work: int | None) -> None:
        """Limit the work of the next step, such as one forward call; None removes the limit.

        The unit is thread-instructions, as in `budget.work_of`.
        """
        self._machine.budget = Budget(work)

    @property
    def spent(self) -> int:
        """Work done so far in the current step, in thread-instructions; `allow` sets the limit."""
        return self._machine.budget.spent

    def work_near(self, near: Near | AtRandom | None) -> None:
        """Run only the blocks of later launches that `near` selects; None runs all blocks."""
        self._machine.near = near
        if near:
            self._machine.budget.most_resident = resident_bytes() + _MOST_TOUCHED
        self.share_of_blocks = 1.0

    def start_counting(self) -> None:
        """Start to count the instructions and memory accesses of kernels."""
        self._machine.counters = True
        self._counters = {}

    def counted(self) -> dict[str, KernelCounters]:
        """Stop counting; return each kernel's counters, summed over launches, by mangled name."""
        self._machine.counters = False
        counters, self._counters = self._counters or {}, None
        return counters

    def start_timing(self) -> None:
        """Do nothing, since the simulated device does not measure time."""

    def timed(self) -> float:
        """Return 0, since the simulated device does not measure time."""
        return 0.0

    def resources(self) -> dict[str, Resources]:
        """Return what ptxas reports about all kernels, such as registers, by mangled name."""
        return {
            name: resources
            for module in self._modules.values()
            for name, resources in self._usage_of(module).items()
        }

    def lines(self, file: str) -> Lines:
        """Return which lines of the source files named `file` have run on the device so far."""
        return self._machine.lines(file)

    def close(self) -> None:
        """End the helper processes that run blocks of launches."""
        self._machine.close()

    # What the CUDA runtime asks

    def load(self, image: bytes) -> int:
        """Load a fat binary, and return the module's number; numbers start at 1."""
        number = len(self._modules) + 1
        code = device_code_of(image)
        self._modules[number] = _Module(code, self._machine.load(code.ptx))
        return number

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """Return the size in bytes of each parameter of a kernel.

        Raises:
            NoSuchKernel: The kernel or its module does not exist.
        """
        return tuple(parameter.size for parameter in self._kernel(module, name).parameters)

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Check that a launch fits the device.

        Raises:
            NoSuchKernel: The kernel or its module does not exist.
            RefusedLaunch: CUDA would refuse the launch.
            UnsupportedCall: The simulator cannot run the launch.
        """
        self._kernel(module, name)
        limits.check_launch(self._limits(module, name), launch)
        if prod(launch.cluster) > 1:
            raise UnsupportedCall("clusters of more than one block")
        if launch.overlaps and not self._waits_for_kernels(module, name):
            raise UnsupportedCall(
                "programmatic dependent launches without cudaGridDependencySynchronize()"
            )

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel whose launch has passed `check`.

        Args:
            module: The module's number.
            name: The kernel's mangled name.
            launch: The grid, block and shared memory of the launch.
            arguments: The bytes of the kernel's arguments, one after the other.

        Raises:
            Exception: The kernel did not run to its end.
        """
        if self.share_of_blocks < 1.0:
            # The kernel may read values that blocks which did not run should have written.
            raise UnsupportedCall(
                "running a kernel after another one of which only a few blocks ran"
            )
        kernel = self._kernel(module, name)
        values, at = [], 0
        for parameter in kernel.parameters:
            values.append(arguments[at : at + parameter.size])
            at += parameter.size
        result = self._machine.launch(
            self._modules[module].loaded,
            name,
            launch.grid,
            launch.block,
            launch.dynamic_shared_bytes,
            values,
            cooperative=launch.is_cooperative,
            stack_bytes=launch.stack_bytes,
            registers=lambda: self._registers(self._modules[module], name),
        )
        self.share_of_blocks = result.share_of_blocks
        self._findings += result.findings
        if self._counters is not None and result.counters:
            before = self._counters.get(name)
            self._counters[name] = merged(before, result.counters) if before else result.counters
        if result.fault:
            raise _Stopped(_FAULTS[result.fault])
        self._record.add("kernel", name)

    def symbol(self, module: int, name: str) -> int:
        """Return the address of a module's device variable, or 0 if it has none of that name.

        Raises:
            NoSuchKernel: The module does not exist.
        """
        return self._module(module).loaded.address_of(name)

    def describe(self, module: int, name: str) -> KernelFacts:
        """Return a kernel's attributes, as cudaFuncGetAttributes does."""
        self._kernel(module, name)
        code, kernel = self._modules[module].loaded.module, self._limits(module, name)
        resources = kernel.resources()
        target = re.search(r"\d+", code.target)
        constants = (v.size for v in code.variables.values() if v.space is Space.CONST)
        return KernelFacts(
            registers=resources.registers,
            max_threads=limits.max_threads(kernel),
            ptx_version=int(target[0]) if target else 0,
            static_shared=resources.shared_bytes,
            local_bytes=resources.stack_bytes,
            const_bytes=sum(constants),
        )

    def allow_shared(self, module: int, name: str, dynamic_bytes: int) -> None:
        """Check that a kernel may have `dynamic_bytes` of dynamic shared memory.

        Raises:
            RefusedLaunch: The device has less shared memory.
        """
        self._kernel(module, name)
        limits.check_shared_memory(self._limits(module, name), dynamic_bytes)

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """Return how many of a launch's blocks one multiprocessor can hold."""
        self._kernel(module, name)
        return limits.blocks_that_fit(self._limits(module, name), launch)

    def unsupported(self, what: str) -> None:
        """Store the name of a feature that the simulator lacks, for `observe` to raise."""
        self._failure = self._failure or UnsupportedCall(what)

    def library(self, function: str) -> None:
        """Store the name of a library function that the submission called to do a kernel's work.

        The next `observe` raises a `LibraryCall` with this name.
        """
        self._failure = self._failure or LibraryCall(function)

    def refused(self, error: BaseException) -> tuple[int, str]:
        """Return the cudaError_t for a call that raised `error`, and the reason in words.

        The reason may be empty. Traps, and errors for which CUDA has no code, are also stored, for
        `observe` to raise.
        """
        if isinstance(error, _Stopped):
            return error.error, ""
        if isinstance(error, RefusedLaunch):
            return error.error, str(error)
        if isinstance(error, OutOfDeviceMemory):
            return CudaError.MEMORY_ALLOCATION, ""
        if isinstance(error, NotAnAllocation):
            return CudaError.INVALID_VALUE, ""
        if isinstance(error, NoSuchKernel):
            return CudaError.INVALID_DEVICE_FUNCTION, ""
        if isinstance(error, BarrierDeadlock | UnmetCondition):
            # The findings describe it. A GPU would hang until its watchdog ends the kernel.
            self._findings += error.findings
            return CudaError.LAUNCH_FAILURE, ""
        if isinstance(error, StackOverflow):
            self._findings.append(_of_stack(error))
            return CudaError.ILLEGAL_ADDRESS, ""
        self._failure = self._failure or error
        if isinstance(error, KernelTrap):
            failed = error.reason == ASSERTION_FAILED
            return CudaError.ASSERT if failed else CudaError.LAUNCH_FAILURE, ""
        # The simulator has failed, not the submission. The error breaks nothing, so that the host
        # code's next calls do not fail as well.
        return CudaError.NOT_SUPPORTED, ""

    # Helpers

    def _waits_for_kernels(self, number: int, name: str) -> bool:
        """Return True if a kernel, or a function of its module, waits for the previous kernel."""
        functions = self._modules[number].loaded.module.functions
        return any(
            isinstance(each, Instruction)
            and each.opcode == "griddepcontrol"
            and "wait" in each.modifiers
            for function in functions.values()
            for each in function.body
            if function.name == name or not function.is_kernel
        )

    def _module(self, number: int) -> _Module:
        if number not in self._modules:
            raise NoSuchKernel(number)
        return self._modules[number]

    def _kernel(self, module: int, name: str) -> Function:
        kernels = self._module(module).loaded.kernels
        if name not in kernels:
            raise NoSuchKernel(name)
        return kernels[name]

    def _limits(self, number: int, name: str) -> LaunchLimits:
        module = self._modules[number]
        if name not in module.limits:
            module.limits[name] = LaunchLimits(
                readable(name),
                LaunchBounds.of(module.loaded.kernels[name]),
                lambda: self._resources(module, name),
                lambda: self._program(module, name).shared_bytes,
            )
        return module.limits[name]

    def _program(self, module: _Module, name: str) -> Program:
        # The question is about shared memory, for which the size of the stack does not matter.
        known = module.loaded.prepared.get(name) or self._machine.prepare(module.loaded, name)
        return known.prepared.compiler.program

    def _resources(self, module: _Module, name: str) -> Resources:
        usage = self._usage_of(module)
        if name not in usage:
            why = f"{readable(name)}: ptxas does not compile its PTX"
            raise RefusedLaunch(CudaError.INVALID_PTX, why)
        return usage[name]

    def _registers(self, module: _Module, name: str) -> int:
        """Return a kernel's registers for each thread; 0 if ptxas does not compile its PTX."""
        usage = self._usage_of(module)
        return usage[name].registers if name in usage else 0

    def _usage_of(self, module: _Module) -> Mapping[str, Resources]:
        if module.usage is None:
            module.usage = self._usage(module.code)
        return module.usage


def _of_stack(error: StackOverflow) -> Finding:
    """Return the finding for a recursion that needs more than the stack."""
    where = error.kernel, error.file, error.line, error.block, error.thread
    return Finding("memcheck", error.reason, *where)


@dataclass(frozen=True)
class Simulator:
    """A factory of simulated devices.

    At most one device may be made in each process, because all devices of a process would share one
    memory.

    Attributes:
        library: The simulator's shared library.
        schedule: Number of the order in which blocks and warps run.
        cores: Number of processes that may run blocks of one launch side by side.
    """

    library: ctypes.CDLL
    schedule: int = 0
    cores: int = 1

    def __call__(self, record: Record, assembler: Assembler) -> Executor:
        """Make a simulated device and its memory; the device adds its work to `record`."""
        gpu_only.implement()
        memory = SimulatedMemory(self.library)
        device = SimulatedDevice(memory, record, assembler, self.schedule, self.cores)
        return Executor(memory, device)
