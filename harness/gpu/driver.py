"""The few calls of the CUDA driver that torch does not offer, through ctypes.

The driver's interface is stable across releases. Every call works in the context that torch makes
current in a thread with its first operation on the GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_HANDLE_BYTES = 64
# CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag that there is.
_LAZY_PEER_ACCESS = 1
# CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP
_FOR_KERNELS = ctypes.c_uint(0x01 | 0x02)

# How NumPy's array interface calls the types of inputs and outputs.
_TYPE_NAMES = {
    torch.float64: "<f8",
    torch.float32: "<f4",
    torch.float16: "<f2",
    torch.int64: "<i8",
    torch.int32: "<i4",
    torch.uint8: "|u1",
}


class DriverError(RuntimeError):
    """A call of the driver failed; the message names it and CUDA's error.

    Attributes:
        status: The CUresult, whose numbers are those of cudaError_t.
        text: What CUDA says of it.
    """

    def __init__(self, name: str, status: int, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.status = status
        self.text = text


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


@dataclass(frozen=True)
class _Memory:
    """Device memory as torch.as_tensor takes it."""

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
    """libcuda."""

    def __init__(self) -> None:
        # torch's context becomes this thread's.
        torch.zeros(1, device="cuda")
        self._library = ctypes.CDLL("libcuda.so.1")

    def allocate(self, nbytes: int) -> int:
        """The address of memory that torch's allocator knows nothing of.

        A block of that allocator can hold other tensors too, and another process that opens one
        of them sees the whole block.
        """
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def export(self, address: int) -> str:
        """What another process needs to see this memory, in hexadecimal."""
        handle = _IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle).hex()

    def open(self, handle: str) -> int:
        """The address at which this process sees another's memory."""
        address = ctypes.c_uint64()
        opened = _IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        flags = ctypes.c_uint(_LAZY_PEER_ACCESS)
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), opened, flags)
        return address.value

    def close(self, address: int) -> None:
        """The inverse of `open`."""
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def forget_persisting_lines(self) -> None:
        """Let nothing stay in the L2 cache for having been marked as persisting."""
        self.call("cuCtxResetPersistingL2Cache")

    def kernel(self, ptx: bytes, name: bytes) -> int:
        """A kernel of some PTX, which stays loaded as long as the process lives."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name))
        assert function.value is not None  # noqa: S101 - the call has succeeded
        return function.value

    def launch(self, kernel: int, blocks: int, threads: int, words: Sequence[int]) -> None:
        """Enqueue a kernel whose arguments are 64-bit words on torch's current stream."""
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
        """A word of this process's that kernels see at the same address, 0 so far.

        It is there as long as the process is.
        """
        address = ctypes.c_void_p()
        size = ctypes.sizeof(ctypes.c_uint64)
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), _FOR_KERNELS)
        assert address.value is not None  # noqa: S101 - the call has succeeded
        word = ctypes.c_uint64.from_address(address.value)
        word.value = 0
        return word

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver; raises `DriverError` where it does not succeed."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise DriverError(name, status, (text.value or b"unknown error").decode())


def current_stream() -> ctypes.c_void_p:
    """Torch's, as the driver has it."""
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def tensor_at(address: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A contiguous tensor on memory that is there already, and stays as long as it is used."""
    return torch.as_tensor(_Memory(address, shape, dtype), device="cuda")
