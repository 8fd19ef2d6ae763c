"""Structures of profile.c, the C code that counts memory accesses."""

from __future__ import annotations

from typing import Annotated

from harness.simulator.layout.structure import (
    I64,
    U64,
    Address,
    Structure,
    pointer,
    structure,
)


@structure("sim_site_counts")
class SiteCounts(Structure):
    """The counts of one instruction that accesses memory, in one kernel.

    Attributes:
        requests: Number of times that a warp executed the instruction.
        threads: Number of times that a thread executed the instruction.
        bytes: Bytes that all threads accessed.
        sectors: In global memory, number of different 32-byte sectors that a request touched,
            summed over requests.
        ideal_sectors: The value of `sectors` if the bytes of each request were contiguous.
        wavefronts: In shared memory, number of passes that the requests needed.
        ideal_wavefronts: The value of `wavefronts` without bank conflicts.
        pairs: Number of pairs of neighbouring threads of a warp that executed the instruction
            together.
        pairs_alike: Number of these pairs whose addresses differ by `stride` bytes.
        stride: Difference of the addresses of the first pair, in bytes.
        space: Number of the state space of the last request's addresses; never the generic space.
    """

    requests: U64
    threads: U64
    bytes: U64
    sectors: U64
    ideal_sectors: U64
    wavefronts: U64
    ideal_wavefronts: U64
    pairs: U64
    pairs_alike: U64
    stride: I64
    space: U64


@structure("sim_profile")
class SiteProfile(Structure):
    """The counts of all instructions of a kernel that access memory, for profile.c.

    A chunk is a number of blocks that are simulated together.

    Attributes:
        warp_of: For each thread of the chunk, the number of its warp in the chunk.
        lane_of: For each thread of the chunk, its number in its warp.
        sites: The counts of each instruction, in the order of `BlockCompiler.sites`.
    """

    warp_of: Annotated[Address, pointer("const uint32_t")]
    lane_of: Annotated[Address, pointer("const uint8_t")]
    sites: Annotated[Address, pointer("sim_site_counts")]
