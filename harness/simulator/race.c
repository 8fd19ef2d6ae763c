#include "race.h"

#include <stddef.h>

#include "access.h"

/* Cells of the allocation that starts at `start`, or NULL where races are not looked for. */
sim_race_cell *sim_race_cells(const sim_race *race, uint64_t start) {
    uint64_t low = 0, high = race->area_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (race->areas[middle].start < start) low = middle + 1;
        else high = middle;
    }
    return low < race->area_count && race->areas[low].start == start ? race->areas[low].cells : NULL;
}

/* Whether two threads of the launch are of one warp. */
static int share_warp(const sim_race *race, uint32_t one, uint32_t two) {
    uint32_t first = race->first_thread;
    if (one < first || two < first)
        return one / race->threads == two / race->threads &&
               one % race->threads / 32 == two % race->threads / 32;
    return race->warp_of[one - first] == race->warp_of[two - first];
}

/* What a fence published is seen by whoever looked at a flag since: which flag is not followed, so
 * that hand-made synchronisation is believed rather than reported. */
static int handed_over(const sim_race *race, uint32_t thread, uint32_t clock, uint32_t here) {
    if (!race->released || !race->acquired[race->block_start[here]]) return 0;
    uint64_t warp = (uint64_t)(thread / race->threads) * race->warps + thread % race->threads / 32;
    return clock <= race->released[warp];
}

/* Whether the access of `thread` at `clock` happened before what `lane` does now. */
static int is_ordered(const sim_race *race, uint32_t thread, uint32_t clock, uint64_t lane) {
    uint32_t here = race->warp_of[lane];
    if (thread >= race->first_thread) {
        uint32_t there = race->warp_of[thread - race->first_thread];
        if (there == here) return clock < race->synced[here];
        uint32_t start = race->block_start[here];
        if (race->block_start[there] == start &&
            clock <= race->seen[(uint64_t)here * race->warps + there - start])
            return 1;
    }
    return handed_over(race, thread, clock, here);
}

static void note(sim_race *race, sim_race_event event) {
    for (uint32_t i = race->event_count; i-- > 0;) {
        sim_race_event *known = &race->events[i];
        if (known->site == event.site && known->other_site == event.other_site &&
            known->kind == event.kind && known->severity == event.severity) {
            known->count++;
            return;
        }
    }
    if (race->event_count < race->event_limit) race->events[race->event_count++] = event;
}

typedef struct access {
    uint64_t lane;
    uint64_t address;
    uint32_t site, how, since;
} access;

static inline uint32_t me(const sim_race *race, const access *mine) {
    return race->first_thread + (uint32_t)mine->lane;
}

/* Reports a race with what a slot remembers, if it is one. */
static inline void meet(sim_race *race, const sim_race_cell *cell, uint32_t slot, uint32_t their_how,
                        const access *mine, uint32_t kind, int same_value) {
    uint32_t thread = cell->thread[slot], clock = cell->clock[slot];
    if (clock < mine->since || thread == me(race, mine)) return;
    if (is_ordered(race, thread, clock, mine->lane)) return;
    int in_warp = share_warp(race, thread, me(race, mine));
    uint32_t both = their_how & mine->how;
    if (both && (!in_warp || both == RACE_ATOMIC)) return;
    uint32_t severity = same_value ? RACE_INFO : in_warp ? RACE_WARNING : RACE_ERROR;
    note(race, (sim_race_event){mine->site, cell->site[slot],
                                me(race, mine), thread, kind, severity,
                                mine->address, 1});
}

static inline void fill(sim_race *race, sim_race_cell *cell, uint32_t slot, const access *mine) {
    cell->thread[slot] = me(race, mine);
    cell->clock[slot] = race->now[race->warp_of[mine->lane]];
    cell->site[slot] = (uint16_t)mine->site;
}

/* Makes room for another reader. */
static inline void move_reader(const sim_race *race, sim_race_cell *cell, const access *mine) {
    cell->thread[SLOT_OTHER] = cell->thread[SLOT_READER];
    cell->clock[SLOT_OTHER] = cell->clock[SLOT_READER];
    cell->site[SLOT_OTHER] = cell->site[SLOT_READER];
    cell->how[1] = cell->how[0];
    if (!cell->how[0] && !mine->how && !share_warp(race, cell->thread[SLOT_OTHER], me(race, mine)))
        cell->how[1] = TWO_READERS;
}

