"""A real GPU with the interface of the simulated `Machine`, so that the same tests run on it.

The GPU's driver compiles the same PTX that the simulator executes.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.compiler.toolchain import find_cuda_compiler
from harness.simulator.execution.machine import LaunchResult

_ERROR_TEXT = 4096


class GpuError(RuntimeError):
    """A call of the CUDA driver failed; the message has the function's name and CUDA's error."""


class GpuMemory:
    """Memory of the GPU, with the methods of the simulated `Memory` that the tests use."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def allocate(self, nbytes: int) -> int:
        """Allocate `nbytes` bytes, at least one, and return the address, which is never 0."""
        address = ctypes.c_uint64()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(nbytes, 1)))
        return address.value

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes from the host to an address on the GPU."""
        size = ctypes.c_size_t(len(data))
        self._driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)

    def read(self, address: int, nbytes: int) -> bytes:
        """Copy `nbytes` bytes from an address on the GPU to the host."""
        target = ctypes.create_string_buffer(nbytes)
        source = ctypes.c_uint64(address)
        self._driver.call("cuMemcpyDtoH_v2", target, source, ctypes.c_size_t(nbytes))
        return target.raw


@dataclass(frozen=True)
class GpuModule:
    """A PTX module that the CUDA driver has compiled and loaded.

    Attributes:
        driver: The driver that loaded the module.
        handle: The driver's handle of the module (CUmodule).
        kernels: Mangled names of the module's kernels.
    """

    driver: Driver
    handle: ctypes.c_void_p
    kernels: frozenset[str]

    def address_of(self, variable: str) -> int:
        """Return the address of a variable, or 0 if the module has no variable of that name."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        places = ctypes.byref(address), ctypes.byref(size)
        self.driver.status("cuModuleGetGlobal_v2", *places, self.handle, variable.encode())
        return address.value


class Driver:
    """The CUDA driver (libcuda, through ctypes), with a CUDA context on the first GPU."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self._device = device
        self._context = ctypes.c_void_p()
        self.call("cuCtxCreate_v2", ctypes.byref(self._context), 0, device)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the CUDA driver by name.

        Raises:
            GpuError: The function returned an error.
        """
        status = self.status(name, *arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise GpuError(f"{name}: {(text.value or b'unknown error').decode()}")

    def status(self, name: str, *arguments: object) -> int:
        """Call a function of the CUDA driver by name; return its status, which is 0 on success."""
        return int(getattr(self._library, name)(*arguments))

    def describe(self) -> dict[str, str]:
        """Return the GPU's name, the CUDA version that the driver supports, and nvcc's version."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self._device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        major, minor = divmod(version.value, 1000)
        return {
            "gpu": name.value.decode(),
            "driver supports CUDA": f"{major}.{minor // 10}",
            "nvcc": find_cuda_compiler().version,
        }

    def reset(self) -> None:
        """Replace the CUDA context by a new one, which is free of earlier errors."""
        self._library.cuCtxDestroy_v2(self._context)
        self.call("cuCtxCreate_v2", ctypes.byref(self._context), 0, self._device)


class GpuMachine:
    """A GPU with the methods of the simulated `Machine` that the tests use."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.memory = GpuMemory(driver)

    def load(self, ptx_text: str) -> GpuModule:
        """Compile and load a PTX text with the CUDA driver.

        Raises:
            GpuError: The driver could not compile the text; the message includes the driver's log.
        """
        handle = ctypes.c_void_p()
        log = ctypes.create_string_buffer(_ERROR_TEXT)
        # CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
        options = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _ERROR_TEXT)
        try:
            self._driver.call(
                "cuModuleLoadDataEx", ctypes.byref(handle), ptx_text.encode(), 2, options, values
            )
        except GpuError as error:
            raise GpuError(f"{error}: {log.value.decode(errors='replace')}") from None
        names = re.findall(r"\.entry\s+([\w$]+)", ptx_text)
        return GpuModule(self._driver, handle, frozenset(names))

    def encode_tiled(self, *arguments: object) -> int:
        """Call cuTensorMapEncodeTiled and return its status, which is 0 on success."""
        return self._driver.status("cuTensorMapEncodeTiled", *arguments)

    def launch(
        self,
        loaded: GpuModule,
        kernel_name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared_bytes: int,
        parameters: Sequence[bytes],
        *,
        cooperative: bool = False,
    ) -> LaunchResult:
        """Run a kernel, and wait until it has ended.

        Raises:
            GpuError: The driver refused the launch, or the kernel failed, for example by an illegal
                access.
        """
        function = ctypes.c_void_p()
        self._driver.call(
            "cuModuleGetFunction", ctypes.byref(function), loaded.handle, kernel_name.encode()
        )
        if dynamic_shared_bytes:
            # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.call("cuFuncSetAttribute", function, 8, dynamic_shared_bytes)
        buffers = [ctypes.create_string_buffer(value, len(value)) for value in parameters]
        arguments = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        launch = (function, *grid, *block, dynamic_shared_bytes, None, arguments)
        if cooperative:
            self._driver.call("cuLaunchCooperativeKernel", *launch)
        else:
            self._driver.call("cuLaunchKernel", *launch, None)
        self._driver.call("cuCtxSynchronize")
        return LaunchResult((), 0)
