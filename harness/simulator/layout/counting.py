"""Structures of profile.c, which counts memory accesses."""

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
    """The counts at one place in the program.

    Attributes:
        requests: How often a warp executed the instruction.
        threads: How often a thread executed it.
        bytes: Bytes that they accessed.
        sectors: Global memory: different 32-byte sectors of each request, summed.
        ideal_sectors: Global memory: sectors that as many neighbouring elements would touch.
        wavefronts: Shared memory: passes that the banks need.
        ideal_wavefronts: Shared memory: passes without bank conflicts.
        pairs: Pairs of neighbouring threads of a warp that both executed it.
        pairs_alike: Pairs whose addresses differ by `stride` bytes.
        stride: The difference of the addresses of the first pair, in bytes.
        space: The state space that the last request's addresses lead to; never generic.
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
    """The counts of all places, and the warps of the chunk's threads.

    Attributes:
        warp_of: The warp in the chunk, for each lane.
        lane_of: The position in the warp, for each lane.
        sites: The counts of each place.
    """

    warp_of: Annotated[Address, pointer("const uint32_t")]
    lane_of: Annotated[Address, pointer("const uint8_t")]
    sites: Annotated[Address, pointer("sim_site_counts")]