/* Remembers a reader. Of readers that nothing orders two are kept, of different warps if there are
 * such: then one of them is unordered with any writer that races with a reader. */
static inline void remember_reader(sim_race *race, sim_race_cell *cell, const access *mine) {
    uint32_t first = cell->thread[SLOT_READER];
    uint32_t then = cell->how[0] & WRITES ? 0 : cell->clock[SLOT_READER];
    if (then >= mine->since && first != me(race, mine) && !is_ordered(race, first, then, mine->lane)) {
        int taken = cell->clock[SLOT_OTHER] >= mine->since;
        if (taken && cell->how[1] & WRITES) {
            /* One slot is left, and a plain reader races with more than a strong one. */
            if (mine->how || !cell->how[0]) return;
        } else {
            uint32_t second = cell->thread[SLOT_OTHER];
            if (taken && !is_ordered(race, second, cell->clock[SLOT_OTHER], mine->lane) &&
                (second == me(race, mine) || !share_warp(race, first, second)))
                return;
            move_reader(race, cell, mine);
        }
    } else if (first != me(race, mine) || mine->how) {
        cell->how[1] &= (uint8_t)~TWO_READERS;
    }
    fill(race, cell, SLOT_READER, mine);
    cell->how[0] = (uint8_t)mine->how;
}

/* Before a strong writer takes the last slot: another one that is there moves to the reader's, if
 * that has none. Of many, two of different warps are enough, as of readers. */
static void keep_strong_writer(const sim_race *race, sim_race_cell *cell, const access *mine) {
    int reads = cell->clock[SLOT_READER] >= mine->since && !(cell->how[0] & WRITES);
    int wrote = cell->clock[SLOT_OTHER] >= mine->since && cell->how[1] & WRITES;
    if (reads || !wrote || cell->thread[SLOT_OTHER] == me(race, mine)) return;
    if (cell->clock[SLOT_READER] >= mine->since &&
        share_warp(race, cell->thread[SLOT_OTHER], me(race, mine)) &&
        cell->thread[SLOT_READER] != me(race, mine))
        return;
    cell->thread[SLOT_READER] = cell->thread[SLOT_OTHER];
    cell->clock[SLOT_READER] = cell->clock[SLOT_OTHER];
    cell->site[SLOT_READER] = cell->site[SLOT_OTHER];
    cell->how[0] = cell->how[1];
}

static inline uint32_t cells_of(const sim_race *race, uint32_t bytes) {
    uint32_t count = bytes >> race->shift;
    return count ? count : 1;
}

static inline uint32_t other_how(const sim_race_cell *cell) { return cell->how[1] & RACE_ATOMIC; }

void sim_race_acquire(const sim_spaces *spaces, const int64_t *lanes, uint64_t count) {
    sim_race *race = spaces->race;
    if (!race) return;
    for (uint64_t i = 0; i < count; i++)
        race->acquired[race->block_start[race->warp_of[lanes ? (uint64_t)lanes[i] : i]]] = 1;
}

void sim_race_read(sim_race *race, sim_race_cell *cells, uint32_t bytes, uint64_t lane,
                   uint32_t site, uint32_t how, uint32_t since, uint64_t address) {
    access mine = {lane, address, site, how, since};
    uint32_t count = cells_of(race, bytes);
    for (uint32_t i = 0; i < count; i++) {
        sim_race_cell *cell = &cells[i];
        meet(race, cell, SLOT_WRITER, RACE_PLAIN, &mine, READ_AFTER_WRITE, 0);
        if (cell->how[0] & WRITES)
            meet(race, cell, SLOT_READER, cell->how[0] & RACE_ATOMIC, &mine, READ_AFTER_WRITE, 0);
        if (cell->how[1] & WRITES)
            meet(race, cell, SLOT_OTHER, other_how(cell), &mine, READ_AFTER_WRITE, 0);
        remember_reader(race, cell, &mine);
    }
}

