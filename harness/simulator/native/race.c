/* Race detection; race.h describes the algorithm. */
#include "race.h"

#include <stddef.h>

#include "access.h"
#include "flags.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define RARELY(condition) __builtin_expect((condition) != 0, 0)

/* A binary search: areas are sorted by start. */
sim_race_cell *sim_race_cells(const sim_race *race, uint64_t start) {
    uint64_t low = 0, high = race->area_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (race->areas[middle].start < start) low = middle + 1;
        else high = middle;
    }
    return low < race->area_count && race->areas[low].start == start ? race->areas[low].cells : NULL;
}

/* Return the thread that did a remembered access or started it. */
static uint32_t thread_of(const sim_race *race, uint32_t who) {
    if (!(who & RACE_ASYNC)) return who;
    if (!(who & RACE_BY_AGENT)) return who & (RACE_BY_AGENT - 1);
    return race->first_thread + (who & ((1u << RACE_LANE_BITS) - 1));
}

static inline int is_in_chunk(const sim_race *race, uint32_t thread) {
    return thread - race->first_thread < race->lanes;
}

/* Return whether two threads of the launch belong to one warp. Agents do not belong to any warp. */
static int share_warp(const sim_race *race, uint32_t one, uint32_t two) {
    if ((one | two) & RACE_ASYNC) return 0;
    uint32_t first = race->first_thread;
    if (!is_in_chunk(race, one) || !is_in_chunk(race, two))
        return one / race->threads == two / race->threads &&
               one % race->threads / 32 == two % race->threads / 32;
    return race->warp_of[one - first] == race->warp_of[two - first];
}

/* Return whether an agent's work has been waited for, by this warp or by one that it has
 * synchronised with since. */
static int is_waited_for(const sim_race *race, uint32_t agent, uint32_t clock, uint32_t here) {
    if (agent >= race->agents) return 0;
    if (clock <= race->agents_seen[(uint64_t)here * race->agents + agent]) return 1;
    if (!race->flags || !race->reach[here].acquired_in_block) return 0;
    uint64_t block = here / race->warps;
    return clock <= race->agents_released[block * race->agents + agent];
}

/* Return whether a remembered access happened before the current access of `lane`. */
static int is_ordered(const sim_race *race, uint32_t who, uint32_t clock, uint64_t lane) {
    uint32_t here = race->warp_of[lane];
    if (RARELY(who & RACE_ASYNC))
        return who & RACE_BY_AGENT &&
               is_waited_for(race, (who & (RACE_BY_AGENT - 1)) >> RACE_LANE_BITS, clock, here);
    if (is_in_chunk(race, who)) {
        uint32_t there = race->warp_of[who - race->first_thread];
        if (there == here) return clock < race->synced[here];
        uint32_t start = race->block_start[here];
        if (race->block_start[there] == start &&
            clock <= race->seen[(uint64_t)here * race->warps + there - start])
            return 1;
    }
    return race->flags && sim_flags_hand_over(race, who, clock, here);
}

/* Add an event to the log, or count it if a race of the same kind between its places is there.
 * In a full log, it takes the place of a less severe one, so that harmless races hide no others. */
static void note(sim_race_log *log, sim_race_event event) {
    for (uint32_t i = log->count; i-- > 0;) {
        sim_race_event *known = &log->events[i];
        if (known->site == event.site && known->other_site == event.other_site &&
            known->kind == event.kind && known->severity == event.severity) {
            known->count++;
            return;
        }
    }
    if (log->count < log->limit) {
        log->events[log->count++] = event;
        return;
    }
    sim_race_event *least = log->events;
    for (uint32_t i = 1; i < log->count; i++)
        if (log->events[i].severity < least->severity) least = &log->events[i];
    if (least->severity < event.severity) *least = event;
}

typedef const sim_race_access access;

/* Return the thread that does the current access or has started it. */
static inline uint32_t me(const sim_race *race, access *mine) {
    return race->first_thread + (uint32_t)mine->lane;
}

static ALWAYS_INLINE int is_plain(access *mine) { return mine->actor.agent == RACE_THREAD; }

/* Return the `who` by which a slot remembers the current access. */
static ALWAYS_INLINE uint32_t who_am_i(const sim_race *race, access *mine) {
    if (!RARELY(!is_plain(mine))) return me(race, mine);
    if (mine->actor.agent == RACE_COPIES) return RACE_ASYNC | me(race, mine);
    return RACE_ASYNC | RACE_BY_AGENT | mine->actor.agent << RACE_LANE_BITS | (uint32_t)mine->lane;
}

/* Return whether a remembered access still counts. A barrier does not order asynchronous accesses,
 * so only the start of the launch or chunk ends those. */
