"""Tests of facts that a submission's text reveals, such as tile sizes and use of tensor cores."""

from __future__ import annotations

import pytest

from harness.problems.source_numbers import (
    counts_multiprocessors,
    multiplies_matrices,
    numbers_in,
)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("constexpr int TILE = 64;", (64,)),
        ("#define BLOCK 192", (192,)),
        ("threads = 96", (96,)),
        ("x[33u] + y[40UL]", (33, 40)),
        ("a[64] + b[64] + c[16]", (64, 16)),
        ("1 << 7", (7, 128)),
        # Numbers in comments do not count, nor those too small or too large for a tile.
        ("// 77" + chr(10) + "/* 78 */" + chr(10) + "# 79", ()),
        ("1.25f + x16 + 3 + 65536", ()),
        ("0x61 + 0b1'0000 + 020", (16, 97)),
    ],
)
def test_integers_that_a_text_states(text: str, numbers: tuple[int, ...]) -> None:
    """`numbers_in` returns the integers in a text that may be tile sizes, the most frequent first.

    Comments do not count.
    """
    assert numbers_in(text) == numbers


def test_who_counts_multiprocessors() -> None:
    """A text that queries the number of multiprocessors is recognised.

    The text may use any of the names that CUDA and torch have for this number.
    """
    assert counts_multiprocessors("properties->multiProcessorCount")
    assert counts_multiprocessors("cudaDevAttrMultiProcessorCount")
    assert counts_multiprocessors("torch.cuda.get_device_properties(0).multi_processor_count")
    assert not counts_multiprocessors("const int blocks = 132;")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('asm("wgmma.mma_async.sync.aligned.m64n128k8")', True),
        ('asm("mma.sync.aligned.m16n8k8")', True),
        ("nvcuda::wmma::load_matrix_sync(a, p, 16);", True),
        ("wmma::mma_sync(c, a, b, c);", True),
        ("// faster with wgmma", False),
        ("float gamma = comma;", False),
    ],
)
def test_who_multiplies_matrices(text: str, expected: bool) -> None:
    """A text that uses tensor cores is recognised by names of PTX or CUDA, except in comments."""
    assert multiplies_matrices(text) == expected
