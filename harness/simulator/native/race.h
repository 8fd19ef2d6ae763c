/* Which accesses of shared and global memory are ordered, and which are races.
 *
 * The clock of a warp advances at each synchronisation; a cell remembers who touched its bytes last
 * and when, and a vector clock for each warp tells up to when it has seen the others of its block
 * (C. Flanagan and S. Freund, FastTrack, PLDI 2009). What is found does not depend on which thread
 * the simulator happens to run first. Clocks grow from launch to launch, so that cells need not be
 * cleared: what is older than the launch (of shared memory: than the chunk) does not count.
 *
 * What is done asynchronously is not ordered with anything that comes after it, the thread that
 * started it included, until somebody waits for it. So it is remembered not as that thread's but as
 * an agent's: an mbarrier stands for the copies that it counts, a warpgroup for its wgmmas, and
 * their clocks count phases and groups; warps see them when they wait. Copies that a thread waits
 * for by itself become the thread's own at that moment.
 */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include "layout.h"

/* How an access takes part: volatile, relaxed, acquire and release are strong. Strong accesses do
 * not race with one another, except within a warp where not both are atomic. */
enum { RACE_PLAIN = 0, RACE_STRONG = 1, RACE_ATOMIC = 3 };

/* Slots of a cell: the last plain writer, and two that are readers or strong writers. */
enum { SLOT_WRITER, SLOT_READER, SLOT_OTHER };

/* Who did what a slot remembers: a thread, numbered over the launch; or, asynchronously, copies that
 * only the thread in the low bits can wait for; or an agent of the block, with the lane that gave it
 * the work. */
#define RACE_ASYNC (1u << 31)
#define RACE_BY_AGENT (1u << 30)
enum { RACE_LANE_BITS = 15 };

/* Agents in sim_actor that are none: the threads themselves, and copies that they wait for. */
enum { RACE_THREAD = 0xFFFF, RACE_COPIES = 0xFFFE };

/* The slot holds a strong writer instead; the other one is a plain reader of another warp. */
enum { WRITES = 128, TWO_READERS = 64 };

enum { RACE_INFO, RACE_WARNING, RACE_ERROR };
enum { READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE };

/* One access of consecutive cells. */
typedef struct sim_race_access {
    sim_actor actor;
    uint64_t lane, address;
    uint32_t since; /* clock before which what the cells say does not count */
} sim_race_access;

sim_race_cell *sim_race_cells(const sim_race *race, uint64_t start);
struct sim_spaces;
/* The threads lanes[0..count), or 0..count, look at a flag, wherever it is. */
void sim_race_acquire(const struct sim_spaces *spaces, const int64_t *lanes, uint64_t count);
/* Accesses of threads. */
void sim_race_read(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                   uint32_t site, uint32_t how, uint32_t since, uint64_t address);
void sim_race_write(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                    uint32_t site, uint32_t how, uint32_t since, uint64_t address, int same);
/* Accesses of whoever it is. */
void sim_race_read_by(sim_race *race, sim_race_cell *cells, uint64_t count,
                      const sim_race_access *mine);
void sim_race_write_by(sim_race *race, sim_race_cell *cells, uint64_t count,
                       const sim_race_access *mine, int same);
/* A read that is not remembered: another one stands for it. */
void sim_race_look(sim_race *race, sim_race_cell *cells, uint64_t count,
                   const sim_race_access *mine);
/* What is remembered as `lane`'s copies is now `mine`'s: the lane's own, or an agent's. */
void sim_race_hand_over(sim_race *race, sim_race_cell *cells, uint64_t count,
                        const sim_race_access *mine, int reads);

static inline uint64_t sim_race_cell_count(const sim_race *race, uint64_t bytes) {
    uint64_t count = bytes >> race->shift;
    return count ? count : 1;
}

/* Whether a slot remembers a thread of this warp, since when the warp has synchronised last. */
static inline int sim_race_is_of_warp(const sim_race *race, const sim_race_cell *cell, int slot,
                                      uint32_t warp) {
    /* What is asynchronous is no lane. */
    uint32_t lane = cell->who[slot] - race->first_thread;
    return lane < race->lanes && race->warp_of[lane] == warp &&
           cell->clock[slot] == race->now[warp];
}

/* Whether there is nothing to do for a plain read: no writer to race with, and two readers there
 * already of whom one races with whatever writer races with this one: of two warps, or two threads
 * of this one, as where all of its threads read one number. */
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
