"""The information that a kernel launch carries from the host to the device, counted in bits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

import pytest
import torch

from harness.device.choices import Bits, Descriptors, Launches
from harness.device.executor import DeviceMemory
from harness.simulator.hardware.memory import Allocation

EXTENTS = struct.pack("<6I", 8, 1, 1, 128, 1, 1)
BUFFERS = [0x7000_0000_0000 + (number << 16) for number in range(32)]
BYTES = 1 << 12


class Memory:
    """A device memory in which each of `BUFFERS` is the start of an allocation."""

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that contains an address, or None."""
        start = address & ~0xFFFF
        is_inside = start in BUFFERS and address - start < BYTES
        return Allocation(start, BYTES, True, 0) if is_inside else None


@pytest.fixture
def launches() -> Launches:
    """Return a counter of information that has not seen a launch."""
    return Launches(cast(DeviceMemory, Memory()))


def told(launches: Launches, arguments: Sequence[int | float], kernel: str = "k") -> Bits:
    """Return the information of a launch whose arguments are addresses, integers or floats."""
    kinds = ["d" if isinstance(each, float) else "Q" for each in arguments]
    data = struct.pack("<" + "".join(kinds), *arguments)
    return launches.told(kernel, EXTENTS, data, [8] * len(arguments))


def test_same_launch_tells_nothing(launches: Launches) -> None:
    """A launch with the arguments of the same kernel's last launch carries no information."""
    told(launches, [BUFFERS[0], 4096])
    assert told(launches, [BUFFERS[0], 4096]) == Bits()


def test_addresses_and_known_values_are_choices(launches: Launches) -> None:
    """A launch argument that is an allocation's address or an earlier value counts few bits.

    These bits count as a choice, not as a new value.
    """
    told(launches, [BUFFERS[0], 4096])
    for number in range(1, 8):
        arguments = [BUFFERS[number * 5 % 32], 4096]
        assert told(launches, arguments).values == 0
    again = told(launches, [BUFFERS[5], 4096])
    assert again.values == 0
    assert 0 < again.choices <= 8


def test_step_that_repeats_is_a_small_choice(launches: Launches) -> None:
    """Arguments that grow by the same step in each launch, such as a loop's index, take 8 bits."""
    for step in range(3):
        told(launches, [BUFFERS[0] + 96 * step, step])
    assert told(launches, [BUFFERS[0] + 96 * 3, 3]) == Bits(choices=8)


def test_new_values_count_whole(launches: Launches) -> None:
    """A launch argument that may be a result that the host computed counts with all of its bits."""
    told(launches, [0.5])
    numbers = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    counts = [told(launches, [number]).values for number in numbers.tolist()]
    assert min(counts) >= 32
    assert sum(counts) >= 60 * 50


def test_choices_are_not_fewer_than_what_they_carry(launches: Launches) -> None:
    """An argument that is chosen among 256 earlier values counts about eight bits or more."""
    for value in range(256):
        told(launches, [1.7 * value])
    chosen = torch.randint(256, (500,), generator=torch.Generator().manual_seed(2))
    costs = [told(launches, [1.7 * value]) for value in chosen.tolist()]
    assert sum(each.choices + each.values for each in costs) >= 8 * 500 * 0.9


def test_kernel_of_a_launch_is_a_choice(launches: Launches) -> None:
    """The choice among 16 kernels counts four bits, even if the arguments never change."""
    for _ in range(2):
        costs = [told(launches, [BUFFERS[0]], f"k{number}") for number in range(16)]
    assert {each.choices for each in costs} == {4}


@pytest.fixture
def descriptors() -> Descriptors:
    """Return a counter of the information in operators' descriptors that has not seen a call."""
    return Descriptors(cast(DeviceMemory, Memory()))


def test_same_descriptor_tells_nothing(descriptors: Descriptors) -> None:
    """A call with the addresses, sizes and strides of the operator's last call tells nothing."""
    call = ("add", [BUFFERS[0], BUFFERS[1]], [64, 3, 3, 1])
    assert descriptors.told(*call).values > 0
    assert descriptors.told(*call) == Bits()


def test_new_strides_count_with_all_their_bits(descriptors: Descriptors) -> None:
    """Strides that no call had before count like values that the host computed."""
    descriptors.told("add", [BUFFERS[0]], [2, 2, 1000, 10])
    assert descriptors.told("add", [BUFFERS[0]], [2, 2, 40_000, 999]).values == 16 + 10


def test_known_sizes_are_choices(descriptors: Descriptors) -> None:
    """A size that any operator's call had before is a choice among such sizes."""
    descriptors.told("add", [BUFFERS[0]], [4096, 2048])
    told_again = descriptors.told("mul", [BUFFERS[0]], [2048, 4096])
    assert told_again.values == 0
    assert 0 < told_again.choices <= 8


def test_other_texts_count(descriptors: Descriptors) -> None:
    """A text among an operator's arguments counts with its length when it changes."""
    descriptors.told("scatter_reduce", [BUFFERS[0]], ["sum"])
    assert descriptors.told("scatter_reduce", [BUFFERS[0]], ["amax"]).values == 8 * 4
    assert descriptors.told("scatter_reduce", [BUFFERS[0]], ["sum"]).values == 0


def test_any_address_may_be_told(descriptors: Descriptors) -> None:
    """Every address of 64 bits is counted, since that of an empty tensor is not checked."""
    assert descriptors.told("add", [(1 << 64) - 1], [0]).values > 0


def test_changed_address_is_a_choice(descriptors: Descriptors) -> None:
    """Another address counts the bits of choosing an allocation, or a place within one."""
    descriptors.told("add", [BUFFERS[0]], [64])
    assert descriptors.told("add", [BUFFERS[3]], [64]) == Bits(choices=16)
    assert descriptors.told("add", [BUFFERS[7] + 64], [64]) == Bits(choices=32)
