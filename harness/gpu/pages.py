"""GPU memory at chosen device addresses, through the driver's virtual memory management."""

from __future__ import annotations

import ctypes

from harness.gpu.driver import Driver

_PINNED = 1
"""CU_MEM_ALLOCATION_TYPE_PINNED, the type of all GPU memory."""
_DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE."""
_READ_AND_WRITE = 3
"""CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""


class _Location(ctypes.Structure):
    """The driver's struct `CUmemLocation`."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """The driver's struct `CUmemAllocationProp`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class _Access(ctypes.Structure):
    """The driver's struct `CUmemAccessDesc`."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Pages:
    """A reserved range of device addresses; the driver can map memory to parts of the range.

    Attributes:
        base: First device address.
        size: Size of the range in bytes.
        granularity: Unit of mappings in bytes; address and size of each mapped part are multiples
            of this.
    """

    def __init__(self, driver: Driver, size: int, wanted: int) -> None:
        """Reserve `size` bytes of addresses, beginning at `wanted` if the driver allows that."""
        self._driver = driver
        device = ctypes.c_int()
        driver.call("cuCtxGetDevice", ctypes.byref(device))
        self._location = _Location(_DEVICE, device.value)
        self._properties = _Properties(type=_PINNED, location=self._location)
        granularity = ctypes.c_size_t()
        driver.call(
            "cuMemGetAllocationGranularity",
            ctypes.byref(granularity),
            ctypes.byref(self._properties),
            ctypes.c_int(0),
        )
        self.granularity = granularity.value
        address = ctypes.c_uint64()
        driver.call(
            "cuMemAddressReserve",
            ctypes.byref(address),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            ctypes.c_uint64(wanted),
            ctypes.c_uint64(0),
        )
        self.base = address.value
        self.size = size

    def back(self, address: int, nbytes: int) -> int:
        """Map new memory at an address; return the memory's handle, which `strip` needs.

        Raises:
            harness.gpu.driver.DriverError: The GPU has too little free memory.
        """
        handle = ctypes.c_uint64()
        self._driver.call(
            "cuMemCreate",
            ctypes.byref(handle),
            ctypes.c_size_t(nbytes),
            ctypes.byref(self._properties),
            ctypes.c_uint64(0),
        )
        there = ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
        self._driver.call("cuMemMap", *there, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = _Access(self._location, _READ_AND_WRITE)
        self._driver.call("cuMemSetAccess", *there, ctypes.byref(access), ctypes.c_size_t(1))
        return handle.value

    def strip(self, address: int, nbytes: int, handle: int) -> None:
        """Unmap memory from its address and free it; no queued work may use it any more."""
        self._driver.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(nbytes))
        self._driver.call("cuMemRelease", ctypes.c_uint64(handle))
