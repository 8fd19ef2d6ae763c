/* What is counted of memory accesses, for each place in the program, warp by warp. */
#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include "access.h"

void sim_profile_access(const sim_spaces *spaces, const sim_shape *shape, int is_load,
                        const int64_t *lanes, uint64_t count, const void *addresses,
                        uint32_t address_stride);

/* Rows of an action, as in rows.c: those of neighbouring threads of one warp are one request, up to
 * where the next does not come later in the warp. With `in_bulk` those of one thread count as requests
 * of 128 bytes, and shared memory's banks are not their business. */
void sim_profile_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint32_t site, uint32_t in_bulk);

#endif
