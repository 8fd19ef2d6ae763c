"""The device on a real GPU, which loads modules and launches kernels through the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import torch

from harness.device.executor import Assembler, Executor, KernelFacts, NoSuchKernel
from harness.device.gpu_memory import GpuMemory
from harness.device.record import Record
from harness.device.tensor_maps import arguments_of, with_real_maps
from harness.finding import Finding
from harness.gpu.cold_cache import ColdCache
from harness.gpu.driver import Driver, DriverError, current_stream
from harness.gpu.properties import properties_of_gpu
from harness.gpu.side_streams import SideStreams
from harness.gpu.stopwatch import Stopwatch
from harness.gpu.window import ImportedMemory
from harness.simulator.counters.counters import KernelCounters
from harness.simulator.execution.chosen import AtRandom, Near
from harness.simulator.execution.coverage import Lines
from harness.simulator.hardware.cuda_error import CudaError
from harness.simulator.hardware.errors import LibraryCall, UnsupportedCall
from harness.simulator.hardware.limits import STACK_BYTES, LaunchRequest
from harness.simulator.hardware.memory import NotAnAllocation, OutOfDeviceMemory
from harness.simulator.hardware.resources import Resources
from harness.simulator.layout.memory import TensorMapEntry
from harness.simulator.ptx.fatbinary import device_code_of

# CUfunction_attribute
_MAX_THREADS, _SHARED_BYTES, _CONST_BYTES, _LOCAL_BYTES, _REGISTERS, _PTX_VERSION = range(6)
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTERS = 8, 14
# CUlaunchAttributeID
_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4
_LARGEST_PORTABLE_CLUSTER = 8
# CUlimit
_STACK_SIZE = 0
# Share of the GPU's memory for allocations. Temporary tensors of torch's operators need the rest.
_SHARE_OF_MEMORY = 0.9
_MAP_ALIGNMENT = 64


class _LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute`; its value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint32 * 16))


class _LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


@dataclass
class _Kernel:
    function: int
    parameters: tuple[int, ...]


@dataclass
class _Module:
    handle: int
    kernels: dict[str, _Kernel] = field(default_factory=dict)


class GpuDevice:
    """An `executor.Device` on a GPU.

    Except in timed calls, it waits until each launch has ended. So a kernel's fault is returned by
    the call that launched the kernel, not by a later one.
    """

    def __init__(
        self,
        driver: Driver,
        memory: GpuMemory,
        record: Record,
        assembler: Assembler,
        stopwatch: Stopwatch,
    ) -> None:
        self._driver = driver
        self._memory = memory
        self._record = record
        self._assembler = assembler
        self._encode = partial(encoded_map, driver)
        self._modules: dict[int, _Module] = {}
        self._failure: BaseException | None = None
        self._stopwatch = stopwatch
        self._cache: ColdCache | None = None
        self._is_timing = False
        self._stack_bytes = STACK_BYTES
        self.properties = properties_of_gpu()

    # What the trusted side asks

    @property
    def broken_by(self) -> str:
        """Text of the error with which a kernel has broken the CUDA context; empty if none has.

        Every later call of the driver returns this error.
        """
        try:
            self.wait()
        except DriverError as error:
            return error.text
        return ""

    @property
    def spent(self) -> int:
        """0, since a step on a GPU has a deadline instead of a limit of work."""
        return 0

    def observe(self) -> tuple[Finding, ...]:
        """Return the memcheck findings since the last call.

        Raises:
            BaseException: An error that `unsupported`, `library` or `refused` has stored.
        """
        failure, self._failure = self._failure, None
        if failure:
            raise failure
        return () if self.broken_by else tuple(self._memory.overwritten())

    def reorder(self, schedule: int | None) -> None:
        """Do nothing, since a GPU itself chooses the order of blocks and warps."""

    def allow(self, work: int | None) -> None:
        """Do nothing, since a step on a GPU has no limit of work, only a deadline."""

    @property
    def share_of_blocks(self) -> float:
        """1, since a GPU always runs all blocks of a launch."""
        return 1.0

    def work_near(self, near: Near | AtRandom | None) -> None:
        """Raise `UnsupportedCall` if `near` selects blocks, which a GPU cannot do."""
        if near:
            raise UnsupportedCall("running a few blocks of a kernel only")

    def start_counting(self) -> None:
        """Do nothing, since only the simulator counts what kernels do."""

    def counted(self) -> dict[str, KernelCounters]:
        """Return an empty mapping, since only the simulator counts what kernels do."""
        return {}

    def start_timing(self) -> None:
        """Start to time the device's work, with a cold cache and poisoned free memory."""
        self._cache = self._cache or ColdCache(self._driver)
        self._memory.poison_free()
        self._cache.empty()
        self._is_timing = True
        self._stopwatch.begin()

    def timed(self) -> float:
        """Wait for the device; return how many milliseconds it worked, or 0 if it was not timed."""
        if not self._is_timing:
            return 0.0
        self._is_timing = False
        return self._stopwatch.stop()

    def resources(self) -> dict[str, Resources]:
        """Return an empty mapping, since reports need resources only together with counters."""
        return {}

    def lines(self, file: str) -> Lines:
        """Return no lines, since a GPU does not record which lines of code have run."""
        del file
        return Lines((), (), (), ())

    def close(self) -> None:
        """Do nothing, since this device has no helper processes."""

    # What the CUDA runtime asks

    def load(self, image: bytes) -> int:
        """Compile a fat binary's PTX with ptxas, load it, and return the module's number (from 1).

        Raises:
            DriverError: ptxas or the driver refuses the module.
        """
        cubin = self._assembler.cubin(device_code_of(image))
        if not cubin:
            raise DriverError("ptxas", CudaError.INVALID_PTX, "the PTX does not compile")
        handle = ctypes.c_void_p()
        self._driver.call("cuModuleLoadData", ctypes.byref(handle), ctypes.c_char_p(cubin))
        number = len(self._modules) + 1
        self._modules[number] = _Module(handle.value or 0)
        return number

    def parameters(self, module: int, name: str) -> tuple[int, ...]:
        """Return the size in bytes of each parameter of a kernel; may raise `NoSuchKernel`."""
        return self._kernel(module, name).parameters

    def check(self, module: int, name: str, launch: LaunchRequest) -> None:
        """Do nothing, since the driver itself refuses an invalid launch."""

    def launch(self, module: int, name: str, launch: LaunchRequest, arguments: bytes) -> None:
        """Run a kernel on torch's current stream; the arguments are as in `Device.launch`."""
        kernel = self._kernel(module, name)
        self._resize_stack(launch.stack_bytes)
        if prod(launch.cluster) > _LARGEST_PORTABLE_CLUSTER:
            self._set(kernel, _NON_PORTABLE_CLUSTERS, 1)
        attributes = _attributes(launch)
        config = _LaunchConfig(
            grid=launch.grid,
            block=launch.block,
            shared=launch.dynamic_shared_bytes,
            stream=current_stream(),
            attributes=attributes,
            count=len(attributes),
        )
        real = with_real_maps(arguments, self._encode)
        values, pointers = _pointers(real, kernel.parameters)
        with self._memory.queueing():
            self._driver.call(
                "cuLaunchKernelEx",
                ctypes.byref(config),
                ctypes.c_void_p(kernel.function),
                pointers,
                ctypes.c_void_p(),
            )
        del values
        self._memory.launched(arguments)
        self._record.add("kernel", name)
        if not self._is_timing:
            self.wait()

    def wait(self) -> None:
        """Wait for all work of the device.

        Raises:
            DriverError: A kernel has broken the context.
        """
        self._driver.call("cuCtxSynchronize")

    def symbol(self, module: int, name: str) -> int:
        """Return the address of a module's device variable, or 0 if it has none of that name.

        Raises:
            NoSuchKernel: The module does not exist.
        """
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        try:
            self._driver.call(
                "cuModuleGetGlobal_v2",
                ctypes.byref(address),
                ctypes.byref(size),
                ctypes.c_void_p(self._module(module).handle),
                ctypes.c_char_p(name.encode()),
            )
        except DriverError as error:
            if error.status == CudaError.NOT_FOUND:
                return 0
            raise
        self._memory.add_variable(address.value, size.value)
        return address.value

    def describe(self, module: int, name: str) -> KernelFacts:
        """Return a kernel's attributes, as cudaFuncGetAttributes does."""
        kernel = self._kernel(module, name)
        return KernelFacts(
            registers=self._get(kernel, _REGISTERS),
            max_threads=self._get(kernel, _MAX_THREADS),
            ptx_version=self._get(kernel, _PTX_VERSION),
            static_shared=self._get(kernel, _SHARED_BYTES),
            local_bytes=self._get(kernel, _LOCAL_BYTES),
            const_bytes=self._get(kernel, _CONST_BYTES),
        )

    def allow_shared(self, module: int, name: str, dynamic_bytes: int) -> None:
        """Allow a kernel `dynamic_bytes` of dynamic shared memory, as cudaFuncSetAttribute does."""
        self._set(self._kernel(module, name), _MAX_DYNAMIC_SHARED, dynamic_bytes)

    def occupancy(self, module: int, name: str, launch: LaunchRequest) -> int:
        """Return how many of a launch's blocks one multiprocessor can hold."""
        blocks = ctypes.c_int()
        self._driver.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(blocks),
            ctypes.c_void_p(self._kernel(module, name).function),
            ctypes.c_int(launch.threads),
            ctypes.c_size_t(launch.dynamic_shared_bytes),
        )
        return blocks.value

    def unsupported(self, what: str) -> None:
        """Store the name of a feature that the device lacks, for `observe` to raise."""
        self._failure = self._failure or UnsupportedCall(what)

    def library(self, function: str) -> None:
        """Store the name of a library function that the submission called to do a kernel's work.

        The next `observe` raises a `LibraryCall` with this name.
        """
        self._failure = self._failure or LibraryCall(function)

    def refused(self, error: BaseException) -> tuple[int, str]:
        """Return the cudaError_t for a call that raised `error`; the reason is always empty.

        For an error without a cudaError_t, the result is cudaErrorNotSupported, and `observe` later
        raises the error.
        """
        if isinstance(error, DriverError):
            return error.status, ""
        known: Mapping[type[BaseException], CudaError] = {
            OutOfDeviceMemory: CudaError.MEMORY_ALLOCATION,
            NotAnAllocation: CudaError.INVALID_VALUE,
            NoSuchKernel: CudaError.INVALID_DEVICE_FUNCTION,
        }
        for kind, status in known.items():
            if isinstance(error, kind):
                return status, ""
        self._failure = self._failure or error
        return CudaError.NOT_SUPPORTED, ""

    # Helpers

    def _resize_stack(self, nbytes: int) -> None:
        """Set the size of a thread's stack, as cudaDeviceSetLimit does."""
        if nbytes != self._stack_bytes:
            size = ctypes.c_size_t(nbytes)
            self._driver.call("cuCtxSetLimit", ctypes.c_int(_STACK_SIZE), size)
            self._stack_bytes = nbytes

    def _module(self, number: int) -> _Module:
        if number not in self._modules:
            raise NoSuchKernel(number)
        return self._modules[number]

    def _kernel(self, number: int, name: str) -> _Kernel:
        module = self._module(number)
        if name not in module.kernels:
            function = ctypes.c_void_p()
            try:
                self._driver.call(
                    "cuModuleGetFunction",
                    ctypes.byref(function),
                    ctypes.c_void_p(module.handle),
                    ctypes.c_char_p(name.encode()),
                )
            except DriverError as error:
                if error.status == CudaError.NOT_FOUND:
                    raise NoSuchKernel(name) from None
                raise
            handle = function.value or 0
            module.kernels[name] = _Kernel(handle, tuple(self._parameters(handle)))
        return module.kernels[name]

    def _parameters(self, function: int) -> Sequence[int]:
        """Return the sizes in bytes of a function's parameters.

        Their number is found by trying, because the driver refuses an index that is too large.
        """
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            try:
                self._driver.call(
                    "cuFuncGetParamInfo",
                    ctypes.c_void_p(function),
                    ctypes.c_size_t(len(sizes)),
                    ctypes.byref(offset),
                    ctypes.byref(size),
                )
            except DriverError as error:
                if error.status == CudaError.INVALID_VALUE:
                    return sizes
                raise
            sizes.append(size.value)

    def _get(self, kernel: _Kernel, attribute: int) -> int:
        value = ctypes.c_int()
        self._driver.call(
            "cuFuncGetAttribute",
            ctypes.byref(value),
            ctypes.c_int(attribute),
            ctypes.c_void_p(kernel.function),
        )
        return value.value

    def _set(self, kernel: _Kernel, attribute: int, value: int) -> None:
        self._driver.call(
            "cuFuncSetAttribute",
            ctypes.c_void_p(kernel.function),
            ctypes.c_int(attribute),
            ctypes.c_int(value),
        )


