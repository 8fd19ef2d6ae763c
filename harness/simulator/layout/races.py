"""Structures of race.c, the C code that detects races; race.h describes the algorithm."""

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
PUBLICATIONS = 4
"""How many fences are remembered for each warp."""


@structure("sim_actor")
class Actor(Structure):
    """The instruction and the unit (a thread or an asynchronous agent) that access memory.

    Attributes:
        site: Index of the instruction in `BlockCompiler.sites`.
        how: RACE_PLAIN, RACE_STRONG or RACE_ATOMIC of race.h, with or without RACE_WIDE.
        agent: Number of the agent in its block. RACE_THREAD means the thread itself.
            RACE_COPIES means asynchronous copies for which only this thread can wait.
        clock: The agent's clock at the access.
    """

    site: U32
    how: U32
    agent: U32
    clock: U32


@structure("sim_race_cell")
class Cell(Structure):
    """The last accesses of `1 << Race.shift` bytes of memory, in three slots of one access each.

    SLOT_WRITER holds the last plain write. SLOT_READER and SLOT_OTHER each hold a read or a strong
    write (such as a volatile or atomic one).

    Attributes:
        who: For each slot, the thread or agent (asynchronous unit); see RACE_ASYNC in race.h.
        clock: For each slot, the clock of the thread's warp or of the agent at the access.
        site: For each slot, the index of the instruction in `BlockCompiler.sites`.
        how: For SLOT_READER and SLOT_OTHER, the kind of access with the flags of race.h.
    """

    who: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    clock: Annotated[ctypes.Array[ctypes.c_uint32], array(U32, SLOTS)]
    site: Annotated[ctypes.Array[ctypes.c_uint16], array(U16, SLOTS)]
    how: Annotated[ctypes.Array[ctypes.c_uint8], array(U8, SLOTS - 1)]


@structure("sim_race_area")
class Area(Structure):
    """An allocation that race detection watches, because the kernel may store to it.

    `Race.areas` is an array of areas, sorted by start address.

    Attributes:
        start: Device address of the first byte.
        end: Device address after the last byte.
        cells: Address of the allocation's cells, which remember the last accesses.
    """

    start: U64
    end: U64
    cells: Annotated[Address, pointer("sim_race_cell")]


