/* Counting of memory accesses, for each place in the program, warp by warp. */
#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include "access.h"

/* Count an access of the threads lanes[0..count), or 0..count when `lanes` is NULL. Each warp among
 * them makes one request. */
void sim_profile_access(const sim_spaces *spaces, const sim_shape *shape, int is_load,
                        const int64_t *lanes, uint64_t count, const void *addresses,
                        uint32_t address_stride);

/* Count the rows of an action, as in rows.c. Consecutive rows are one request while they belong to
 * ascending threads of one warp. With `in_bulk`, the rows of one thread count as requests of 128
 * bytes, and the banks of shared memory are not counted. */
void sim_profile_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint32_t site, uint32_t in_bulk);

#endif
