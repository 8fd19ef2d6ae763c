"""Structures of race.c."""

from __future__ import annotations

import ctypes
from typing import Annotated

from harness.simulator.layout.structure import (
    U8,
    U16,
    U32,
    U64,
    Address,
    Structure,
    array,
    pointer,
    structure,
)

SLOTS = 3
"""Of a cell: the last plain writer, and two that are readers or strong writers."""


@structure("sim_actor")
class Actor(Structure):
    """Who accesses rows of memory, and at which place in the program."""

    site: U32
    how: U32
    agent: U32
    clock: U32
    """The agent's."""


@structure("sim_race_cell")
class Cell(Structure):
    """What was seen of a few bytes (1 << shift of them)."""

    who: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    clock: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    site: Annotated[ctypes.Array[ctypes.c_uint16], array(U16, SLOTS)]
    how: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, SLOTS - 1)]
    """Of the reader; of the other one, with the flags of race.h."""


@structure("sim_race_area")
class Area(Structure):
    """An allocation that the kernel stores to; in arrays sorted by start."""

    start: U64
    end: U64
    cells: Annotated[Address, pointer("sim_race_cell")]


@structure("sim_race_event")
class Event(Structure):
    """The first race of two places in the code, and how many more there were."""

    site: U32
    other_site: U32
    thread: U32
    other_thread: U32
    kind: U32
    severity: U32
    waits: U32
    """The other one is asynchronous: nobody has waited for it."""
    unused: U32
    address: U64
    count: U64


@structure("sim_race_log")
class Log(Structure):
    """The races that were met: `count` events of at most `limit`."""

    events: Annotated[Address, pointer("sim_race_event")]
    count: U32
    limit: U32


@structure("sim_race")
class Race(Structure):
    """What is known of the blocks that run together.

    Several such groups of blocks have cells of global memory, `released` and the log in common.
    """

    first_thread: U32
    """Number of the first thread of the chunk."""
    lanes: U32
    """Threads of the chunk."""
    threads: U32
    """Of a block."""
    warps: U32
    """Of a block."""
    agents: U32
    """That a block may have."""
    shift: U32
    launch_clock: U32
    chunk_clock: U32
    warp_of: Annotated[Address, pointer("const uint32_t")]
    """Warp in the chunk, for each lane."""
    block_start: Annotated[Address, pointer("const uint32_t")]
    """For each warp the first warp of its block."""
    now: Annotated[Address, pointer("uint32_t")]
    """Clock of each warp."""
    synced: Annotated[Address, pointer("uint32_t")]
    """Its clock when its threads last synchronised."""
    floor: Annotated[Address, pointer("uint32_t")]
    """What its block did before this is ordered with all it does."""
    apart: Annotated[Address, pointer("uint32_t")]
    """Readers since then are not ordered with its own reading."""
    seen: Annotated[Address, pointer("uint32_t")]
    """[warp][warp of the block]: what it has seen of others."""
    released: Annotated[Address, pointer("uint32_t")]
    """For each warp of the grid, what a fence let others see."""
    acquired: Annotated[Address, pointer("uint8_t")]
    """For the first warp of each block: it looked at a flag."""
    agents_seen: Annotated[Address, pointer("uint32_t")]
    """[warp][agent]: what it has waited for."""
    agents_released: Annotated[Address, pointer("uint32_t")]
    """[block][agent]: what a fence let others see."""
    shared: Annotated[Address, pointer("sim_race_cell")]
    shared_cells: U64
    """For each block."""
    areas: Annotated[Address, pointer("const sim_race_area")]
    area_count: U64
    log: Annotated[Address, pointer("sim_race_log")]
