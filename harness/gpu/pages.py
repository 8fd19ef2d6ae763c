"""Pages of a GPU's memory at addresses of our own, by the driver's virtual memory management."""

from __future__ import annotations

import ctypes

from harness.gpu.driver import Driver

_PINNED = 1
"""CU_MEM_ALLOCATION_TYPE_PINNED, which is all of a GPU's memory."""
_DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE."""
_READ_AND_WRITE = 3
"""CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""


class _Location(ctypes.Structure):
    """`CUmemLocation`."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """`CUmemAllocationProp`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class _Access(ctypes.Structure):
    """`CUmemAccessDesc`."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class Pages:
    """One range of addresses, parts of which have memory behind them.

    Attributes:
        base: The first address.
        size: Bytes of addresses.
        granularity: What sizes and places of parts are multiples of, in bytes.
    """

    def __init__(self, driver: Driver, size: int, wanted: int) -> None:
        """Reserve so many bytes of addresses, at `wanted` if the driver lets it be there."""
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
        """Put memory behind addresses; answers its handle, for `strip`.

        Raises:
            harness.gpu.driver.DriverError: there is none left.
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
        """Take that memory from its addresses, which nobody uses any more, and give it back."""
        self._driver.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(nbytes))
        self._driver.call("cuMemRelease", ctypes.c_uint64(handle))
