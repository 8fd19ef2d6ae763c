/* What is counted of memory accesses, for each place in the program, warp by warp. */
#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include <stdint.h>

#include "access.h"

typedef struct sim_site_counts {
    uint64_t requests;         /* warps that executed the instruction */
    uint64_t threads;          /* threads that did */
    uint64_t bytes;            /* that they asked for */
    uint64_t sectors;          /* global memory: different 32-byte sectors, summed over requests */
    uint64_t ideal_sectors;    /* what as many neighbouring elements would touch */
    uint64_t wavefronts;       /* shared memory: passes that the banks need */
    uint64_t ideal_wavefronts; /* without a bank conflict */
    uint64_t pairs;            /* neighbouring threads ... */
    uint64_t pairs_alike;      /* ... whose addresses differ by `stride` bytes */
    int64_t stride;
    uint64_t space; /* where the addresses lead, generic ones resolved */
} sim_site_counts;

typedef struct sim_profile {
    const uint32_t *warp_of;      /* warp in the chunk, for each lane */
    const uint8_t *lane_of;       /* place in the warp, for each lane */
    sim_site_counts *sites;
} sim_profile;

void sim_profile_access(const sim_spaces *spaces, const sim_shape *shape, int is_load,
                        const int64_t *lanes, uint64_t count, const void *addresses,
                        uint32_t address_stride);

/* Rows of an action, as in rows.c: those of neighbouring threads of one warp are one request, up to
 * where the next does not come later in the warp. With `in_bulk` those of one thread count as requests
 * of 128 bytes, and shared memory's banks are not their business. */
void sim_profile_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint32_t site, uint32_t in_bulk);

#endif
