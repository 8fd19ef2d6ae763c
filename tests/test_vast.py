"""Verdicts on submissions in vast cases, whose tensors can have more than 2**32 elements."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from harness.evaluate import evaluate
from harness.judging.layouts import WORDS, claims_to_handle
from harness.problems.vast import VAST, VastArrangement, vast
from harness.records.report import Report
from harness.simulator.execution.chosen import Near, chosen_blocks
from harness.simulator.hardware.geometry import Geometry
from tests.support import REFERENCE, SUBMISSIONS, request_for

PROBLEM = REFERENCE / "conv_transpose1d.py"
PLAIN, STRIDED = "k3-s1-b1x1x98304-to1-vast", "k3-s4-b1x1x24576-to1-vast"
WIDE = "k3-s1-b1x17x1024-to17-vast"

# One build serves all: the text of a submission selects the kernels that run.
SOURCE = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

WAY = "right"
CUDA = r"""
#include <torch/extension.h>

struct Sizes { long long total, in_channels, length, out_channels, out_length, taps, stride; };

__device__ float sum_of(const float* x, const float* w, Sizes s, long long index, int row_bits) {
    const long long t = index % s.out_length, row = index / s.out_length;
    const long long o = row % s.out_channels;
    const long long b = row / s.out_channels;
    float sum = 0;
    for (long long k = 0; k < s.taps; ++k) {
        const long long from = t - k;
        if (from < 0 || from % s.stride != 0 || from / s.stride >= s.length) continue;
        for (long long c = 0; c < s.in_channels; ++c) {
            long long at = (b * s.in_channels + c) * s.length + from / s.stride;
            if (row_bits == 31) at = int(at);
            if (row_bits == 32) at = unsigned(at);
            sum += x[at] * w[(c * s.out_channels + o) * s.taps + k];
        }
    }
    return sum;
}

__global__ void gather(const float* x, const float* w, float* y, Sizes s, int bits) {
    const long long block = blockIdx.x + blockIdx.y;
    const long long index = (long long)block * blockDim.x + threadIdx.x;
    if (index < s.total) y[index] = sum_of(x, w, s, index, bits);
}

__global__ void gather_in_32_bits(const float* x, const float* w, float* y, Sizes s) {
    const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < s.total) y[index] = sum_of(x, w, s, index, 0);
}

__global__ void count(const float* x, const float* w, float* y, Sizes s, int* turn) {
    if (threadIdx.x == 0) atomicAdd(turn, 1);
    const long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < s.total) y[index] = sum_of(x, w, s, index, 32);
}

__global__ void loop(const float* x, const float* w, float* y, Sizes s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.total; i += step)
        y[i] = sum_of(x, w, s, i, 32);
}

__global__ void turns(const float* x, const float* w, float* y, Sizes s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.total; i = step)
        y[i] = sum_of(x, w, s, i, 0);
}

__global__ void clear(float* y, long long total) {
    const long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < total) y[index] = 0;
}

