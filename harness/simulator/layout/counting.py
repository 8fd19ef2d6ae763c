"""Structures of profile.c: what is counted of accesses."""

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
    """What is counted at one place in the program."""

    requests: U64
    """Warps that executed the instruction."""
    threads: U64
    """Threads that did."""
    bytes: U64
    """That they asked for."""
    sectors: U64
    """Global memory: different 32-byte sectors, summed over requests."""
    ideal_sectors: U64
    """What as many neighbouring elements would touch."""
    wavefronts: U64
    """Shared memory: passes that the banks need."""
    ideal_wavefronts: U64
    """Without a bank conflict."""
    pairs: U64
    """Neighbouring threads ..."""
    pairs_alike: U64
    """... whose addresses differ by `stride` bytes."""
    stride: I64
    space: U64
    """Where the addresses lead, generic ones resolved."""


@structure("sim_profile")
class SiteProfile(Structure):
    """The counts of all places, and who the threads of the chunk are."""

    warp_of: Annotated[Address, pointer("const uint32_t")]
    """Warp in the chunk, for each lane."""
    lane_of: Annotated[Address, pointer("const uint8_t")]
    """Place in the warp, for each lane."""
    sites: Annotated[Address, pointer("sim_site_counts")]
