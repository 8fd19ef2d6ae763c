"""Remarks and tables that `harness profile` makes from the counters of kernels."""

from __future__ import annotations

from dataclasses import replace

from harness.profile.profile import Profile, remarks
from harness.profile.tables import tables
from harness.simulator.counters.counters import AccessCounts, BranchCounts, KernelCounters
from harness.simulator.counters.totals import KernelProfile
from harness.simulator.lowering.program import COPY

GOOD = AccessCounts("load", "global", 4, "/x/flat_index.py", 41, 10, 320, 1280, 40, 40, 0, 0, 4)
SHARED = AccessCounts("store", "shared", 4, "/x/tiled.py", 7, 10, 320, 1280, 0, 0, 10, 10, 4)


def kernel(*accesses: AccessCounts, lanes: int = 32, divergent: int = 0) -> KernelProfile:
    """Return the profile of a kernel of 100 warp-instructions, each with `lanes` active threads.

    The kernel has ten branches, of which `divergent` diverge.
    """
    branches = (BranchCounts("/x/flat_index.py", 30, 10, divergent),)
    counters = KernelCounters(
        "k", 1, (1, 1, 1), (8, 1, 1), 0, {"integer": 100 * lanes}, {"integer": 100}, {}, {},
        accesses, branches,
    )  # fmt: skip
    return KernelProfile(counters, None, None)


def test_nothing_to_say() -> None:
    """A kernel with coalesced accesses, no bank conflicts and full warps gets no remark."""
    assert remarks([kernel(GOOD, SHARED)]) == ()


def test_scattered_loads() -> None:
    """A remark on scattered loads gives the sectors per request, and how many would be enough.

    It also gives the distance between neighbouring threads' addresses, and the line.
    """
    scattered = replace(GOOD, sectors=320, stride=512)
    assert remarks([kernel(scattered)]) == (
        "global loads: 32 sectors per request, 4 would do: neighbouring threads read 512 bytes "
        "apart, flat_index.py:41",
    )
    (irregular,) = remarks([kernel(replace(scattered, stride=None))])
    assert "neighbouring threads are not neighbours in memory" in irregular


def test_scattered_copies() -> None:
    """A remark on scattered asynchronous copies calls them copies, not loads."""
    copies = replace(GOOD, kind=COPY, sectors=320, stride=512)
    (remark,) = remarks([kernel(copies)])
    assert remark.startswith("global asynchronous copies: 32 sectors per request, 4 would do: ")
    assert "neighbouring threads copy 512 bytes apart" in remark


def test_tables_tell_copies_and_matrix_operations() -> None:
    """The tables have columns for asynchronous copies only if a kernel makes any.

    Matrix operations are listed by type.
    """
    plain = kernel(GOOD)
    copying = replace(GOOD, kind=COPY, nbytes=4096, requests=8, sectors=128)
    counters = replace(
        plain.counters, accesses=(GOOD, copying), matrix_operations={"tf32": 8192, "s8": 512}
    )
    for profiled, is_there in ((plain, False), (replace(plain, counters=counters), True)):
        text = tables(Profile("s", "p", "c", {}, (), (profiled,), (), False))
        assert ("copies, bytes" in text) is is_there
        assert ("4,096" in text and "16.00" in text) is is_there
        assert ("8,192 tf32, 512 s8" in text) is is_there


def test_bank_conflicts() -> None:
    """A remark on bank conflicts gives their degree, such as `8-way`, and the line."""
    assert remarks([kernel(replace(SHARED, wavefronts=80))]) == (
        "shared stores: 8-way bank conflicts at tiled.py:7",
    )


def test_idle_lanes() -> None:
    """A remark on idle lanes names the divergent branch, or says that the block is too small."""
    (divergent,) = remarks([kernel(lanes=16, divergent=5)])
    assert divergent == "50% of the lanes idle in k: divergent branch at flat_index.py:30"
    (small,) = remarks([kernel(lanes=8)])
    assert small == "75% of the lanes idle in k: blocks of 8 threads do not fill their warps"


def test_most_expensive_first_and_few() -> None:
    """A profile has at most three remarks, the most expensive first."""
    loads = [replace(GOOD, sectors=100 * n, line=n) for n in range(1, 6)]
    found = remarks([kernel(*loads)])
    assert len(found) == 3
    assert found[0].endswith("flat_index.py:5")
