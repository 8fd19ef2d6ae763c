/* Functions for processes that run blocks of one launch side by side. */
#include <stdint.h>

#include "race.h"

/* Return the next number. Each number is returned once, whichever process calls. */
uint64_t sim_take(uint64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

enum { UNTOUCHED, READ, WRITTEN };

/* Fill in, for each cell, whether its bytes were read or written since the clock was `since`. */
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
