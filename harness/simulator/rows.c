#include <string.h>

#include "locate.h"

/* Rows of bytes, for instructions that move more than a vector register: row i is that of thread
 * lanes[i], which has to be a multiple of `align`. What was wrong with it is noted in faults[i].
 * Returns how many rows were faulty; what cannot be read becomes poison. */
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
            spaces->escapes += spaces->confined && found.is_global && found.cells;
            memcpy(out, found.data, bytes);
            for (uint64_t b = 0; b < bytes; b++)
                if (found.shadow[b] != 1) faults[i] = SIM_UNINITIALISED;
        }
        if (!found.data)
            for (uint64_t b = 0; b < bytes; b++) out[b] = ((const uint8_t *)&poison)[b & 3];
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}

/* Stores rows, or only takes them off what counts as written where `in` is NULL. */
int64_t sim_write_rows(sim_spaces *spaces, uint32_t space, uint64_t rows,
                       const int64_t *lanes, const uint64_t *addresses, uint64_t bytes,
                       uint64_t align, const uint8_t *in, uint8_t *faults) {
    last_allocation last = no_allocation();
    int64_t faulty = 0;
    for (uint64_t i = 0; i < rows; i++) {
        place found = {0};
        faults[i] = SIM_FINE;
        if (addresses[i] & (align - 1)) faults[i] = SIM_MISALIGNED;
        else if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found))
            faults[i] = SIM_OUT_OF_BOUNDS;
        else if (spaces->confined && found.is_global)
            spaces->escapes++;
        else {
            if (in) memcpy(found.data, in + i * bytes, bytes);
            memset(found.shadow, in ? 1 : 0, bytes);
        }
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}