def encoded_map(driver: Driver, entry: TensorMapEntry) -> bytes:
    """Return a tensor map in the driver's encoding; raises `DriverError` if the driver refuses."""
    room = ctypes.create_string_buffer(ctypes.sizeof(TensorMapEntry) + _MAP_ALIGNMENT)
    start = -(-ctypes.addressof(room) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    driver.call("cuTensorMapEncodeTiled", ctypes.c_void_p(start), *arguments_of(entry))
    return ctypes.string_at(start, ctypes.sizeof(TensorMapEntry))


def gpu(record: Record, assembler: Assembler) -> Executor:
    """Return torch's current GPU as an executor; this gives the process a CUDA context."""
    driver = Driver()
    _, total = torch.cuda.mem_get_info()
    limit = int(_SHARE_OF_MEMORY * total)
    streams = SideStreams(driver)
    stopwatch = Stopwatch(driver, streams)
    memory = GpuMemory(driver, limit, partial(encoded_map, driver), stopwatch)
    device = GpuDevice(driver, memory, record, assembler, stopwatch)
    return Executor(memory, device, ImportedMemory(), streams)


def _attributes(launch: LaunchRequest) -> ctypes.Array[_LaunchAttribute]:
    asked: list[_LaunchAttribute] = []
    if launch.is_cooperative:
        asked.append(_LaunchAttribute(id=_COOPERATIVE, value=(1,)))
    if prod(launch.cluster):
        asked.append(_LaunchAttribute(id=_CLUSTER_DIMENSION, value=launch.cluster))
    return (_LaunchAttribute * len(asked))(*asked)


def _pointers(
    arguments: bytes, sizes: Sequence[int]
) -> tuple[object, ctypes.Array[ctypes.c_void_p]]:
    """Return a buffer with a kernel's arguments, and a pointer to each argument in it.

    The buffer must be kept as long as the pointers are used.
    """
    # Each argument begins at an address that is aligned for any type.
    starts, at = [], 0
    for size in sizes:
        starts.append(at)
        at += -(-size // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    room = ctypes.create_string_buffer(at + _MAP_ALIGNMENT)
    base = -(-ctypes.addressof(room) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    taken = 0
    for start, size in zip(starts, sizes, strict=True):
        ctypes.memmove(base + start, arguments[taken : taken + size], size)
        taken += size
    return room, (ctypes.c_void_p * len(sizes))(*(base + start for start in starts))
