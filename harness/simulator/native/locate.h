/* The translation of an address to its bytes, their shadow and their cells of race detection.
 *
 * The files that access memory include this header, so that its functions are inlined into their
 * loops. */
#ifndef SIM_LOCATE_H
#define SIM_LOCATE_H

#include <stdint.h>
#include <string.h>

#include "access.h"
#include "arena.h"
#include "race.h"

/* The allocation of the previous access. Neighbouring threads mostly access the same allocation, so
 * this saves most searches. It is kept for one vector of threads, during which nothing is freed. */
typedef struct last_allocation {
    uint64_t start;
    uint64_t size;
    int64_t to_shadow;
    sim_race_cell *cells; /* NULL if it is not checked for races */
} last_allocation;

/* The bytes of an access. */
typedef struct place {
    uint8_t *data;
    uint8_t *shadow;
    sim_race_cell *cells; /* NULL if the bytes are not checked for races */
    uint32_t since;       /* accesses in the cells before this clock do not count */
    int is_global;
} place;

static inline int in_last(uint64_t address, uint64_t bytes, const last_allocation *last) {
    uint64_t offset = address - last->start;
    return offset < last->size && bytes <= last->size - offset;
}

/* Look up the allocation of an address. Return 0 if the bytes are not within a live one. */
static __attribute__((noinline)) int refill(uint64_t address, uint64_t bytes,
                                            const sim_spaces *spaces, last_allocation *last) {
    const sim_allocation *found = sim_find(address);
    if (!found || !found->live) return 0;
    last->start = found->start;
    last->size = found->size;
    last->cells = spaces->race ? sim_race_cells(spaces->race, found->start) : NULL;
    return in_last(address, bytes, last);
}

/* Find the bytes that a thread accesses. Return 0 if they are outside of its memory. */
static inline __attribute__((always_inline)) int
locate(uint32_t space, uint64_t address, uint64_t bytes, uint64_t thread, const sim_spaces *spaces,
       last_allocation *last, place *found) {
    if (space == SIM_GENERIC) {
        space = (uint32_t)(address >> SIM_SPACE_SHIFT);
        if (space > SIM_PARAM) return 0;
        address &= ((uint64_t)1 << SIM_SPACE_SHIFT) - 1;
    }
    if (space == SIM_GLOBAL) {
        if (!in_last(address, bytes, last) && !refill(address, bytes, spaces, last)) return 0;
        found->data = (uint8_t *)address;
        found->shadow = found->data + last->to_shadow;
        found->is_global = 1;
        if (last->cells) {
            found->cells = last->cells + ((address - last->start) >> spaces->race->shift);
            found->since = spaces->race->launch_clock;
        }
        return 1;
    }
    const sim_window *window = &spaces->window[space - SIM_SHARED];
    if (address >= window->size || bytes > window->size - address) return 0;
    uint64_t owner = window->owner ? window->owner[thread] : 0;
    uint64_t at = owner * window->size + address;
    found->data = window->data + at;
    found->shadow = window->shadow + at;
    if (space == SIM_SHARED && spaces->race) {
        const sim_race *race = spaces->race;
        found->cells = race->shared + owner * race->shared_cells + (address >> race->shift);
        found->since = race->floor[race->warp_of[thread]];
    }
    return 1;
}

/* Return whether a store to global memory would stay unknown to other processes. With several
 * processes, each runs some blocks of the launch. Afterwards the cells show which bytes several of
 * them touched. Bytes without cells would go unnoticed, so the store is not executed and the launch
 * runs again on one core. */
static inline int escapes(const sim_spaces *spaces, const place *found) {
    return !found->cells && spaces->confined && found->is_global;
}

static inline uint64_t address_of(const sim_shape *shape, const void *addresses, uint64_t index) {
    return (shape->address_width == 8 ? ((const uint64_t *)addresses)[index]
                                      : ((const uint32_t *)addresses)[index]) +
           (uint64_t)shape->offset;
}

static inline uint64_t read_element(const uint8_t *data, uint32_t width, uint32_t sign_extend) {
    switch (width) {
    case 1: return sign_extend ? (uint64_t)*(const int8_t *)data : *data;
    case 2: return sign_extend ? (uint64_t)*(const int16_t *)data : *(const uint16_t *)data;
    case 4: return sign_extend ? (uint64_t)*(const int32_t *)data : *(const uint32_t *)data;
    default: return *(const uint64_t *)data;
    }
}

static inline void write_element(uint8_t *data, uint32_t width, uint64_t value) {
    switch (width) {
    case 1: *data = (uint8_t)value; break;
    case 2: *(uint16_t *)data = (uint16_t)value; break;
    case 4: *(uint32_t *)data = (uint32_t)value; break;
    default: *(uint64_t *)data = value;
    }
}

static inline int all_written(const uint8_t *shadow, uint32_t width) {
    switch (width) {
    case 1: return *shadow & SIM_WRITTEN;
    case 2: return (*(const uint16_t *)shadow & 0x0101) == 0x0101;
    case 4: return (*(const uint32_t *)shadow & 0x01010101u) == 0x01010101u;
    default: return (*(const uint64_t *)shadow & 0x0101010101010101u) == 0x0101010101010101u;
    }
}

static inline void set_written(uint8_t *shadow, uint32_t width) {
    write_element(shadow, width, 0x8181818181818181u);
}

static inline last_allocation no_allocation(void) {
    return (last_allocation){0, 0, (int64_t)(sim_arena_shadow() - sim_arena_base()), NULL};
}

/* Return the fault of reading bytes that are not all written. There is none
 * - if the bytes are pending and have cells, because race.c reports the read as a race;
 * - while memory is sparse, because kernels then read mostly untouched bytes. */
static __attribute__((unused)) uint8_t unwritten(place found, uint32_t at, uint64_t bytes) {
    if (sim_is_sparse()) return SIM_FINE;
    for (uint64_t b = 0; b < bytes; b++) {
        uint8_t state = found.shadow[at + b];
        if (state == SIM_UNWRITTEN || (state == SIM_PENDING && !found.cells))
            return SIM_UNINITIALISED;
    }
    return SIM_FINE;
}

/* Report a store or an atomic to race.c. `source` is the value, or NULL if it is not known. */
static __attribute__((noinline, unused)) void note_write(const sim_shape *shape,
                                                         const sim_spaces *spaces, place found,
                                                         uint32_t element, uint64_t lane,
                                                         uint64_t address, const uint8_t *source) {
    uint32_t width = shape->width, at = element * width;
    int same = source && memcmp(found.data + at, source, width) == 0;
    sim_race_write(spaces->race, found.cells + (at >> spaces->race->shift),
                   sim_race_cell_count(spaces->race, width), lane, shape->site, shape->how,
                   found.since, address + at, same);
}

#endif
