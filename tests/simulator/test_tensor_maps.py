"""Tensor maps that a kernel or the host may have overwritten."""

from __future__ import annotations

import pytest

from harness.simulator.actions.tensor_map import MARK, TensorMap
from harness.simulator.layout.memory import TensorMapEntry


def valid() -> TensorMapEntry:
    """Return the entry of a map of 8 x 16 float32 elements, with boxes of 4 x 4."""
    entry = TensorMapEntry(mark=MARK, address=4096, type=7, rank=2)
    entry.dims[:2], entry.box[:2], entry.element_strides[:2] = [16, 8], [4, 4], [1, 1]
    entry.strides[0] = 64
    return entry


def test_valid_map_is_decoded() -> None:
    """A map with valid fields is decoded."""
    found = TensorMap.decode(bytes(valid()))
    assert found is not None
    assert (found.dims, found.counts, found.strides) == ((16, 8), (4, 4), (4, 64))


@pytest.mark.parametrize(
    ("field", "value"), [("mark", 1), ("rank", 0), ("rank", 6), ("type", 13), ("swizzle", 4)]
)
def test_invalid_field_is_not_a_map(field: str, value: int) -> None:
    """The 128 bytes are not a tensor map if a field has a value that CUDA never writes."""
    entry = valid()
    setattr(entry, field, value)
    assert TensorMap.decode(bytes(entry)) is None


def test_stride_of_zero_is_not_a_map() -> None:
    """The 128 bytes are not a tensor map if an element stride is zero."""
    entry = valid()
    entry.element_strides[1] = 0
    assert TensorMap.decode(bytes(entry)) is None