torch::Tensor run(torch::Tensor x, torch::Tensor w, int64_t stride, std::string way) {
    const long long length = (x.size(2) - 1) * stride + w.size(2);
    auto y = torch::empty({x.size(0), w.size(1), length}, x.options());
    Sizes s{y.numel(), x.size(1), x.size(2), w.size(1), length, w.size(2), stride};
    if (way == "refuses") TORCH_CHECK(s.total < (1LL << 31), "too large");
    if (way == "short total") s.total = int(s.total);
    const unsigned blocks = (s.total + 255) / 256;
    const float *from = x.data_ptr<float>(), *by = w.data_ptr<float>();
    float* to = y.data_ptr<float>();
    auto turn = torch::zeros({1}, x.options().dtype(torch::kInt));
    if (way == "two kernels") clear<<<blocks, 256>>>(to, s.total);
    if (way == "a launch for each row") {
        Sizes row = s;
        row.total = s.out_channels * length;
        for (int64_t b = 0; b < x.size(0); ++b)
            gather<<<(row.total + 255) / 256, 256>>>(
                from + b * s.in_channels * s.length, by, to + b * row.total, row, 32);
    } else if (way == "the same turn") turns<<<std::min(blocks, 65535u), 256>>>(from, by, to, s);
    else if (way == "blocks along y")
        gather<<<dim3(1, blocks), 256>>>(from, by, to, s, 0);
    else if (way == "atomics") count<<<blocks, 256>>>(from, by, to, s, turn.data_ptr<int>());
    else if (way == "loop") loop<<<64, 256>>>(from, by, to, s);
    else if (way == "unsigned") gather_in_32_bits<<<blocks, 256>>>(from, by, to, s);
    else gather<<<blocks, 256>>>(from, by, to, s,
        way == "read in 31" ? 31 : way == "read in 32" || way == "two kernels" ? 32 : 0);
    if (way == "operator") y.mul_(1);
    return y;
}
"""
extension = load_inline(
    name="vast_ways",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor w, int64_t s, std::string way);",
    cuda_sources=CUDA,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1):
        super().__init__()
        like = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=False)
        self.weight, self.stride = like.weight, stride

    def forward(self, x):
        return extension.run(x, self.weight, self.stride, WAY)
'''
# This version counts in 64 bits, but its text does not mention them.
SILENT = SOURCE.replace("(long long)", "1LL * ").replace("1LL << 31", "2000000000")


def check(way: str, folder: Path, text: str = SOURCE, name: str = PLAIN) -> Report:
    """Run a submission on one vast case, with its variable WAY set to `way`, and return the report.

    WAY selects the kernels that the submission launches.
    """
    path = folder / "ways.py"
    path.write_text(text.replace('WAY = "right"', f'WAY = "{way}"'))
    return evaluate(request_for(path, PROBLEM, name))


def notes_of(report: Report) -> list[str]:
    """Return the notes of a report that are about vast inputs."""
    notes = [note for case in report.cases for note in case.notes]
    return [note for note in notes if any(words in note for words in WORDS.values())]


@pytest.mark.parametrize("name", [PLAIN, STRIDED, WIDE])
def test_who_counts_in_64_bits_passes(tmp_path: Path, name: str) -> None:
    """A kernel that counts in 64 bits passes a vast case without a note."""
    report = check("right", tmp_path, name=name)
    assert report.verdict == "passed", report.message
    assert notes_of(report) == []


@pytest.mark.parametrize(
    ("way", "name", "expected"),
    [
        ("read in 31", PLAIN, "memcheck: 4-byte load"),
        ("read in 32", PLAIN, WORDS["axis"]),
        ("read in 31", WIDE, "memcheck: 4-byte load"),
        ("read in 32", WIDE, WORDS["wide"]),
        ("unsigned", PLAIN, "nothing is written beyond the first 2^32"),
        ("unsigned", STRIDED, "nothing is written beyond the first 2^32"),
        ("short total", PLAIN, "elements were never written"),
        ("blocks along y", PLAIN, WORDS["axis"]),
        ("the same turn", PLAIN, "spin at"),
        ("a launch for each row", PLAIN, WORDS["axis"]),
    ],
)
def test_what_wraps_around_fails(tmp_path: Path, way: str, name: str, expected: str) -> None:
    """A kernel fails a vast case if an index or a count wraps around at 31 or 32 bits.

    The wrapped value may be negative or too small.
    """
    report = check(way, tmp_path, name=name)
    assert report.verdict == "failed"
    assert expected in report.message
    assert any(WORDS[each] in report.message for each in VAST)


@pytest.mark.thorough
def test_who_promises_nothing_gets_a_note(tmp_path: Path) -> None:
    """A kernel that fails a vast case passes with a note if its text does not mention 64 bits."""
    assert not claims_to_handle(SILENT, "rows")
    report = check("read in 31", tmp_path, SILENT)
    assert report.verdict == "passed", report.message
    (note,) = notes_of(report)
    assert note.startswith(f"{WORDS['axis']}: memcheck: 4-byte load")


@pytest.mark.parametrize("way", ["refuses", "atomics", "loop", "two kernels", "operator"])
def test_where_nothing_is_known_nothing_is_said(tmp_path: Path, way: str) -> None:
    """A submission that refuses a vast case, or whose result is unclear, passes without a note.

    Only a few blocks of a vast case run. They do not show what all blocks would do if the kernel
    has atomics or a loop. The same holds if the submission has two kernels or uses an operator of
    torch.
    """
    report = check(way, tmp_path)
    assert report.verdict == "passed", report.message
    assert notes_of(report) == []


def test_no_room_for_addresses_is_no_fault(tmp_path: Path) -> None:
    """A vast case passes without a note if the simulator has no addresses left for its tensors.

    The simulator never uses an address twice, so repeated vast cases exhaust its addresses.
    """
    path = tmp_path / "ways.py"
    path.write_text(SOURCE)
    request = request_for(path, PROBLEM, PLAIN)
    often = tuple(replace(case, id=str(n)) for case in request.cases for n in range(5))
    report = evaluate(replace(request, cases=often))
    assert report.verdict == "passed", report.message
    assert report.count("passed") == 5
    assert notes_of(report) == []


def test_gpu_has_no_vast_cases() -> None:
    """A GPU has no vast cases, because only the simulator can give addresses to absent memory."""
    path = SUBMISSIONS / "flat_index.py"
    assert not [c for c in request_for(path, PROBLEM, device="cuda").cases if c.label == "vast"]
    ids = [case.id for case in request_for(path, PROBLEM).cases if case.label == "vast"]
    assert ids == [PLAIN, STRIDED, WIDE]
    assert set(VAST) < set(WORDS)


@pytest.mark.parametrize("arrangement", [way for way in VAST if way != "wide"])
@pytest.mark.parametrize("step", [1, 4])
def test_parts_lie_within_and_apart(arrangement: VastArrangement, step: int) -> None:
    """The parts of a vast tensor that are checked lie within the tensor and do not overlap.

    Except in the arrangement `long`, a tensor has more than 2**32 elements, and some parts of the
    output lie at indices of at least 2**32.
    """
    made = vast(arrangement, (2, 1, 64), (2, 1, 63 * step + 3), step)
    sides = (
        (made.input_shape, made.starts, made.part),
        (made.output_shape, made.output_starts, made.output_part),
    )
    for shape, starts, length in sides:
        ends = [start + length for start in starts]
        assert starts[0] == 0
        assert ends[-1] == shape[made.along]
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
        assert list(starts) == sorted(starts)
    if arrangement == "long":
        assert not any(made.lie_beyond)
        assert 2**27 < max(made.output_shape) < 2**30
        return
    assert True in made.lie_beyond
    assert False in made.lie_beyond
    assert max(math.prod(made.input_shape), math.prod(made.output_shape)) > 2**32
    if arrangement == "axis":
        assert all(0 < shape[2] % 2**32 < 2**20 or step > 1 for shape, _, _ in sides)


def test_blocks_of_a_launch_are_chosen() -> None:
    """`chosen_blocks` selects the first and last block of a dimension, and blocks near given parts.

    A part has a relative position, for kernels in which each block works on one contiguous piece.
    It also has an index n, for kernels in which block n % blocks works on part n.
    """
    near = Near((0.5,), (1_000_003,))
    assert chosen_blocks(Geometry((1024, 1, 1), (32, 1, 1)), near) == ()
    flat = chosen_blocks(Geometry((10**6, 1, 1), (32, 1, 1)), near)
    assert flat == (0, 3, 500_000, 999_999)
    deep = chosen_blocks(Geometry((2, 1, 65535), (32, 1, 1)), near)
    rows = sorted({0, 32767, 1_000_003 % 65535, 65534})
    assert deep == tuple(2 * z + x for z in rows for x in (0, 1))
