"""The parts of vast tensors in the device's memory; see `problems/vast.py`."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.device.executor import DeviceMemory
from harness.device.place import Place
from harness.device.tensors import NoTensor, is_dense, tensor_at
from harness.problems.vast import Vast
from harness.simulator.layout.scalar_types import DTYPES, NUMBERS


def put_vast(memory: DeviceMemory, value: Tensor, vast: Vast) -> Place:
    """Give a vast tensor memory, and its parts their values.

    Args:
        memory: The device's; it is sparse.
        value: A row for each part.
        vast: What the whole is.

    Raises:
        harness.simulator.hardware.memory.OutOfDeviceMemory: there are not so many addresses.
    """
    strides = torch.empty(vast.input_shape, device="meta").stride()
    place = Place(0, vast.input_shape, tuple(strides), NUMBERS[value.dtype])
    place = Place(memory.allocate(place.nbytes), *_but_address(place))
    for row, part in zip(value, input_parts(place, vast), strict=True):
        tensor_at(memory, part).copy_(row.view(part.shape))
        memory.give(part)
    return place


def input_parts(place: Place, vast: Vast) -> list[Place]:
    """Where the input's parts are."""
    return [_part(place, vast.along, start, vast.part) for start in vast.starts]


def output_parts(place: Place, vast: Vast) -> list[Place]:
    """Where the output's parts are.

    Raises:
        NoTensor: it has another shape, or is not dense.
    """
    if place.shape != vast.output_shape or not is_dense(place.shape, place.strides):
        raise NoTensor(f"of shape {place.shape}, not {vast.output_shape}")
    return [_part(place, vast.along, start, vast.output_part) for start in vast.output_starts]


def values_of_parts(memory: DeviceMemory, parts: list[Place]) -> Tensor:
    """Parts as rows of one tensor; raises as `tensor_at` does."""
    return torch.cat([tensor_at(memory, part) for part in parts])


def writers_of_parts(memory: DeviceMemory, parts: list[Place]) -> Tensor:
    """Who wrote what `values_of_parts` gives."""
    return torch.cat([memory.writers(part) for part in parts])


def _part(place: Place, along: int, start: int, length: int) -> Place:
    """One row, or one row's positions."""
    shape = (1, *place.shape[1:along], length, *place.shape[along + 1 :])
    shape = (length, *place.shape[1:]) if along == 0 else shape
    skipped = start * place.strides[along] * DTYPES[place.dtype].itemsize
    return Place(place.address + skipped, shape, place.strides, place.dtype)


def _but_address(place: Place) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return place.shape, place.strides, place.dtype
