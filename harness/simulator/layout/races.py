"""Structures of race.c, which detects races; race.h describes the algorithm."""

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
"""Slots of a cell: one for the last plain writer, and two for readers or strong writers."""


@structure("sim_actor")
class Actor(Structure):
    """The unit that accesses rows of memory, and the place of the access in the program.

    Attributes:
        site: Number of the place in the program.
        how: RACE_PLAIN, RACE_STRONG or RACE_ATOMIC.
        agent: The agent's number in its block, RACE_THREAD or RACE_COPIES.
        clock: The agent's clock.
    """

    site: U32
    how: U32
    agent: U32
    clock: U32


@structure("sim_race_cell")
class Cell(Structure):
    """The last accesses of a few bytes (1 << shift of them).

    Attributes:
        who: For each slot, the thread or agent; see RACE_ASYNC in race.h.
        clock: For each slot, the clock of that warp or agent at the access.
        site: For each slot, the place in the program.
        how: For SLOT_READER and SLOT_OTHER, the kind of access with the flags of race.h.
    """

    who: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    clock: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    site: Annotated[ctypes.Array[ctypes.c_uint16], array(U16, SLOTS)]
    how: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, SLOTS - 1)]


@structure("sim_race_area")
class Area(Structure):
    """An allocation that the kernel may store to; arrays of them are sorted by start.

    Attributes:
        start: Address of the first byte.
        end: Address past the last byte.
        cells: The allocation's cells.
    """

    start: U64
    end: U64
    cells: Annotated[Address, pointer("sim_race_cell")]


@structure("sim_race_event")
class Event(Structure):
    """The first race between two places in the program, and the number of such races.

    Attributes:
        site: The place of the later access.
        other_site: The place of the access that the cell remembered.
        thread: The thread of the later access, numbered over the launch.
        other_thread: The thread of the remembered access, numbered over the launch.
        kind: READ_AFTER_WRITE, WRITE_AFTER_READ or WRITE_AFTER_WRITE.
        severity: RACE_INFO, RACE_WARNING or RACE_ERROR.
        waits: 1 if the remembered access is asynchronous and no thread has waited for it.
        unused: Padding.
        address: Address of the bytes.
        count: How many races there were between the two places.
    """

    site: U32
    other_site: U32
    thread: U32
    other_thread: U32
    kind: U32
    severity: U32
    waits: U32
    unused: U32
    address: U64
    count: U64


@structure("sim_race_log")
class Log(Structure):
    """The races that were found.

    Attributes:
        events: The events.
        count: The number of events.
        limit: The most events that fit.
    """

    events: Annotated[Address, pointer("sim_race_event")]
    count: U32
    limit: U32


@structure("sim_race")
class Race(Structure):
    """The clocks of a chunk: the blocks that run together.

    The chunks of a launch share the cells of global memory, `released` and the log.

    Attributes:
        first_thread: Number of the chunk's first thread in the launch.
        lanes: Threads of the chunk.
        threads: Threads of a block.
        warps: Warps of a block.
        agents: The most agents of a block.
        shift: A cell stands for 1 << shift bytes.
        launch_clock: The clock at which the launch began.
        chunk_clock: The clock at which the chunk began.
        warp_of: For each lane, its warp in the chunk.
        block_start: For each warp, the first warp of its block.
        now: For each warp, its clock.
        synced: For each warp, its clock when its threads last synchronised.
        floor: For each warp, the clock before which its block's accesses are ordered with it.
        apart: For each warp, the clock from which other readers are certainly unordered with its
            own reads; UINT32_MAX if that is not certain for any.
        seen: [warp][warp of the block]: the clock up to which it is ordered after that warp.
        released: For each warp of the grid, the clock that a fence has published.
        acquired: For the first warp of each block, 1 if the block has read a flag.
        agents_seen: [warp][agent]: the clock up to which it is ordered after that agent.
        agents_released: [block][agent]: the clock that a fence has published.
        shared: The cells of shared memory.
        shared_cells: Cells of one block's shared memory.
        areas: The allocations that the kernel may store to.
        area_count: The number of areas.
        log: The races that were found.
    """

    first_thread: U32
    lanes: U32
    threads: U32
    warps: U32
    agents: U32
    shift: U32
    launch_clock: U32
    chunk_clock: U32
    warp_of: Annotated[Address, pointer("const uint32_t")]
    block_start: Annotated[Address, pointer("const uint32_t")]
    now: Annotated[Address, pointer("uint32_t")]
    synced: Annotated[Address, pointer("uint32_t")]
    floor: Annotated[Address, pointer("uint32_t")]
    apart: Annotated[Address, pointer("uint32_t")]
    seen: Annotated[Address, pointer("uint32_t")]
    released: Annotated[Address, pointer("uint32_t")]
    acquired: Annotated[Address, pointer("uint8_t")]
    agents_seen: Annotated[Address, pointer("uint32_t")]
    agents_released: Annotated[Address, pointer("uint32_t")]
    shared: Annotated[Address, pointer("sim_race_cell")]
    shared_cells: U64
    areas: Annotated[Address, pointer("const sim_race_area")]
    area_count: U64
    log: Annotated[Address, pointer("sim_race_log")]
