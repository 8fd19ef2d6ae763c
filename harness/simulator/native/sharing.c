/* What processes that run blocks of one launch side by side have in common. */
#include <stdint.h>

#include "race.h"

/* The next of a row of numbers, which each caller gets once. */
uint64_t sim_take(uint64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

enum { UNTOUCHED, READ, WRITTEN };

/* For each cell whether threads have accessed its bytes since the clock was `since`. */
void sim_race_touched(const sim_race_cell *cells, uint64_t count, uint32_t since,
                      uint8_t *touched) {
    for (uint64_t i = 0; i < count; i++) {
        const sim_race_cell *cell = &cells[i];
        int reads = cell->clock[SLOT_READER] >= since, other = cell->clock[SLOT_OTHER] >= since;
        int writes = cell->clock[SLOT_WRITER] >= since || (reads && cell->how[0] & WRITES) ||
                     (other && cell->how[1] & WRITES);
        touched[i] = writes ? WRITTEN : reads || other ? READ : UNTOUCHED;
    }
}