void sim_race_write(sim_race *race, sim_race_cell *cells, uint32_t bytes, uint64_t lane,
                    uint32_t site, uint32_t how, uint32_t since, uint64_t address, int same) {
    access mine = {lane, address, site, how, since};
    uint32_t count = cells_of(race, bytes);
    for (uint32_t i = 0; i < count; i++) {
        sim_race_cell *cell = &cells[i];
        int other_writes = cell->how[1] & WRITES;
        meet(race, cell, SLOT_WRITER, RACE_PLAIN, &mine, WRITE_AFTER_WRITE, same);
        meet(race, cell, SLOT_READER, cell->how[0] & RACE_ATOMIC, &mine,
             cell->how[0] & WRITES ? WRITE_AFTER_WRITE : WRITE_AFTER_READ, 0);
        meet(race, cell, SLOT_OTHER, other_how(cell), &mine,
             other_writes ? WRITE_AFTER_WRITE : WRITE_AFTER_READ, other_writes && same);
        if (how) {
            keep_strong_writer(race, cell, &mine);
            fill(race, cell, SLOT_OTHER, &mine);
            cell->how[1] = (uint8_t)(how | WRITES);
            continue;
        }
        /* Whoever races with a forgotten reader races with this writer too. */
        fill(race, cell, SLOT_WRITER, &mine);
        cell->clock[SLOT_READER] = cell->clock[SLOT_OTHER] = 0;
        cell->how[0] = cell->how[1] = 0;
    }
}

static void advance(sim_race *race, uint32_t warp) {
    race->synced[warp] = ++race->now[warp];
    race->apart[warp] = UINT32_MAX;
}

/* The threads lanes[0..count), or 0..count, synchronise within their warps. */
void sim_race_warp_sync(const sim_spaces *spaces, const int64_t *lanes, uint64_t count) {
    sim_race *race = spaces->race;
    if (!race) return;
    uint32_t last = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t warp = race->warp_of[lanes ? (uint64_t)lanes[i] : i];
        if (warp != last) advance(race, warp);
        last = warp;
    }
}

/* A fence: everything that these threads' warps did or have seen may be handed to other blocks. */
void sim_race_fence(const sim_spaces *spaces, const int64_t *lanes, uint64_t count) {
    sim_race *race = spaces->race;
    if (!race || !race->released) return;
    uint32_t last = UINT32_MAX;
    uint64_t first_warp = (uint64_t)(race->first_thread / race->threads) * race->warps;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t warp = race->warp_of[lanes ? (uint64_t)lanes[i] : i];
        if (warp == last) continue;
        last = warp;
        uint32_t start = race->block_start[warp];
        for (uint32_t j = 0; j < race->warps; j++) {
            uint32_t *released = &race->released[first_warp + start + j];
            uint32_t seen = start + j == warp ? race->now[warp]
                                              : race->seen[(uint64_t)warp * race->warps + j];
            if (seen > *released) *released = seen;
        }
        race->now[warp]++;
    }
}

/* All warps of one block have met. Their clocks become equal, so that nobody has to ask again. */
static void join_all(sim_race *race, uint32_t start) {
    uint32_t clock = 0;
    for (uint32_t w = start; w < start + race->warps; w++)
        if (race->now[w] > clock) clock = race->now[w];
    for (uint32_t w = start; w < start + race->warps; w++) {
        race->now[w] = race->synced[w] = race->floor[w] = race->apart[w] = clock + 1;
        for (uint32_t j = 0; j < race->warps; j++)
            race->seen[(uint64_t)w * race->warps + j] = clock;
    }
}

/* The warps of one block that have `present` set have met. */
static void join(sim_race *race, uint32_t start, const uint8_t *present) {
    uint32_t warps = race->warps;
    for (uint32_t j = 0; j < warps; j++) {
        uint32_t latest = 0;
        for (uint32_t p = 0; p < warps; p++) {
            if (!present[p]) continue;
            uint32_t seen = p == j ? race->now[start + p]
                                   : race->seen[(uint64_t)(start + p) * warps + j];
            if (seen > latest) latest = seen;
        }
        for (uint32_t p = 0; p < warps; p++)
            if (present[p]) race->seen[(uint64_t)(start + p) * warps + j] = latest;
    }
    for (uint32_t p = 0; p < warps; p++)
        if (present[p]) advance(race, start + p);
}

/* A barrier that the threads set in `at` have passed, or all when it is NULL; with `whole` (needed
 * then) all warps of their blocks are ordered, those whose threads have ended included. */
void sim_race_barrier(sim_race *race, const uint8_t *at, uint64_t lanes, uint32_t whole) {
    uint8_t present[32];
    for (uint64_t first = 0; first < lanes; first += race->threads) {
        int any = !at;
        for (uint32_t w = 0; w < race->warps; w++) present[w] = 0;
        for (uint32_t t = 0; at && t < race->threads; t++)
            if (at[first + t]) any = present[t / 32] = 1;
        if (any && whole) join_all(race, race->warp_of[first]);
        else if (any) join(race, race->warp_of[first], present);
    }
}
