/* Rows of bytes, for instructions that move more than a vector register. Row i belongs to thread
 * lanes[i], and its address must be a multiple of `align`. */
#include <string.h>

#include "locate.h"

/* Return whether an access of a row stays partly unknown to other processes that run blocks of the
 * launch: its first or last bytes are only a part of a cell. See `escapes` in locate.h. */
static int is_lost(const sim_spaces *spaces, const place *found, uint64_t address, uint64_t bytes) {
    if (!spaces->confined || !found->is_global || !spaces->race) return 0;
    return ((address | bytes) & (((uint64_t)1 << spaces->race->shift) - 1)) != 0;
}

/* Read rows into `out`, and put the fault of row i into faults[i]. Bytes that cannot be read become
 * poison. Return how many rows were faulty. */
int64_t sim_read_rows(sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint64_t align, uint8_t *out,
                      uint8_t *faults) {
    static const uint32_t poison = SIM_POISON;
    last_allocation last = no_allocation();
    int64_t faulty = 0;
    for (uint64_t i = 0; i < rows; i++, out += bytes) {
        place found = {0};
        faults[i] = SIM_FINE;
        if (addresses[i] & (align - 1)) faults[i] = SIM_MISALIGNED;
        else if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found))
            faults[i] = SIM_OUT_OF_BOUNDS;
        else {
            spaces->escapes += found.cells && is_lost(spaces, &found, addresses[i], bytes);
            memcpy(out, found.data, bytes);
            faults[i] = unwritten(found, 0, bytes);
        }
        for (uint64_t b = 0; b < bytes; b++)
            if (!found.data || found.shadow[b] == SIM_PENDING)
                out[b] = ((const uint8_t *)&poison)[b & 3];
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}

/* Store rows, unless `in` is NULL, and set their shadow to `state`. Faulty rows are dropped. */
int64_t sim_write_rows(sim_spaces *spaces, uint32_t space, uint64_t rows,
                       const int64_t *lanes, const uint64_t *addresses, uint64_t bytes,
                       uint64_t align, const uint8_t *in, uint8_t *faults, uint32_t state) {
    last_allocation last = no_allocation();
    int64_t faulty = 0;
    for (uint64_t i = 0; i < rows; i++) {
        place found = {0};
        faults[i] = SIM_FINE;
        if (addresses[i] & (align - 1)) faults[i] = SIM_MISALIGNED;
        else if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found))
            faults[i] = SIM_OUT_OF_BOUNDS;
        else if (escapes(spaces, &found) || is_lost(spaces, &found, addresses[i], bytes))
            spaces->escapes++;
        else {
            if (in) memcpy(found.data, in + i * bytes, bytes);
            memset(found.shadow, (int)state, bytes);
        }
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}

/* Mark the target of copies as written, because a thread has waited for them. */
void sim_settle_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                     const uint64_t *addresses, uint64_t bytes) {
    last_allocation last = no_allocation();
    for (uint64_t i = 0; i < rows; i++) {
        place found = {0};
        if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found)) continue;
        for (uint64_t b = 0; b < bytes; b++)
            if (found.shadow[b] == SIM_PENDING) found.shadow[b] = SIM_BY_KERNEL;
    }
}

/* The kinds of accesses that sim_race_rows records. Keep in step with bindings.py. */
enum { TOLD_READ, TOLD_LOOK, TOLD_WRITE, TOLD_WAITED_READ, TOLD_WAITED_WRITE };

static void tell(sim_race *race, uint32_t what, sim_race_cell *cells, uint64_t count,
                 sim_race_access *mine, const uint8_t *before, const uint8_t *after) {
    uint64_t unit = (uint64_t)1 << race->shift;
    switch (what) {
    case TOLD_READ: sim_race_read_by(race, cells, count, mine); break;
    case TOLD_LOOK: sim_race_look(race, cells, count, mine); break;
    case TOLD_WAITED_READ:
    case TOLD_WAITED_WRITE:
        sim_race_hand_over(race, cells, count, mine, what == TOLD_WAITED_READ);
        break;
    default:
        for (uint64_t i = 0; i < count; i++, mine->address += unit) {
            int same = after && !memcmp(before + i * unit, after + i * unit, unit);
            sim_race_write_by(race, cells + i, 1, mine, same);
        }
    }
}

/* Report an access of rows by `actor` to race.c, before it is done. `in` has the written bytes, or
 * is NULL. Cells that a row covers only in part are left out. */
void sim_race_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                   const uint64_t *addresses, uint64_t bytes, uint64_t align, const uint8_t *in,
                   const sim_actor *actor, uint32_t what) {
    sim_race *race = spaces->race;
    last_allocation last = no_allocation();
    for (uint64_t i = 0; i < rows; i++) {
        place found = {0};
        uint64_t address = addresses[i], unit = (uint64_t)1 << race->shift;
        if (address & (align - 1)) continue;
        if (!locate(space, address, bytes, (uint64_t)lanes[i], spaces, &last, &found)) continue;
        uint64_t before = -address & (unit - 1);
        if (!found.cells || bytes < before + unit) continue;
        sim_race_access mine = {*actor, (uint64_t)lanes[i], address + before, found.since};
        tell(race, what, found.cells + (before > 0), (bytes - before) >> race->shift, &mine,
             found.data + before, in ? in + i * bytes + before : NULL);
    }
}
