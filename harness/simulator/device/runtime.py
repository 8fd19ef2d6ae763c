"""Give this process a simulated CUDA device: load the libraries, answer their launches."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

from harness.finding import Finding
from harness.simulator.counters.counters import KernelCounters, merged
from harness.simulator.device.callbacks import Arguments, KernelFacts, Place, connect
from harness.simulator.device.record import KERNEL, OTHER, Record, Work
from harness.simulator.device.torch_cuda import SimulatedCuda, cuda_error
from harness.simulator.execution.machine import LoadedModule, Machine
from harness.simulator.hardware import limits
from harness.simulator.hardware.budget import Budget
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
from harness.simulator.hardware.memory import Memory, OutOfDeviceMemory
from harness.simulator.hardware.resources import Resources
from harness.simulator.lowering.program import Program
from harness.simulator.native.bindings import BY_KERNEL, UNWRITTEN
from harness.simulator.native.library import Libraries
from harness.simulator.ptx.fatbinary import DeviceCode, device_code_of
from harness.simulator.ptx.mangling import readable
from harness.simulator.ptx.space import Space

Usage = Callable[[DeviceCode], Mapping[str, Resources]]
"""Asks ptxas what the kernels of a module take, by mangled name; none of what it refuses."""

_FAULTS: Mapping[Fault, CudaError] = {
    "illegal address": CudaError.ILLEGAL_ADDRESS,
    "misaligned address": CudaError.MISALIGNED_ADDRESS,
}


@dataclass(frozen=True)
class Observed:
    """What the device saw since it was last asked."""

    findings: tuple[Finding, ...]
    launches: int
    thread_instructions: int


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
    """The device of this process; make one, before anything else uses torch's `cuda`."""

    def __init__(
        self, libraries: Libraries, usage: Usage, schedule: int = 0, cores: int = 1
    ) -> None:
        # Extensions find the runtime's functions by name, as if they were linked with it.
        self._runtime = ctypes.CDLL(str(libraries.runtime), mode=ctypes.RTLD_GLOBAL)
        self.memory = Memory(self._runtime)
        self._record = Record(self._runtime)
        self._usage = usage
        self._machine = Machine(self.memory, schedule=schedule, cores=cores)
        self._modules: dict[int, _Module] = {}
        self._findings: list[Finding] = []
        self._launches = 0
        self._thread_instructions = 0
        self._counters: dict[str, KernelCounters] | None = None
        self._failure: BaseException | None = None
        self._callbacks = connect(self._runtime, self, self._error_of)
        ctypes.CDLL(str(libraries.device), mode=ctypes.RTLD_GLOBAL)
        SimulatedCuda(self._runtime).install()

    # What the harness asks

    def observe(self) -> Observed:
        """What happened on the device since the last call.

        Raises:
            BaseException: what stopped the machine in a launch, such as an instruction that it has
                not got; the launch itself could only return a CUDA error to its caller.
        """
        failure, self._failure = self._failure, None
        if failure:
            # What was found before is told at the next call.
            raise failure
        seen = Observed(tuple(self._findings), self._launches, self._thread_instructions)
        self._findings, self._launches, self._thread_instructions = [], 0, 0
        return seen

    def raise_unread_error(self) -> None:
        """Tell of a call that failed, where the caller has not looked.

        Raises:
            torch.AcceleratorError: cudaGetLastError() of this thread would have told an error.
        """
        error = self._runtime.cudaGetLastError()
        if error:
            raise cuda_error(self._runtime, error, " (nobody asked cudaGetLastError())")

    def recover(self) -> None:
        """Forget errors, those as well that leave real hardware unusable until the process ends."""
        self._runtime.sim_recover()

    def reorder(self, schedule: int) -> None:
        """Run blocks and warps in another order from now on, as `Machine` has it."""
        self._machine.schedule = schedule

    def allow(self, work: int | None) -> None:
        """Let the next call do so much work, as `budget.work_of` has it; None for any."""
        self._machine.budget = Budget(work)

    @property
    def spent(self) -> int:
        """What the call has taken of it."""
        return self._machine.budget.spent

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

    def resources(self) -> dict[str, Resources]:
        """What ptxas says of the kernels of all modules that were loaded, by mangled name."""
        return {
            name: resources
            for module in self._modules.values()
            for name, resources in self._usage_of(module).items()
        }

    def leaks(self) -> tuple[int, ...]:
        """Sizes in bytes of what was allocated with cudaMalloc and is not freed."""
        return tuple(allocation.size for allocation in self.memory.leaks())

    def writers(self, tensor: torch.Tensor) -> torch.Tensor:
        """Who wrote each element of a tensor on the device.

        Returns:
            A CPU tensor of uint8, of the same shape: `native.UNWRITTEN`, where nobody wrote
            some byte, `record.KERNEL`, where kernels wrote all of it or what it was made of, else
            `record.OTHER`.
        """
        if not tensor.numel():
            return torch.zeros(tensor.shape, dtype=torch.uint8)
        width = tensor.element_size()
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        shadow = self.memory.views(tensor.data_ptr(), (last + 1) * width)[1]
        # The bytes of an element are its last dimension.
        strides = (*(stride * width for stride in tensor.stride()), 1)
        states = as_strided(shadow, (*tensor.shape, width), strides, writeable=False)
        writers = np.where((states == BY_KERNEL).all(axis=-1), KERNEL, OTHER)
        writers[(states == UNWRITTEN).any(axis=-1)] = UNWRITTEN
        return torch.from_numpy(writers.astype(np.uint8))

    def work(self) -> tuple[Work, ...]:
        """What was done on the device since the last call: operators, kernels, copies."""
        return self._record.take()

    # What the CUDA runtime asks: callbacks.Answers

    def launch(self, place: Place, launch: LaunchRequest, arguments: Arguments) -> None:
        """Run a kernel.

        Raises:
            Exception: it cannot be launched, or did not come to its end.
        """
        module = self._module(place)
        limits.check_launch(self._limits(place), launch)
        kernel = module.loaded.kernels[place.name]
        values = [
            ctypes.string_at(arguments[index], parameter.size)
            for index, parameter in enumerate(kernel.parameters)
        ]
        result = self._machine.launch(
            module.loaded,
            place.name,
            launch.grid,
            launch.block,
            launch.dynamic_shared_bytes,
            values,
            cooperative=launch.is_cooperative,
        )
        self._launches += 1
        self._thread_instructions += result.thread_instructions
        self._findings += result.findings
        if self._counters is not None and result.counters:
            before = self._counters.get(place.name)
            after = merged(before, result.counters) if before else result.counters
            self._counters[place.name] = after
        if result.fault:
            raise _Stopped(_FAULTS[result.fault])

    def symbol(self, place: Place) -> int:
        """The device address of a variable, 0 for none."""
        return self._module(place).loaded.address_of(place.name)

    def describe(self, place: Place) -> KernelFacts:
        """What cudaFuncGetAttributes tells of a kernel."""
        module, kernel = self._module(place).loaded.module, self._limits(place)
        resources = kernel.resources()
        target = re.search(r"\d+", module.target)
        constants = (v.size for v in module.variables.values() if v.space is Space.CONST)
        return KernelFacts(
            registers=resources.registers,
            max_threads=limits.max_threads(kernel),
            ptx_version=int(target[0]) if target else 0,
            static_shared=resources.shared_bytes,
            local_bytes=resources.stack_bytes,
            const_bytes=sum(constants),
        )

    def allow_shared(self, place: Place, dynamic_bytes: int) -> None:
        """Check what cudaFuncSetAttribute is to allow a kernel.

        Raises:
            RefusedLaunch: there is not so much.
        """
        limits.check_shared_memory(self._limits(place), dynamic_bytes)

    def occupancy(self, place: Place, launch: LaunchRequest) -> int:
        """How many of a launch's blocks a multiprocessor holds."""
        return limits.blocks_that_fit(self._limits(place), launch)

    def unsupported(self, what: str) -> None:
        """Note what the simulator does not have, for `observe` to raise."""
        self._failure = self._failure or UnsupportedCall(what)

    def library(self, function: str) -> None:
        """Note that a library was called, which would do the work, for `observe` to raise."""
        self._failure = self._failure or LibraryCall(function)

    # How it is answered

    def _error_of(self, error: BaseException) -> int:
        if isinstance(error, _Stopped):
            return error.error
        if isinstance(error, RefusedLaunch):
            self._runtime.sim_explain(error.error, str(error).encode())
            return error.error
        if isinstance(error, OutOfDeviceMemory):
            return CudaError.MEMORY_ALLOCATION
        if isinstance(error, BarrierDeadlock | UnmetCondition):
            # Known by its findings; a GPU would hang, and its watchdog would end the kernel.
            self._findings += error.findings
            return CudaError.LAUNCH_FAILURE
        self._failure = self._failure or error
        if isinstance(error, KernelTrap):
            return (
                CudaError.ASSERT if error.reason == ASSERTION_FAILED else CudaError.LAUNCH_FAILURE
            )
        # It is the simulator that fails, and what the host code does next shall not fail as well.
        return CudaError.NOT_SUPPORTED

    def _module(self, place: Place) -> _Module:
        if place.module not in self._modules:
            code = device_code_of(place.image)
            self._modules[place.module] = _Module(code, self._machine.load(code.ptx))
        return self._modules[place.module]

    def _limits(self, place: Place) -> Limits:
        module = self._module(place)
        if place.name not in module.limits:
            bounds = LaunchBounds.of(module.loaded.kernels[place.name])
            module.limits[place.name] = Limits(
                readable(place.name),
                bounds,
                lambda: self._resources(place),
                lambda: self._program(place).shared_bytes,
            )
        return module.limits[place.name]

    def _program(self, place: Place) -> Program:
        kernel = self._machine.prepare(self._module(place).loaded, place.name)
        return kernel.prepared.compiler.program

    def _resources(self, place: Place) -> Resources:
        usage = self._usage_of(self._module(place))
        if place.name not in usage:
            name = readable(place.name)
            raise RefusedLaunch(CudaError.INVALID_PTX, f"{name}: ptxas does not compile its PTX")
        return usage[place.name]

    def _usage_of(self, module: _Module) -> Mapping[str, Resources]:
        if module.usage is None:
            module.usage = self._usage(module.code)
        return module.usage
