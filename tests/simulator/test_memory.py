"""Device memory: allocation, poison in new memory, initialised bytes, and sparse allocations."""

import numpy as np
import pytest

from harness.simulator.hardware.errors import UnsupportedCall
from harness.simulator.hardware.memory import POISON, Memory, NotAnAllocation, OutOfDeviceMemory

pytestmark = pytest.mark.simulator_only


def test_fresh_memory_is_poisoned_aligned_and_unwritten(memory: Memory) -> None:
    """New device memory reads as float NaN (poison) and counts as unwritten.

    It starts at a multiple of 512 bytes.
    """
    address = memory.allocate(24)
    assert address % 512 == 0
    words = np.frombuffer(memory.read(address, 24), np.uint32)
    assert (words == POISON).all()
    assert np.isnan(words.view(np.float32)).all()
    assert memory.unwritten(address, 24).all()


def test_writes_are_remembered_byte_by_byte(memory: Memory) -> None:
    """Each byte of device memory counts as initialised once it has been written."""
    address = memory.allocate(8)
    memory.write(address + 2, b"abc")
    assert memory.unwritten(address, 8).tolist() == [True] * 2 + [False] * 3 + [True] * 3
    assert memory.read(address + 2, 3) == b"abc"


def test_addresses_are_never_used_again(memory: Memory) -> None:
    """Addresses of freed memory are never reused, so every use after free is found."""
    first = memory.allocate(100)
    memory.free(first)
    assert memory.allocate(100) > first
    found = memory.find(first + 99)
    assert found
    assert not found.is_live
    with pytest.raises(NotAnAllocation):
        memory.read(first, 1)


def test_only_live_starts_can_be_freed(memory: Memory) -> None:
    """Freeing an address raises NotAnAllocation unless a live allocation starts there.

    Examples are an allocation that is freed twice, an address inside one, and a host address.
    """
    address = memory.allocate(100)
    for wrong in (address + 1, address - 1, 4096):
        with pytest.raises(NotAnAllocation):
            memory.free(wrong)
    memory.free(address)
    with pytest.raises(NotAnAllocation):
        memory.free(address)


def test_limit_of_live_bytes(memory: Memory) -> None:
    """Allocating beyond `Memory.limit` fails until enough memory is freed."""
    before, limit = memory.live_bytes, memory.limit
    try:
        memory.limit = before + 1000
        address = memory.allocate(600)
        with pytest.raises(OutOfDeviceMemory):
            memory.allocate(401)
        memory.free(address)
        memory.free(memory.allocate(1000))
    finally:
        memory.limit = limit
    assert memory.live_bytes == before


def test_allocations_are_apart(memory: Memory) -> None:
    """Neighbouring allocations are at least 4096 unmapped bytes apart."""
    for size in (1, 4096, 65536):
        start, following = memory.allocate(size), memory.allocate(1)
        assert following - (start + size) >= 4096
    first = memory.allocate(1)
    assert memory.find(first + 1) is None
    nearest = memory.nearest(first + 1)
    assert nearest
    assert nearest.start == first


def test_nothing_is_allocated_for_zero_bytes(memory: Memory) -> None:
    """Allocating zero bytes returns a null pointer, as cudaMalloc of zero bytes does."""
    assert memory.library.sim_alloc(0) is None


def test_copies_carry_what_is_written(memory: Memory) -> None:
    """Bytes that are copied from uninitialised device memory stay uninitialised.

    After a copy from the host, all copied bytes are initialised.
    """
    source, target = memory.allocate(8), memory.allocate(8)
    memory.write(source, b"1234")
    memory.library.sim_copy_written(target, source, 8)
    assert memory.unwritten(target, 8).tolist() == [False] * 4 + [True] * 4
    host = np.zeros(8, np.uint8)
    memory.library.sim_copy_written(target, host.ctypes.data, 8)
    assert not memory.unwritten(target, 8).any()


def test_marks_stop_at_the_end_of_an_allocation(memory: Memory) -> None:
    """Marking bytes as written does not reach past the end of the allocation.

    Marking host memory has no effect.
    """
    first, second = memory.allocate(8), memory.allocate(8)
    memory.library.sim_mark_written(first, 12)
    assert not memory.unwritten(first, 8).any()
    assert memory.unwritten(second, 8).all()
    memory.library.sim_mark_written(4096, 8)


def test_sparse_memory_is_there_where_it_is_touched(memory: Memory) -> None:
    """A large sparse allocation may exceed the host's memory, and reads as zeros.

    It does not count towards `live_bytes`. Reading, viewing or filling all of it at once is
    refused. `be_sparse` affects only allocations made while it is on.
    """
    before = memory.live_bytes
    memory.be_sparse(True)
    try:
        address = memory.allocate(64 << 30)
        small = memory.allocate(24)
    finally:
        memory.be_sparse(False)
    assert memory.live_bytes == before + 24
    assert np.frombuffer(memory.read(small, 4), np.uint32) == POISON
    far = address + (63 << 30)
    assert memory.read(far, 4) == bytes(4)
    assert memory.unwritten(far, 4).all()
    memory.write(far, b"abcd")
    assert memory.read(far, 4) == b"abcd"
    for use in (memory.read, memory.views, lambda start, size: memory.fill(start, 0, size)):
        with pytest.raises(UnsupportedCall):
            use(address, 64 << 30)
    memory.free(address)
    memory.free(small)
    assert memory.live_bytes == before