static ALWAYS_INLINE int is_live(const sim_race *race, const sim_race_cell *cell, uint32_t slot,
                          access *mine) {
    uint32_t who = cell->who[slot], clock = cell->clock[slot];
    if (RARELY(who & RACE_ASYNC))
        return clock >= (who & RACE_BY_AGENT ? race->chunk_clock : race->launch_clock);
    return clock >= mine->since;
}

/* Return whether the scope that two strong accesses share includes both of their threads. */
static ALWAYS_INLINE int is_in_scope(const sim_race *race, uint32_t both, uint32_t one,
                                     uint32_t two) {
    return both & RACE_WIDE || one / race->threads == two / race->threads;
}

/* Report a race between the current access and a slot's, if there is one.
 *
 * A write of the same value is information only. A race within a warp, which a __syncwarp() would
 * order, is a warning. */
static ALWAYS_INLINE void meet(sim_race *race, const sim_race_cell *cell, uint32_t slot, uint32_t their_how,
                        access *mine, uint32_t kind, int same_value) {
    uint32_t who = cell->who[slot];
    if (!is_live(race, cell, slot, mine) || who == me(race, mine)) return;
    if (is_ordered(race, who, cell->clock[slot], mine->lane)) return;
    int in_warp = share_warp(race, who, me(race, mine));
    uint32_t both = their_how & mine->actor.how;
    if (both & RACE_STRONG && is_in_scope(race, both, thread_of(race, who), me(race, mine)) &&
        (!in_warp || (both & RACE_ATOMIC) == RACE_ATOMIC))
        return;
    uint32_t severity = same_value ? RACE_INFO : in_warp ? RACE_WARNING : RACE_ERROR;
    note(race->log, (sim_race_event){mine->actor.site, cell->site[slot], me(race, mine),
                                     thread_of(race, who), kind, severity, who >> 31, 0,
                                     mine->address, 1});
}

/* Put the current access into a slot. */
static ALWAYS_INLINE void fill(sim_race *race, sim_race_cell *cell, uint32_t slot, access *mine) {
    int is_agents = RARELY(!is_plain(mine)) && mine->actor.agent != RACE_COPIES;
    cell->who[slot] = who_am_i(race, mine);
    cell->clock[slot] = is_agents ? mine->actor.clock : race->now[race->warp_of[mine->lane]];
    cell->site[slot] = (uint16_t)mine->actor.site;
}

/* Move the reader to SLOT_OTHER, to make room for another one. */
static ALWAYS_INLINE void move_reader(const sim_race *race, sim_race_cell *cell, access *mine) {
    cell->who[SLOT_OTHER] = cell->who[SLOT_READER];
    cell->clock[SLOT_OTHER] = cell->clock[SLOT_READER];
    cell->site[SLOT_OTHER] = cell->site[SLOT_READER];
    cell->how[1] = cell->how[0];
    if (!cell->how[0] && !mine->actor.how && is_plain(mine) &&
        !(cell->who[SLOT_OTHER] & RACE_ASYNC) &&
        !share_warp(race, cell->who[SLOT_OTHER], me(race, mine)))
        cell->how[1] = TWO_READERS;
}

/* Remember a reader.
 *
 * A cell keeps at most two unordered readers, of different warps if there are such. FastTrack keeps
 * a whole vector of readers. Two are enough here: a writer that races with any reader is unordered
 * with at least one of them. */
static ALWAYS_INLINE void remember_reader(sim_race *race, sim_race_cell *cell, access *mine) {
    uint32_t first = cell->who[SLOT_READER], myself = who_am_i(race, mine);
    int is_there = !(cell->how[0] & WRITES) && is_live(race, cell, SLOT_READER, mine);
    if (is_there && first != myself &&
        !is_ordered(race, first, cell->clock[SLOT_READER], mine->lane)) {
        int taken = is_live(race, cell, SLOT_OTHER, mine);
        if (taken && cell->how[1] & WRITES) {
            /* A strong writer occupies the other slot. In the remaining one, a plain reader takes
             * precedence over a strong one, because it races with more accesses. */
            if (mine->actor.how || !cell->how[0]) return;
        } else {
            uint32_t second = cell->who[SLOT_OTHER];
            if (taken && !is_ordered(race, second, cell->clock[SLOT_OTHER], mine->lane) &&
                (second == myself || !share_warp(race, first, second)))
                return;
            move_reader(race, cell, mine);
        }
    } else if (first != myself || mine->actor.how) {
        cell->how[1] &= (uint8_t)~TWO_READERS;
    }
    fill(race, cell, SLOT_READER, mine);
    cell->how[0] = (uint8_t)mine->actor.how;
}

