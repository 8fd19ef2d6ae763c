"""The simulated GPU: modules, launches and what they showed, over simulator/execution/."""

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
from harness.simulator.execution.chosen import Near
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
    UnmetCondition,
    UnsupportedCall,
)
from harness.simulator.hardware.fault import Fault
from harness.simulator.hardware.limits import LaunchBounds, LaunchRequest, Limits, RefusedLaunch
from harness.simulator.hardware.memory import Memory, NotAnAllocation, OutOfDeviceMemory
from harness.simulator.hardware.properties import DEVICE
from harness.simulator.hardware.resources import Resources
from harness.simulator.lowering.program import Program
from harness.simulator.ptx.fatbinary import DeviceCode, device_code_of
from harness.simulator.ptx.mangling import readable
from harness.simulator.ptx.ptx import Function
from harness.simulator.ptx.space import Space

_FAULTS: Mapping[Fault, CudaError] = {
    "illegal address": CudaError.ILLEGAL_ADDRESS,
    "misaligned address": CudaError.MISALIGNED_ADDRESS,
}

# Of memory that is there only where it is touched; its shadow has as much again.
_MOST_TOUCHED = 2 << 30


@dataclass
class _Module:
    code: DeviceCode
    loaded: LoadedModule
    usage: Mapping[str, Resources] | None = None
    limits: dict[str, Limits] = field(default_factory=dict)


class _Stopped(Exception):
    """A fault of the kernel, which is known by its findings."""

    def __init__(self, error: CudaError) -> None:
        super().__init__(error.name)
        self.error = error


