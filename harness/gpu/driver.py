"""The CUDA driver's functions that torch does not offer, called through ctypes.

The driver's interface is stable across releases. Every call uses torch's CUDA context, which torch
makes current in a thread at the thread's first operation on the GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_HANDLE_BYTES = 64
# CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag that exists.
_LAZY_PEER_ACCESS = 1
# CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP
_FOR_KERNELS = ctypes.c_uint(0x01 | 0x02)

# Names of the dtypes of inputs and outputs in NumPy's array interface.
_TYPE_NAMES = {
    torch.float64: "<f8",
    torch.float32: "<f4",
    torch.float16: "<f2",
    torch.int64: "<i8",
    torch.int32: "<i4",
    torch.uint8: "|u1",
}


class DriverError(RuntimeError):
    """A function of the CUDA driver failed; the message has its name and CUDA's error text.

    Attributes:
        status: The CUresult, whose numbers equal those of cudaError_t.
        text: CUDA's description of the error.
    """

    def __init__(self, name: str, status: int, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.status = status
        self.text = text


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


@dataclass(frozen=True)
class _Memory:
    """A piece of device memory in the form that `torch.as_tensor` accepts."""

    address: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": _TYPE_NAMES[self.dtype],
            "data": (self.address, False),
            "version": 3,
            "strides": None,
        }


class Driver:
    """The functions of the driver library, libcuda."""

    def __init__(self) -> None:
        # This makes torch's context current in this thread.
        torch.zeros(1, device="cuda")
        self._library = ctypes.CDLL("libcuda.so.1")

    def allocate(self, nbytes: int) -> int:
        """Allocate device memory outside torch's allocator, and return the address.

        Memory from torch's allocator must not be exported: its blocks can contain other tensors
        too, and a process that opens one tensor sees the whole block.
        """
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        """Free memory that `allocate` returned."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def export(self, address: int) -> str:
        """Return a handle, in hexadecimal, with which another process opens this memory."""
        handle = _IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle).hex()

    def open(self, handle: str) -> int:
        """Map memory that another process exported, and return its address in this process."""
        address = ctypes.c_uint64()
        opened = _IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        flags = ctypes.c_uint(_LAZY_PEER_ACCESS)
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), opened, flags)
        return address.value

    def close(self, address: int) -> None:
        """Unmap memory that `open` mapped."""
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def forget_persisting_lines(self) -> None:
        """Make the persisting lines of the L2 cache normal lines, so that they can be evicted."""
        self.call("cuCtxResetPersistingL2Cache")

    def kernel(self, ptx: bytes, name: bytes) -> int:
        """Load a module from PTX; return a permanent handle of its kernel `name`."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name))
        assert function.value is not None  # noqa: S101 - the call has succeeded
        return function.value

    def launch(self, kernel: int, blocks: int, threads: int, words: Sequence[int]) -> None:
        """Launch a kernel on torch's current stream, with 64-bit words as its arguments."""
        values = (ctypes.c_uint64 * len(words))(*words)
        start, size = ctypes.addressof(values), ctypes.sizeof(ctypes.c_uint64)
        arguments = (ctypes.c_void_p * len(words))(*(start + size * i for i in range(len(words))))
        sizes = [ctypes.c_uint(size) for size in (blocks, 1, 1, threads, 1, 1, 0)]
        self.call(
            "cuLaunchKernel",
            ctypes.c_void_p(kernel),
            *sizes,
            current_stream(),
            arguments,
            ctypes.c_void_p(),
        )

    def host_word(self) -> ctypes.c_uint64:
        """Return a 64-bit word of host memory, set to 0, which kernels see at the same address.

        The word is never freed.
        """
        address = ctypes.c_void_p()
        size = ctypes.sizeof(ctypes.c_uint64)
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), _FOR_KERNELS)
        assert address.value is not None  # noqa: S101 - the call has succeeded
        word = ctypes.c_uint64.from_address(address.value)
        word.value = 0
        return word

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver; raise `DriverError` if it fails."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise DriverError(name, status, (text.value or b"unknown error").decode())


def current_stream() -> ctypes.c_void_p:
    """Return the driver's handle of torch's current stream."""
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def tensor_at(address: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a contiguous tensor over existing device memory, which must outlive the tensor."""
    return torch.as_tensor(_Memory(address, shape, dtype), device="cuda")