/* Before a strong writer takes SLOT_OTHER, move the strong writer there to SLOT_READER, if that
 * slot has no reader. As with readers, two strong writers of different warps are enough. */
static ALWAYS_INLINE void keep_strong_writer(const sim_race *race, sim_race_cell *cell, access *mine) {
    int reads = is_live(race, cell, SLOT_READER, mine) && !(cell->how[0] & WRITES);
    int wrote = is_live(race, cell, SLOT_OTHER, mine) && cell->how[1] & WRITES;
    if (reads || !wrote || cell->who[SLOT_OTHER] == me(race, mine)) return;
    if (is_live(race, cell, SLOT_READER, mine) &&
        share_warp(race, cell->who[SLOT_OTHER], me(race, mine)) &&
        cell->who[SLOT_READER] != me(race, mine))
        return;
    cell->who[SLOT_READER] = cell->who[SLOT_OTHER];
    cell->clock[SLOT_READER] = cell->clock[SLOT_OTHER];
    cell->site[SLOT_READER] = cell->site[SLOT_OTHER];
    cell->how[0] = cell->how[1];
}

static inline uint32_t other_how(const sim_race_cell *cell) { return cell->how[1] & RACE_HOW; }

/* Return whether an atomic in SLOT_READER precedes a plain write, because the later one in SLOT_OTHER
 * does: an atomic reads what the one before it has written. So the last block may reset a counter. */
static ALWAYS_INLINE int follows_atomics(const sim_race *race, const sim_race_cell *cell,
                                         access *mine) {
    uint32_t both = cell->how[0] & cell->how[1], who = cell->who[SLOT_OTHER];
    if (mine->actor.how || !(both & WRITES) || (both & RACE_ATOMIC) != RACE_ATOMIC) return 0;
    if (!is_live(race, cell, SLOT_OTHER, mine)) return 0;
    return who == me(race, mine) || is_ordered(race, who, cell->clock[SLOT_OTHER], mine->lane);
}

/* Check a read against all writers that the cell remembers. */
static ALWAYS_INLINE void meet_writers(sim_race *race, const sim_race_cell *cell, access *mine) {
    meet(race, cell, SLOT_WRITER, RACE_PLAIN, mine, READ_AFTER_WRITE, 0);
    if (cell->how[0] & WRITES)
        meet(race, cell, SLOT_READER, cell->how[0] & RACE_HOW, mine, READ_AFTER_WRITE, 0);
    if (cell->how[1] & WRITES)
        meet(race, cell, SLOT_OTHER, other_how(cell), mine, READ_AFTER_WRITE, 0);
}

static ALWAYS_INLINE void read_cells(sim_race *race, sim_race_cell *cells, uint64_t count,
                                     access *mine) {
    for (uint64_t i = 0; i < count; i++) {
        meet_writers(race, &cells[i], mine);
        remember_reader(race, &cells[i], mine);
    }
}

static ALWAYS_INLINE void write_cells(sim_race *race, sim_race_cell *cells, uint64_t count,
                                      access *mine, int same) {
    for (uint64_t i = 0; i < count; i++) {
        sim_race_cell *cell = &cells[i];
        int other_writes = cell->how[1] & WRITES;
        meet(race, cell, SLOT_WRITER, RACE_PLAIN, mine, WRITE_AFTER_WRITE, same);
        if (!follows_atomics(race, cell, mine))
            meet(race, cell, SLOT_READER, cell->how[0] & RACE_HOW, mine,
                 cell->how[0] & WRITES ? WRITE_AFTER_WRITE : WRITE_AFTER_READ, 0);
        meet(race, cell, SLOT_OTHER, other_how(cell), mine,
             other_writes ? WRITE_AFTER_WRITE : WRITE_AFTER_READ, other_writes && same);
        if (mine->actor.how) {
            keep_strong_writer(race, cell, mine);
            fill(race, cell, SLOT_OTHER, mine);
            cell->how[1] = (uint8_t)(mine->actor.how | WRITES);
            continue;
        }
        /* The readers can be forgotten: a later access that races with one of them races with this
         * writer too. */
        fill(race, cell, SLOT_WRITER, mine);
        cell->clock[SLOT_READER] = cell->clock[SLOT_OTHER] = 0;
        cell->how[0] = cell->how[1] = 0;
    }
}

/* Threads' own accesses are the most frequent. The next two functions inline the same source as the
 * general ones, but with a constant agent, so that the compiler removes its branches. */
void sim_race_read(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                   uint32_t site, uint32_t how, uint32_t since, uint64_t address) {
    sim_race_access mine = {{site, how, RACE_THREAD, 0}, lane, address, since};
    read_cells(race, cells, count, &mine);
}

