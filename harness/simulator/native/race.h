/* Detection of races in shared and global memory.
 *
 * Two accesses race if they touch the same bytes, at least one writes, and neither happens before
 * the other. The algorithm is that of C. Flanagan and S. Freund, FastTrack, PLDI 2009:
 *
 * - Each warp has a clock, which advances at every synchronisation. Threads of a warp share it, so
 *   that a block has at most 32 clocks and not 1024.
 * - Each warp has a vector clock, which holds the clocks up to which it has seen the other warps of
 *   its block. Barriers merge the vector clocks of the warps that meet.
 * - A cell stands for a few bytes. It remembers the last accesses with their clocks. A remembered
 *   access happened before the current one if its clock is not later than the clock that the
 *   current warp has seen. Otherwise the two accesses race.
 *
 * So the result does not depend on the order in which the simulator runs threads: a race is found
 * even if the accesses happen to run in the intended order.
 *
 * Clocks grow from launch to launch, so cells need not be cleared. Accesses of global memory before
 * the launch do not count, nor do accesses of shared memory before the chunk.
 *
 * An asynchronous access is not ordered with anything that follows it, even in the thread that
 * started it, until a thread waits for it. So a cell remembers it as an agent's access and not as
 * the thread's. An mbarrier is the agent of the copies that it counts, and its clock counts phases.
 * A warpgroup is the agent of its wgmmas, and its clock counts groups. A warp sees these clocks
 * when it waits. Copies that a thread waits for by itself become the thread's own accesses at that
 * moment.
 */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include "layout.h"

/* The kind of an access: volatile, relaxed, acquire and release are strong. RACE_WIDE is added if
 * its scope is more than one block. Two strong accesses do not race with each other, except
 * - within a warp, if one of them is not atomic;
 * - between blocks, if the scope of one of them is its block. */
enum { RACE_PLAIN = 0, RACE_STRONG = 1, RACE_ATOMIC = 3, RACE_WIDE = 4, RACE_HOW = 7 };

/* Slots of a cell: the last plain writer, and two readers or strong writers. */
enum { SLOT_WRITER, SLOT_READER, SLOT_OTHER };

/* The `who` of a slot is one of
 * - the number of a thread in the launch;
 * - RACE_ASYNC and a thread's number: copies that only this thread can wait for;
 * - RACE_ASYNC, RACE_BY_AGENT, the number of an agent of the block, and in the low bits the lane
 *   that started its work. */
#define RACE_ASYNC (1u << 31)
#define RACE_BY_AGENT (1u << 30)
enum { RACE_LANE_BITS = 15 };

/* Values of `agent` in sim_actor that do not stand for an agent of the block: the thread itself,
 * and copies that it waits for by itself. */
enum { RACE_THREAD = 0xFFFF, RACE_COPIES = 0xFFFE };

/* Flags of a slot's `how`. WRITES: the slot holds a strong writer and not a reader. TWO_READERS, of
 * SLOT_OTHER: both slots hold plain readers, and they belong to different warps. */
enum { WRITES = 128, TWO_READERS = 64 };

enum { RACE_INFO, RACE_WARNING, RACE_ERROR };
enum { READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE, CONSTANT_AFTER_WRITE };

/* One access of consecutive cells. */
typedef struct sim_race_access {
    sim_actor actor;
    uint64_t lane, address;
    uint32_t since; /* accesses in the cells before this clock do not count */
} sim_race_access;

/* Return the cells of the allocation that starts at `start`, or NULL if it is not checked. */
sim_race_cell *sim_race_cells(const sim_race *race, uint64_t start);
/* Check and record an access of a thread. `same` is 1 if a write does not change the value. */
void sim_race_read(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                   uint32_t site, uint32_t how, uint32_t since, uint64_t address);
void sim_race_write(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                    uint32_t site, uint32_t how, uint32_t since, uint64_t address, int same);
/* Check and record an access of a thread or an agent. */
void sim_race_read_by(sim_race *race, sim_race_cell *cells, uint64_t count,
                      const sim_race_access *mine);
void sim_race_write_by(sim_race *race, sim_race_cell *cells, uint64_t count,
                       const sim_race_access *mine, int same);
/* Check that the launch has not written what a thread reads by a load that is not coherent. */
void sim_race_constant(sim_race *race, const sim_race_cell *cells, uint64_t count, uint64_t lane,
                       uint32_t site, uint32_t since, uint64_t address);
/* Check a read without recording it, because another reader stands for it. */
void sim_race_look(sim_race *race, sim_race_cell *cells, uint64_t count,
                   const sim_race_access *mine);
/* Turn remembered accesses of the copies of `mine->lane` into accesses of `mine`: the thread
 * itself, or an agent. */
void sim_race_hand_over(sim_race *race, sim_race_cell *cells, uint64_t count,
                        const sim_race_access *mine, int reads);

/* Return how many cells an access of `bytes` bytes touches. */
static inline uint64_t sim_race_cell_count(const sim_race *race, uint64_t bytes) {
    uint64_t count = bytes >> race->shift;
    return count ? count : 1;
}

/* Return whether a slot remembers a thread of this warp at the warp's current clock. */
static inline int sim_race_is_of_warp(const sim_race *race, const sim_race_cell *cell, int slot,
                                      uint32_t warp) {
    /* An asynchronous `who` has the top bit set and so is not below `lanes`. */
    uint32_t lane = cell->who[slot] - race->first_thread;
    return lane < race->lanes && race->warp_of[lane] == warp &&
           cell->clock[slot] == race->now[warp];
}

/* Return whether a plain read needs no work, which is the common case of many readers.
 *
 * That is so if the cell has no writer and already has two suitable readers: every writer that
 * would race with this read races with one of them. Either the two readers belong to different
 * warps and are certainly unordered with this warp's reads. Or both are threads of this warp at its
 * current clock, as when all threads of the warp read one number. */
static inline int sim_race_is_known(const sim_race *race, const sim_race_cell *cell, uint64_t lane,
                                    uint32_t since) {
    if (cell->clock[SLOT_WRITER] >= since || cell->who[SLOT_WRITER] & RACE_ASYNC) return 0;
    uint32_t warp = race->warp_of[lane];
    if (cell->how[1] & TWO_READERS) {
        uint32_t apart = race->apart[warp];
        return cell->clock[SLOT_READER] >= apart && cell->clock[SLOT_OTHER] >= apart;
    }
    return !(cell->how[0] | cell->how[1]) && cell->who[SLOT_READER] != cell->who[SLOT_OTHER] &&
           sim_race_is_of_warp(race, cell, SLOT_READER, warp) &&
           sim_race_is_of_warp(race, cell, SLOT_OTHER, warp);
}

#endif
