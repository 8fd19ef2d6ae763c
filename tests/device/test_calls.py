"""Hostile calls from workers to the device process, with real processes and sockets.

The device process executes kernels. The trusted side judges, and a worker runs a submission.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Iterator

import pytest
import torch

from harness.compiler.cache import Cache, default_root
from harness.device.place import Place
from harness.device.process import DeviceClient, DeviceProcess
from harness.device.requests import Begin, PutInputs
from harness.messages.channel import Disconnected
from harness.simulator.layout.calls import (
    AllocateEntry,
    AnswerEntry,
    MemoryEntry,
    RangeEntry,
    RequestEntry,
    RuntimeCall,
    TensorEntry,
    Value,
)
from harness.simulator.native.library import build_machine_library
from tests.device.conversing import ask, call, end, put, read, received
from tests.support import ROOT, run

pytestmark = pytest.mark.simulator_only

MESSAGES, SESSIONS, SEED = 1000, 5, 1


@pytest.fixture(scope="module")
def process() -> Iterator[DeviceProcess]:
    """Yield a device process that has no device yet."""
    library = build_machine_library(Cache(default_root()))
    running = DeviceProcess(library, 1, must_be_confined=False)
    yield running
    running.close()


@pytest.fixture
def devices(process: DeviceProcess) -> Iterator[tuple[DeviceClient, DeviceClient]]:
    """Yield two devices of one process."""
    with tempfile.TemporaryFile() as output:
        pair = process.begin(output, 0, 1), process.begin(output, 0, 1)
        yield pair
        for device in pair:
            device.close()


def test_hostile_messages_are_answered_or_refused() -> None:
    """Hostile messages neither crash the device nor make it exceed its memory limit.

    The messages are random, mutated, or built on earlier answers.
    """
    command = [sys.executable, "-m", "tests.device.fuzzing", str(MESSAGES), str(SEED)]
    done = run(command, ROOT)
    assert done.status == 0, done.err
    assert all(kind in done.out for kind in ("answered", "refused", "malformed"))


@pytest.mark.thorough
def test_hostile_conversations_leave_a_neighbour_alone() -> None:
    """Hostile conversations leave other devices' memory unchanged, and each step is answered."""
    command = [sys.executable, "-m", "tests.device.fuzzing_sessions", str(SESSIONS), str(SEED)]
    done = run(command, ROOT)
    assert done.status == 0, done.err
    assert "malformed" in done.out


def test_devices_of_one_process_do_not_see_each_other(
    devices: tuple[DeviceClient, DeviceClient],
) -> None:
    """A worker cannot read from one device what is in the memory of another one."""
    one, other = devices
    (place,) = put(one, torch.arange(4.0))
    there = RangeEntry(place.address, 16)
    assert call(one.worker_socket, RuntimeCall.READ, bytes(there))[0] == 0
    assert call(other.worker_socket, RuntimeCall.READ, bytes(there)) == (1, b"")
    assert read(one, place)[1][0].tolist() == [0, 1, 2, 3]
    assert read(other, place)[0].wrong
    done = [end(device).during for device in devices]
    assert [[work.name for work in each] for each in done] == [["to host"], []]


def test_worker_is_answered_in_steps_alone(devices: tuple[DeviceClient, DeviceClient]) -> None:
    """A worker's call after the trusted side's request `end` has no effect before `begin`.

    The call then belongs to the record of the step that `begin` has started.
    """
    device, _ = devices
    _, data = call(device.worker_socket, RuntimeCall.ALLOCATE, bytes(AllocateEntry(64, 0)))
    place = Place(int.from_bytes(data, "little"), (16,), (1,), 6)
    end(device)
    write = bytes(RequestEntry(RuntimeCall.WRITE, 0, 72)) + data + bytes(range(64))
    device.worker_socket.sendall(write)
    for _ in range(2):
        writers = read(device, place)[1][1]
        assert writers.tolist() == [0] * 16
    ask(device, Begin())
    assert AnswerEntry.from_buffer_copy(received(device.worker_socket, 16)).error == 0
    during = end(device).during
    assert [(work.name, work.elements) for work in during] == [("from host", 64)]


def test_numbers_in_messages_are_counted(devices: tuple[DeviceClient, DeviceClient]) -> None:
    """The device records how many bytes of values crossed between host and device in a step."""
    device, _ = devices
    (place,) = put(device, torch.tensor([3.5]))
    there = TensorEntry(place.address, place.dtype, 0, 0)
    one = bytes([Value.TENSOR]) + bytes(there)
    ask(device, Begin())
    told = call(
        device.worker_socket, RuntimeCall.OPERATOR, operator("_local_scalar_dense", "", one)
    )
    assert told == (0, struct.pack("<Bd", Value.REAL, 3.5))
    here = bytes([Value.HOST_TENSOR]) + bytes(TensorEntry(0, 6, 0, 0)) + struct.pack("<f", 2)
    scale = struct.pack("<Bq", Value.INTEGER, 1000)
    assert (
        call(
            device.worker_socket,
            RuntimeCall.OPERATOR,
            operator("add", "Tensor", one + here + scale),
        )[0]
        == 0
    )
    during = end(device).during
    bytes_of = {work.name: work.elements for work in during if work.worker == "copy"}
    # Each call chooses its tensor, which counts eight bytes. The second also has a number of four
    # bytes and one of two.
    assert bytes_of == {"to host": 8, "chosen": 8 + 8, "from host": 4 + 2}