void sim_race_write(sim_race *race, sim_race_cell *cells, uint64_t count, uint64_t lane,
                    uint32_t site, uint32_t how, uint32_t since, uint64_t address, int same) {
    sim_race_access mine = {{site, how, RACE_THREAD, 0}, lane, address, since};
    write_cells(race, cells, count, &mine, same);
}

void sim_race_read_by(sim_race *race, sim_race_cell *cells, uint64_t count, access *mine) {
    read_cells(race, cells, count, mine);
}

void sim_race_write_by(sim_race *race, sim_race_cell *cells, uint64_t count, access *mine,
                       int same) {
    write_cells(race, cells, count, mine, same);
}

/* Writes that are not ordered before the read are left to the check for races. */
void sim_race_constant(sim_race *race, const sim_race_cell *cells, uint64_t count, uint64_t lane,
                       uint32_t site, uint32_t since, uint64_t address) {
    sim_race_access mine = {{site, RACE_PLAIN, RACE_THREAD, 0}, lane, address, since};
    for (uint64_t i = 0; i < count; i++)
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            const sim_race_cell *cell = &cells[i];
            uint32_t who = cell->who[slot], mark = slot ? cell->how[slot - 1] & WRITES : WRITES;
            if (!mark || !is_live(race, cell, slot, &mine)) continue;
            if (who != me(race, &mine) && !share_warp(race, who, me(race, &mine)) &&
                !is_ordered(race, who, cell->clock[slot], lane))
                continue;
            note(race->log, (sim_race_event){site, cell->site[slot], me(race, &mine),
                                             thread_of(race, who), CONSTANT_AFTER_WRITE,
                                             RACE_ERROR, 0, 0, address, 1});
        }
}

void sim_race_look(sim_race *race, sim_race_cell *cells, uint64_t count, access *mine) {
    for (uint64_t i = 0; i < count; i++) meet_writers(race, &cells[i], mine);
}

void sim_race_hand_over(sim_race *race, sim_race_cell *cells, uint64_t count, access *mine,
                        int reads) {
    uint32_t before = RACE_ASYNC | me(race, mine);
    for (uint64_t i = 0; i < count; i++) {
        sim_race_cell *cell = &cells[i];
        for (uint32_t slot = reads ? SLOT_READER : SLOT_WRITER;
             slot <= (reads ? SLOT_OTHER : SLOT_WRITER); slot++) {
            uint32_t site = cell->site[slot];
            if (cell->who[slot] != before || cell->clock[slot] < race->launch_clock) continue;
            fill(race, cell, slot, mine);
            cell->site[slot] = (uint16_t)site;
        }
    }
}

/* Order the threads of a warp among each other. A reader that a cell remembers may then be ordered
 * with this warp's reads, so `apart` excludes all readers. */
static void advance(sim_race *race, uint32_t warp) {
    race->synced[warp] = ++race->now[warp];
    race->apart[warp] = UINT32_MAX;
}

/* Order the threads lanes[0..count), or 0..count, within their warps. */
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

/* Merge the clocks of agents that the warps of a block have seen; with `present`, only of those
 * warps. */
static void join_agents(sim_race *race, uint32_t start, const uint8_t *present) {
    uint64_t agents = race->agents;
    for (uint64_t a = 0; a < agents; a++) {
        uint32_t latest = 0;
        for (uint32_t p = 0; p < race->warps; p++) {
            uint32_t seen = race->agents_seen[(start + p) * agents + a];
            if ((!present || present[p]) && seen > latest) latest = seen;
        }
        for (uint32_t p = 0; p < race->warps; p++)
            if (!present || present[p]) race->agents_seen[(start + p) * agents + a] = latest;
    }
}

/* Order all warps of a block at a barrier. Their clocks become equal, and `floor` moves past them.
 * So later accesses skip all earlier ones of shared memory with a single comparison. */
static void join_all(sim_race *race, uint32_t start) {
    uint32_t clock = 0;
    for (uint32_t w = start; w < start + race->warps; w++)
        if (race->now[w] > clock) clock = race->now[w];
    for (uint32_t w = start; w < start + race->warps; w++) {
        race->now[w] = race->synced[w] = race->floor[w] = race->apart[w] = clock + 1;
        for (uint32_t j = 0; j < race->warps; j++)
            race->seen[(uint64_t)w * race->warps + j] = clock;
    }
    join_agents(race, start, NULL);
    sim_flags_join(race, start, NULL);
}

/* Order those warps of a block that have `present` set at a barrier, by merging the clocks that
 * they have seen. */
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
    join_agents(race, start, present);
    sim_flags_join(race, start, present);
}

/* Order the threads set in `at`, or all if it is NULL, at a barrier. With `whole`, which a NULL
 * `at` requires, all warps of their blocks are ordered, including those whose threads have
 * ended. */
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
