"""Give this process a simulated CUDA device: load the libraries, answer their launches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.simulator.counters import KernelCounters, merged
from harness.simulator.errors import ASSERTION_FAILED, BarrierDeadlock, KernelTrap, UnmetCondition
from harness.simulator.fatbinary import ptx_of
from harness.simulator.library import Libraries
from harness.simulator.machine import Machine
from harness.simulator.memory import Memory
from harness.simulator.sanitizer import Finding
from harness.simulator.torch_cuda import DEVICE, SimulatedCuda

CUDA_SUCCESS = 0
CUDA_ERROR_ASSERT = 710
CUDA_ERROR_LAUNCH_FAILURE = 719

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint * 3),
    ctypes.POINTER(ctypes.c_uint * 3),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_void_p),
)
_SYMBOL = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class _Device(ctypes.Structure):
    """`struct sim_device` of cudart.h."""

    _fields_ = (
        ("name", ctypes.c_char * 64),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("l2_bytes", ctypes.c_int),
        ("total_memory", ctypes.c_size_t),
        ("shared_per_block", ctypes.c_size_t),
        ("shared_per_block_optin", ctypes.c_size_t),
        ("shared_per_multiprocessor", ctypes.c_size_t),
    )


@dataclass(frozen=True)
class Observed:
    """What the device saw since it was last asked."""

    findings: tuple[Finding, ...]
    launches: int
    thread_instructions: int


class SimulatedDevice:
    """The device of this process; make one, before anything else uses torch's `cuda`."""

    def __init__(self, libraries: Libraries, schedule: int = 0, cores: int = 1) -> None:
        # Extensions find the runtime's functions by name, as if they were linked with it.
        self._runtime = ctypes.CDLL(str(libraries.runtime), mode=ctypes.RTLD_GLOBAL)
        self.memory = Memory(self._runtime)
        self._machine = Machine(self.memory, schedule=schedule, cores=cores)
        self._modules: dict[int, Any] = {}
        self._texts: dict[int, str] = {}
        self._findings: list[Finding] = []
        self._launches = 0
        self._thread_instructions = 0
        self._counters: dict[str, KernelCounters] | None = None
        self._failure: BaseException | None = None
        # ctypes does not keep callbacks alive.
        self._callbacks = (_LAUNCH(self._guard(self._launch)), _SYMBOL(self._symbol))
        self._runtime.sim_connect(*self._callbacks)
        self._runtime.sim_set_device(ctypes.byref(_describe()))
        load_library: Any = torch.ops.load_library
        load_library(str(libraries.device))
        SimulatedCuda(self._runtime).install()

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

    def ptx(self) -> tuple[str, ...]:
        """The PTX of all modules that were loaded."""
        return tuple(self._texts.values())

    def leaks(self) -> tuple[int, ...]:
        """Sizes in bytes of what was allocated with cudaMalloc and is not freed."""
        return tuple(allocation.size for allocation in self.memory.leaks())

    def unwritten(self, tensor: torch.Tensor) -> torch.Tensor:
        """Which elements of a contiguous tensor on the device hold a byte that nothing wrote.

        Returns:
            A CPU tensor of bool, of the same shape.
        """
        if not tensor.numel():
            return torch.zeros(tensor.shape, dtype=torch.bool)
        width = tensor.element_size()
        unwritten = self.memory.unwritten(tensor.data_ptr(), tensor.numel() * width)
        return torch.from_numpy(unwritten.reshape(-1, width).any(axis=1)).reshape(tensor.shape)

    def _guard(self, launch: Callable[..., None]) -> Callable[..., int]:
        def guarded(*arguments: Any) -> int:
            try:
                launch(*arguments)
            except (BarrierDeadlock, UnmetCondition) as error:
                # Known by its findings; a GPU would hang, and its watchdog would end the kernel.
                self._findings += error.findings
                return CUDA_ERROR_LAUNCH_FAILURE
            except BaseException as error:  # an exception cannot cross the C code that called us
                self._failure = self._failure or error
                if isinstance(error, KernelTrap) and error.reason == ASSERTION_FAILED:
                    return CUDA_ERROR_ASSERT
                return CUDA_ERROR_LAUNCH_FAILURE
            return CUDA_SUCCESS

        return guarded

    def _launch(
        self,
        image: int,
        module: int,
        name: bytes,
        grid: Any,
        block: Any,
        dynamic_shared_bytes: int,
        arguments: Any,
    ) -> None:
        loaded = self._module(image, module)
        kernel = loaded.kernels[name.decode()]
        values = [
            ctypes.string_at(arguments[index], parameter.size)
            for index, parameter in enumerate(kernel.parameters)
        ]
        result = self._machine.launch(
            loaded,
            name.decode(),
            tuple(grid.contents),
            tuple(block.contents),
            dynamic_shared_bytes,
            values,
        )
        self._launches += 1
        self._thread_instructions += result.thread_instructions
        self._findings += result.findings
        if self._counters is not None and result.counters:
            before = self._counters.get(name.decode())
            after = merged(before, result.counters) if before else result.counters
            self._counters[name.decode()] = after

    def _symbol(self, image: int, module: int, name: bytes) -> int:
        return int(self._module(image, module).address_of(name.decode()))

    def _module(self, image: int, module: int) -> Any:
        if module not in self._modules:
            self._texts[module] = ptx_of(image)
            self._modules[module] = self._machine.load(self._texts[module])
        return self._modules[module]


def _describe() -> _Device:
    return _Device(
        name=DEVICE.name.encode(),
        major=DEVICE.major,
        minor=DEVICE.minor,
        multiprocessors=DEVICE.multi_processor_count,
        l2_bytes=DEVICE.L2_cache_size,
        total_memory=DEVICE.total_memory,
        shared_per_block=DEVICE.shared_memory_per_block,
        shared_per_block_optin=DEVICE.shared_memory_per_block_optin,
        shared_per_multiprocessor=DEVICE.shared_memory_per_multiprocessor,
    )
