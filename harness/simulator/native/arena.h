/* Device memory of the simulator: guarded allocations in one reserved range of addresses.
 *
 * Device addresses are real host addresses of the device process. So memcpy and torch's kernels for
 * the CPU can use them there, but in no other process.
 *
 * A second range of the same size, the shadow, holds one byte for every device byte: 0 if nothing
 * has written it, 1 if it is written, 0x81 if a kernel wrote it. access.h has the states while a
 * kernel runs. Processes that are forked from this one share both ranges.
 */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The 32-bit word that fills fresh memory: a NaN as float, 1.25e307 as double. */
#define SIM_POISON 0x7FB1DEADu

/* Reserve the ranges, or do nothing if they are reserved. Return -1 if the system has no room. */
int sim_arena_init(void);

/* Allocate `size` bytes of device memory, filled with SIM_POISON. They are aligned to 512 bytes at
 * least, and have unmapped pages on both sides. Return NULL for size 0, beyond the limit of live
 * bytes, or if no addresses are left. */
void *sim_alloc(size_t size);

/* Like sim_alloc, for host code that has to free the memory. Such an allocation that is live at the
 * end is a leak. */
void *sim_alloc_owned(size_t size);

/* Free an allocation, whose addresses are never used again. Return nonzero if `pointer` is not the
 * start of a live allocation. NULL does nothing. */
int sim_free(void *pointer);

/* Set whether later allocations of 1 GiB and more are sparse: they read as zero, get pages only
 * where they are touched, and do not count against the limit. */
void sim_set_sparse(int sparse);
int sim_is_sparse(void);

/* The most bytes that may be allocated at a time; 8 GiB by default. */
void sim_set_limit(uint64_t bytes);
uint64_t sim_get_limit(void);
uint64_t sim_live_bytes(void);

/* The most bytes that were live at a time, since the process began or the peak was reset. */
uint64_t sim_peak_bytes(void);
void sim_reset_peak(void);

/* Return 1 if the pointer lies in the reserved range, in an allocation or not. */
int sim_contains(const void *pointer);

/* Mark bytes as written by the host, as far as they lie in live allocations. */
void sim_mark_written(const void *pointer, size_t size);

/* Copy the shadow of `size` bytes that were copied to `target`. Bytes from host memory count as
 * written. */
void sim_copy_written(void *target, const void *source, size_t size);

uint64_t sim_arena_base(void);
uint64_t sim_arena_size(void);
uint64_t sim_arena_shadow(void);
const sim_allocation *sim_arena_table(void);
uint64_t sim_arena_table_count(void);

/* Make later allocations of the parent process accessible in this forked process, which must not
 * allocate or free. Return nonzero if the system refuses. */
int sim_arena_join(void);

/* Return the last allocation that starts at or below `address`, or NULL. */
const sim_allocation *sim_find(uint64_t address);

#ifdef __cplusplus
}
#endif

#endif
