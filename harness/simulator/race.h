/* Which accesses of shared and global memory are ordered, and which are races.
 *
 * The clock of a warp advances at each synchronisation; a cell remembers who touched its bytes last
 * and when, and a vector clock for each warp tells up to when it has seen the others of its block
 * (C. Flanagan and S. Freund, FastTrack, PLDI 2009). What is found does not depend on which thread
 * the simulator happens to run first. Clocks grow from launch to launch, so that cells need not be
 * cleared: what is older than the launch (of shared memory: than the chunk) does not count.
 */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include <stdint.h>

/* How an access takes part: volatile, relaxed, acquire and release are strong. Strong accesses do
 * not race with one another, except within a warp where not both are atomic. */
enum { RACE_PLAIN = 0, RACE_STRONG = 1, RACE_ATOMIC = 3 };

/* Slots of a cell: the last plain writer, and two that are readers or strong writers. */
enum { SLOT_WRITER, SLOT_READER, SLOT_OTHER, SLOTS };

/* What was seen of a few bytes (1 << shift of them). Threads are numbered over the launch. */
typedef struct sim_race_cell {
    uint32_t thread[SLOTS];
    uint32_t clock[SLOTS];
    uint16_t site[SLOTS];
    uint8_t how[SLOTS - 1]; /* of the reader; of the other one, with the flags below */
} sim_race_cell;
/* The slot holds a strong writer instead; the other one is a plain reader of another warp. */
enum { WRITES = 128, TWO_READERS = 64 };

/* An allocation that the kernel stores to. Sorted by start. */
typedef struct sim_race_area {
    uint64_t start;
    uint64_t end;
    sim_race_cell *cells;
} sim_race_area;

enum { RACE_INFO, RACE_WARNING, RACE_ERROR };
enum { READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE };

/* The first race of two places in the code, and how many more there were. */
typedef struct sim_race_event {
    uint32_t site, other_site;
    uint32_t thread, other_thread;
    uint32_t kind, severity;
    uint64_t address;
    uint64_t count;
} sim_race_event;

typedef struct sim_race {
    uint32_t first_thread; /* number of the first thread of the chunk */
    uint32_t threads;      /* of a block */
    uint32_t warps;        /* of a block */
    uint32_t shift;
    uint32_t launch_clock, chunk_clock;
    const uint32_t *warp_of;     /* warp in the chunk, for each lane */
    const uint32_t *block_start; /* for each warp the first warp of its block */
    uint32_t *now;               /* clock of each warp */
    uint32_t *synced;            /* its clock when its threads last synchronised */
    uint32_t *floor;             /* what its block did before this is ordered with all it does */
    uint32_t *apart;             /* readers since then are not ordered with its own reading */
    uint32_t *seen;              /* [warp][warp of the block]: what it has seen of others */
    uint32_t *released;          /* for each warp of the grid, what a fence let others see */
    uint8_t *acquired;           /* for the first warp of each block: it looked at a flag */
    sim_race_cell *shared;
    uint64_t shared_cells; /* for each block */
    const sim_race_area *areas;
    uint64_t area_count;
    sim_race_event *events;
    uint32_t event_count, event_limit;
} sim_race;

sim_race_cell *sim_race_cells(const sim_race *race, uint64_t start);
struct sim_spaces;
/* The threads lanes[0..count), or 0..count, look at a flag, wherever it is. */
void sim_race_acquire(const struct sim_spaces *spaces, const int64_t *lanes, uint64_t count);
void sim_race_read(sim_race *race, sim_race_cell *cells, uint32_t bytes, uint64_t lane,
                   uint32_t site, uint32_t how, uint32_t since, uint64_t address);
void sim_race_write(sim_race *race, sim_race_cell *cells, uint32_t bytes, uint64_t lane,
                    uint32_t site, uint32_t how, uint32_t since, uint64_t address, int same);

/* Whether there is nothing to do for a plain read: no writer to race with, and two readers there
 * already of whom one races with whatever writer races with this one. */
static inline int sim_race_is_known(const sim_race *race, const sim_race_cell *cell, uint64_t lane,
                                    uint32_t since) {
    uint32_t apart = race->apart[race->warp_of[lane]];
    return cell->how[1] & TWO_READERS && cell->clock[SLOT_WRITER] < since &&
           cell->clock[SLOT_READER] >= apart && cell->clock[SLOT_OTHER] >= apart;
}

#endif