@structure("sim_race_event")
class RaceEvent(Structure):
    """A race between two instructions, and the number of races between them.

    All fields except `count` describe the first of these races. "Later" and "earlier" are in the
    order of the simulation.

    Attributes:
        site: Index in `BlockCompiler.sites` of the instruction with the later access.
        other_site: Index in `BlockCompiler.sites` of the instruction with the earlier access.
        thread: Thread of the later access, numbered over the launch.
        other_thread: Thread of the earlier access, numbered over the launch.
        kind: READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE or CONSTANT_AFTER_WRITE of
            race.h.
        severity: RACE_INFO, RACE_WARNING or RACE_ERROR of race.h.
        waits: 1 if the earlier access is asynchronous and no thread has waited for it.
        unused: Padding.
        address: Address of the bytes that both instructions accessed.
        count: Number of races between the two instructions.
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
    """The races that were found in a launch.

    Attributes:
        events: Address of an array of `RaceEvent`.
        count: Number of events in the array.
        limit: The most events that the array has room for.
    """

    events: Annotated[Address, pointer("sim_race_event")]
    count: U32
    limit: U32


@structure("sim_publication")
class Publication(Structure):
    """A fence that has published a warp's accesses.

    Attributes:
        clock: The clock of the warp up to which its accesses precede the fence.
        time: The number of the fence in the launch. It is 0 if the fence is one of the first, of
            which only the last clock is remembered.
    """

    clock: U32
    time: U32


@structure("sim_reach")
class Reach(Structure):
    """The fences that a warp has executed, and those whose flags it has read.

    All times are numbers of fences in the launch; 0 means none. Barriers pass them on to the other
    warps of the block.

    Attributes:
        fenced: Time of the latest fence.
        fenced_in_block: Time of the latest fence, including fences of block scope.
        acquired: Accesses that were published to other blocks up to this time are ordered before
            the warp's present accesses.
        acquired_in_block: As `acquired`, for accesses of the warp's own block.
    """

    fenced: U32
    fenced_in_block: U32
    acquired: U32
    acquired_in_block: U32


@structure("sim_flag")
class Flag(Structure):
    """A word of memory by which threads tell each other that data is ready.

    Attributes:
        key: The address of the word, or 0 if this place of the table is free.
        of_device: The time of the latest fence before a store of the flag, for other blocks.
        in_block: The time of the latest fence before a store of the flag, for the same block.
    """

    key: U64
    of_device: U32
    in_block: U32


@structure("sim_flags")
class Flags(Structure):
    """The flags of a launch.

    Attributes:
        table: Address of an array of `Flag`. The element after the last stands for all flags that
            find no place in it.
        size: Number of elements of the array without that one, a power of two.
        time: Number of fences so far.
        unused: Padding.
    """

    table: Annotated[Address, pointer("sim_flag")]
    size: U64
    time: U32
    unused: U32


@structure("sim_race")
class Race(Structure):
    """The state of race detection for a chunk (blocks that are simulated together).

    A cell remembers the last accesses of a few bytes. An agent is an asynchronous unit, such as the
    copies that an mbarrier counts. All chunks of a launch share the cells of global memory,
    `published`, `flags`, `areas` and `log`. A pointer field points to an array.

    Attributes:
        first_thread: Number in the launch of the chunk's first thread.
        lanes: Number of threads of the chunk.
        threads: Number of threads of a block.
        warps: Number of warps of a block.
        agents: The most agents of a block that the arrays have room for.
        shift: Base-2 logarithm of the number of bytes that one cell covers.
        launch_clock: The clock at which the launch began.
        chunk_clock: The clock at which the chunk began.
        warp_of: For each thread, the number of its warp in the chunk.
        block_start: For each warp, the number of the first warp of its block.
        now: For each warp, its clock.
        synced: For each warp, its clock when its threads last synchronised.
        floor: For each warp, a clock. Accesses of the warp's block before this clock are ordered
            before everything that the warp does now.
        apart: For each warp, a clock. Reads of other warps since this clock are certainly unordered
            with the warp's own reads. UINT32_MAX means that no such clock is known.
        seen: For each warp w and each warp v of its block, the clock up to which accesses of v are
            ordered before w's present accesses.
        flags: The flags of the launch, or NULL if the kernel has no fence.
        published: For each warp of the grid, its last `Publication`s to other blocks.
        published_in_block: For each warp of the chunk, its last `Publication`s to its own block,
            including those by fences of block scope (`.cta`).
        reach: For each warp of the chunk, the fences that it has executed or acquired.
        agents_seen: For each warp and each agent of its block, the clock up to which accesses of
            the agent are ordered before the warp's present accesses.
        agents_released: For each agent of each block, the clock up to which the agent's accesses
            precede a fence, so that other blocks can see them.
        shared: The cells of the chunk's shared memory.
        shared_cells: Number of cells for one block's shared memory.
        areas: The allocations that the kernel may store to.
        area_count: Number of elements of `areas`.
        log: The `Log` that receives the races that are found.
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
    flags: Annotated[Address, pointer("sim_flags")]
    published: Annotated[Address, pointer("sim_publication")]
    published_in_block: Annotated[Address, pointer("sim_publication")]
    reach: Annotated[Address, pointer("sim_reach")]
    agents_seen: Annotated[Address, pointer("uint32_t")]
    agents_released: Annotated[Address, pointer("uint32_t")]
    shared: Annotated[Address, pointer("sim_race_cell")]
    shared_cells: U64
    areas: Annotated[Address, pointer("const sim_race_area")]
    area_count: U64
    log: Annotated[Address, pointer("sim_race_log")]