class SimulatedDevice:
    """Kernels of loaded modules on one memory; `record` is told of each launch."""

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
        self.has_left_out_blocks = False

    # What the trusted side asks

    def observe(self) -> tuple[Finding, ...]:
        """What was found on the device since the last call.

        Raises:
            BaseException: what stopped the machine in a launch, such as an instruction that it has
                not got; the launch itself could only return a CUDA error to its caller.
        """
        failure, self._failure = self._failure, None
        if failure:
            # What was found before is told at the next call.
            raise failure
        seen, self._findings = tuple(self._findings), []
        return seen

    def reorder(self, schedule: int | None) -> None:
        """Run blocks and warps in another order from now on, as `Machine` has it."""
        self._machine.schedule = self._schedule if schedule is None else schedule

    def allow(self, work: int | None) -> None:
        """Let the next call do so much work, as `budget.work_of` has it; None for any."""
        self._machine.budget = Budget(work)

    @property
    def spent(self) -> int:
        """What the call has taken of it."""
        return self._machine.budget.spent

    def work_near(self, near: Near | None) -> None:
        """Run of each launch the blocks that may work there, from now on; None for all."""
        self._machine.near = near
        if near:
            self._machine.budget.most_resident = resident_bytes() + _MOST_TOUCHED
        self.has_left_out_blocks = False

    def start_counting(self) -> None:
        """Counts what kernels do from now on."""
        self._machine.counters = True
        self._counters = {}

    def counted(self) -> dict[str, KernelCounters]:
        """Each kernel's launches since the counting started, summed; ends the counting.

        The keys are mangled names.
        """
        self._machine.counters = False
        counters, self._counters = self._counters or {}, None
        return counters

    def start_timing(self) -> None:
        """Nothing: the simulated device has no time."""

    def timed(self) -> float:
        """Nothing was timed."""
        return 0.0

    def resources(self) -> dict[str, Resources]:
        """What ptxas says of the kernels of all modules that were loaded, by mangled name."""
        return {
            name: resources
            for module in self._modules.values()
            for name, resources in self._usage_of(module).items()
        }

    def lines(self, file: str) -> Lines:
        """Which lines of the source files of that name have run so far."""
        return self._machine.lines(file)

    def close(self) -> None:
        """End the processes that run blocks."""
        self._machine.close()

    # What the CUDA runtime asks

    def load(self, image: bytes) -> int:
        """Take a fat binary in; answers the module's number, from 1."""
        number = len(self._modules) + 1
        code = device_code_of(image)
        self._modules[number] = _Module(code, self._machine.load(code.ptx))
        return number

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """How many bytes each of a kernel's parameters has.

        Raises:
            NoSuchKernel: there is none of that name.
        """
        return tuple(parameter.size for parameter in self._kernel(module, name).parameters)

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Look whether the launch fits the device.

        Raises:
            RefusedLaunch: it does not.
        """
        self._kernel(module, name)
        limits.check_launch(self._limits(module, name), launch)
        if prod(launch.cluster) > 1:
            raise UnsupportedCall("clusters of more than one block")

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel that `check` has let through.

        Args:
            module: Its module's number.
            name: Its name, mangled.
            launch: How.
            arguments: The bytes of its arguments, one after the other.

        Raises:
            Exception: it did not come to its end.
        """
        if self.has_left_out_blocks:
            # It may read what blocks that did not run should have written.
            raise UnsupportedCall("way to run a kernel after a few blocks of another")
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
        )
        self.has_left_out_blocks = result.is_of_chosen_blocks
        self._findings += result.findings
        if self._counters is not None and result.counters:
            before = self._counters.get(name)
            self._counters[name] = merged(before, result.counters) if before else result.counters
        if result.fault:
            raise _Stopped(_FAULTS[result.fault])
        self._record.add("kernel", name)

    def symbol(self, module: int, name: str) -> int:
        """The device address of a variable, 0 for none.

        Raises:
            NoSuchKernel: there is no such module.
        """
        return self._module(module).loaded.address_of(name)

    def describe(self, module: int, name: str) -> KernelFacts:
        """What cudaFuncGetAttributes tells of a kernel."""
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
        """Check what cudaFuncSetAttribute is to allow a kernel.

        Raises:
            RefusedLaunch: there is not so much.
        """
        self._kernel(module, name)
        limits.check_shared_memory(self._limits(module, name), dynamic_bytes)

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """How many of a launch's blocks a multiprocessor holds."""
        self._kernel(module, name)
        return limits.blocks_that_fit(self._limits(module, name), launch)

    def unsupported(self, what: str) -> None:
        """Note what the simulator does not have, for `observe` to raise."""
        self._failure = self._failure or UnsupportedCall(what)

    def library(self, function: str) -> None:
        """Note that a library was called, which would do the work, for `observe` to raise."""
        self._failure = self._failure or LibraryCall(function)

    def refused(self, error: BaseException) -> tuple[int, str]:
        """The cudaError_t that a call returns which raised `error`, and why, in words.

        What is no fault of the call's own is kept, for `observe` to raise.
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
            # Known by its findings; a GPU would hang, and its watchdog would end the kernel.
            self._findings += error.findings
            return CudaError.LAUNCH_FAILURE, ""
        self._failure = self._failure or error
        if isinstance(error, KernelTrap):
            failed = error.reason == ASSERTION_FAILED
            return CudaError.ASSERT if failed else CudaError.LAUNCH_FAILURE, ""
        # It is the simulator that fails, and what the host code does next shall not fail as well.
        return CudaError.NOT_SUPPORTED, ""

    # How it is answered

    def _module(self, number: int) -> _Module:
        if number not in self._modules:
            raise NoSuchKernel(number)
        return self._modules[number]

    def _kernel(self, module: int, name: str) -> Function:
        kernels = self._module(module).loaded.kernels
        if name not in kernels:
            raise NoSuchKernel(name)
        return kernels[name]

    def _limits(self, number: int, name: str) -> Limits:
        module = self._modules[number]
        if name not in module.limits:
            module.limits[name] = Limits(
                readable(name),
                LaunchBounds.of(module.loaded.kernels[name]),
                lambda: self._resources(module, name),
                lambda: self._program(module, name).shared_bytes,
            )
        return module.limits[name]

    def _program(self, module: _Module, name: str) -> Program:
        return self._machine.prepare(module.loaded, name).prepared.compiler.program

    def _resources(self, module: _Module, name: str) -> Resources:
        usage = self._usage_of(module)
        if name not in usage:
            why = f"{readable(name)}: ptxas does not compile its PTX"
            raise RefusedLaunch(CudaError.INVALID_PTX, why)
        return usage[name]

    def _usage_of(self, module: _Module) -> Mapping[str, Resources]:
        if module.usage is None:
            module.usage = self._usage(module.code)
        return module.usage


@dataclass(frozen=True)
class Simulator:
    """Makes simulated devices in this process, which has no memory of one yet.

    Attributes:
        library: The simulator's.
        schedule: The order of blocks and warps.
        cores: Processes that may run blocks of one launch side by side.
    """

    library: ctypes.CDLL
    schedule: int = 0
    cores: int = 1

    def __call__(self, record: Record, assembler: Assembler) -> Executor:
        """A device that tells `record` of what it does."""
        gpu_only.implement()
        memory = SimulatedMemory(self.library)
        device = SimulatedDevice(memory, record, assembler, self.schedule, self.cores)
        return Executor(memory, device)
