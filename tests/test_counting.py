"""Totals of the counters of all kernels in one forward pass."""

from __future__ import annotations

from dataclasses import replace

from harness.simulator.counters.by_line import LineCounters, by_line
from harness.simulator.counters.counters import (
    AccessCounts,
    BranchCounts,
    KernelCounters,
    LineCounts,
)
from harness.simulator.counters.totals import KernelProfile, Totals, totals
from harness.simulator.hardware.resources import Occupancy, Resources


def kernel(space: str, launches: int, registers: int, spilled: int, warps: int) -> KernelProfile:
    """Return the profile of a kernel with ten loads from a memory space, of two wavefronts each.

    The kernel has two blocks of 32 threads.
    """
    loads = AccessCounts("load", space, 4, "mine.py", 7, 10, 320, 1280, 40, 40, 20, 10, 4)
    counters = KernelCounters(
        "k", launches, (2, 1, 1), (32, 1, 1), 0, {"integer": 320}, {"integer": 10},
        {"f32": 60}, {"tf32": 4, "s8": 9}, (loads,), (),
    )  # fmt: skip
    resources = Resources(registers, spilled, spilled, 0, 0)
    return KernelProfile(counters, resources, Occupancy(1, warps, warps / 64, "warps"))


def test_totals_are_sums_over_kernels_and_the_worst_of_their_resources() -> None:
    """Totals have the registers and occupancy of the worst kernel, and sums for everything else.

    Global memory counts in sectors, shared memory in wavefronts, and local memory in bytes. Local
    memory includes the bytes that ptxas spills, for every thread of every launch.
    """
    found = totals(
        [
            kernel("global", 1, 32, 0, 64),
            kernel("shared", 2, 64, 8, 32),
            kernel("local", 1, 16, 0, 64),
        ]
    )
    assert found == Totals(
        launches=4,
        warp_instructions=30,
        thread_instructions=960,
        flop=192,
        requests=10,
        sectors=40,
        wavefronts=20,
        ideal_wavefronts=10,
        local_bytes=320 * 4 + 2 * 64 * (8 + 8),
        registers=64,
        occupancy=0.5,
    )
    assert found.sectors_per_request == 4.0
    assert found.bank_conflicts == 2.0


def test_lines_have_what_all_kernels_did_there() -> None:
    """`by_line` sums the counters of each line over all kernels, for the lines of one file only."""
    plain = kernel("global", 1, 32, 0, 64)
    lines = (LineCounts("/x/mine.py", 7, 20, 640), LineCounts("cuda_fp16.h", 7, 5, 160))
    branches = (BranchCounts("mine.py", 8, 10, 3), BranchCounts(None, None, 1, 1))
    counters = replace(plain.counters, lines=lines, branches=branches)
    one = replace(plain, counters=counters)
    assert by_line([one, one, kernel("shared", 1, 32, 0, 64)], "mine.py") == (
        LineCounters(
            7, warp_instructions=40, thread_instructions=1280, requests=20, sectors=80,
            ideal_sectors=80, wavefronts=20, ideal_wavefronts=10,
        ),
        LineCounters(8, branches=20, divergent=6),
    )  # fmt: skip


def test_nothing_is_not_divided_by() -> None:
    """A forward pass without kernels has totals, but its ratios and registers are None."""
    nothing = totals([])
    assert nothing.launches == 0
    assert nothing.sectors_per_request is None
    assert nothing.bank_conflicts is None
    assert nothing.registers is None
