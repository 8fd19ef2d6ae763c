"""Decoding of TMA tensor maps, whose bytes a kernel or the host may have overwritten."""

from __future__ import annotations

import pytest

from harness.simulator.actions.tensor_map import MARK, TensorMap
from harness.simulator.layout.memory import TensorMapEntry


def valid() -> TensorMapEntry:
    """Return a valid tensor map: 8 x 16 float32 elements, with boxes of 4 x 4."""
    entry = TensorMapEntry(mark=MARK, address=4096, type=7, rank=2)
    entry.dims[:2], entry.box[:2], entry.element_strides[:2] = [16, 8], [4, 4], [1, 1]
    entry.strides[0] = 64
    return entry


def test_valid_map_is_decoded() -> None:
    """A tensor map with valid fields is decoded into dims, box and strides."""
    found = TensorMap.decode(bytes(valid()))
    assert found is not None
    assert (found.dims, found.counts, found.strides) == ((16, 8), (4, 4), (4, 64))


@pytest.mark.parametrize(
    ("field", "value"), [("mark", 1), ("rank", 0), ("rank", 6), ("type", 13), ("swizzle", 4)]
)
def test_invalid_field_is_not_a_map(field: str, value: int) -> None:
    """128 bytes with a field value that CUDA never writes are not decoded as a tensor map."""
    entry = valid()
    setattr(entry, field, value)
    assert TensorMap.decode(bytes(entry)) is None


def test_stride_of_zero_is_not_a_map() -> None:
    """128 bytes with an element stride of zero are not decoded as a tensor map."""
    entry = valid()
    entry.element_strides[1] = 0
    assert TensorMap.decode(bytes(entry)) is None