def operator(name: str, overload: str, arguments: bytes) -> bytes:
    """Return the message that calls one of torch's operators with encoded arguments."""
    texts = (f"aten::{name}".encode(), overload.encode())
    return b"".join(struct.pack("<BQ", Value.TEXT, len(each)) + each for each in texts) + arguments


def test_inputs_stay_until_the_judge_lets_them_go(
    devices: tuple[DeviceClient, DeviceClient],
) -> None:
    """The trusted side can read an input even after the worker has freed it.

    A later write to the input is recorded.
    """
    device, _ = devices
    (place,) = put(device, torch.ones(4))
    address = place.address.to_bytes(8, "little")
    assert call(device.worker_socket, RuntimeCall.FREE, address)[0] == 0
    call(device.worker_socket, RuntimeCall.WRITE, address + bytes(16))
    assert read(device, place)[1][0].tolist() == [0, 0, 0, 0]
    told = end(device)
    assert told.during[0].name == "from host"


@pytest.mark.parametrize("is_freed_first", [True, False])
def test_memory_of_an_input_within_it_is_given_back(
    devices: tuple[DeviceClient, DeviceClient], *, is_freed_first: bool
) -> None:
    """If an input lies at an offset in its allocation, the whole allocation is freed in the end.

    The worker frees the allocation by the input's address, before or after the trusted side sends
    new inputs.
    """
    device, _ = devices

    def live_bytes() -> int:
        _, data = call(device.worker_socket, RuntimeCall.MEMORY, bytes(8))
        return MemoryEntry.from_buffer_copy(data).live

    before = live_bytes()
    (place,) = put(device, torch.ones(4), request=PutInputs(skipped=(512,)))
    assert live_bytes() > before
    address = place.address.to_bytes(8, "little")
    if is_freed_first:
        call(device.worker_socket, RuntimeCall.FREE, address)
    put(device)
    if not is_freed_first:
        call(device.worker_socket, RuntimeCall.FREE, address)
    assert live_bytes() == before


def test_module_that_nobody_built_is_not_loaded(
    devices: tuple[DeviceClient, DeviceClient],
) -> None:
    """The device loads only a module whose digest the trusted side has sent."""
    device, _ = devices
    error, _ = call(device.worker_socket, RuntimeCall.MODULE, b"\x50\xed\x55\xba" + bytes(60))
    assert error == 801
    failure = end(device).failure
    assert failure is not None
    assert failure.kind == "unsupported"
    assert "has not compiled" in failure.message


@pytest.mark.parametrize(
    "message",
    [
        bytes(RequestEntry(99, 0, 0)),
        bytes(RequestEntry(RuntimeCall.WRITE, 0, 1 << 62)),
        bytes(RequestEntry(RuntimeCall.ALLOCATE, 0, 3)) + b"abc",
        bytes(RequestEntry(RuntimeCall.OPERATOR, 0, 1)) + b"\xff",
        bytes(RequestEntry(RuntimeCall.LAUNCH, 0, 8)) + bytes(8),
    ],
)
def test_what_is_no_call_ends_the_conversation(
    devices: tuple[DeviceClient, DeviceClient], message: bytes
) -> None:
    """A malformed call ends the device's connection to the worker, but not to the trusted side."""
    device, _ = devices
    device.worker_socket.sendall(message)
    assert received(device.worker_socket, 1) == b""
    assert end(device).malformed


def test_place_outside_of_an_allocation_is_no_tensor(
    devices: tuple[DeviceClient, DeviceClient],
) -> None:
    """A request to read a tensor that is not inside one allocation is answered with a reason."""
    device, _ = devices
    _, data = call(device.worker_socket, RuntimeCall.ALLOCATE, bytes(AllocateEntry(64, 0)))
    address = int.from_bytes(data, "little")
    for place in (
        Place(address, (17,), (1,), 6),
        Place(address + 4, (16,), (1,), 6),
        Place(address, (2,), (1 << 47,), 6),
        Place(address, (1 << 40, 1 << 40), (1, 1), 6),
        Place(0, (1,), (1,), 6),
        Place(address, (1,), (1,), 77),
        Place(address, (1,), (1,), 9),
    ):
        assert read(device, place)[0].wrong
    fine = Place(address, (16,), (1,), 6)
    assert not read(device, fine)[0].wrong


def test_device_that_is_ended_leaves_the_others(process: DeviceProcess) -> None:
    """After the end of a device, its process can begin another device."""
    with tempfile.TemporaryFile() as output:
        first = process.begin(output, 0, 1)
        first.close()
        with pytest.raises((Disconnected, OSError)):
            end(first)
        second = process.begin(output, 0, 1)
        assert not end(second).during
        second.close()
