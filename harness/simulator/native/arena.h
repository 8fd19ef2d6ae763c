/* Device memory of the simulator: guarded allocations in one reserved range of addresses.
 *
 * Addresses are real host addresses, so that memcpy and torch's kernels for the CPU can use them in
 * the device process, and nowhere else; a second range of the same size, the shadow, holds one byte for every device byte: 0 while nothing has
 * written it, afterwards 1, or 0x81 where a kernel did (and what access.h says while one runs).
 * Processes forked from this one share all of it.
 */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What fresh memory holds, as repeated 32-bit words: a NaN as float, 1.25e307 as double. */
#define SIM_POISON 0x7FB1DEADu

/* Reserves the ranges; does nothing when they are there. 0, or -1 when the system has no room. */
int sim_arena_init(void);

/* `size` bytes of device memory, 512-byte aligned, with unmapped pages on both sides and filled
 * with SIM_POISON. NULL for size 0, beyond the limit of live bytes, or out of addresses. */
void *sim_alloc(size_t size);

/* The same, for host code that has to free it: what is live in the end has been leaked. */
void *sim_alloc_owned(size_t size);

/* Gives an allocation back; its addresses are never used again. Nonzero when `pointer` is not the
 * start of a live allocation; NULL is fine and does nothing. */
int sim_free(void *pointer);

/* Whether what is allocated from now on, of 1 GiB and more, has zeros and no page until something
 * touches it, and counts for nothing against the limit. */
void sim_set_sparse(int sparse);
int sim_is_sparse(void);

/* Most bytes that may be allocated at a time; 8 GiB until it is set. */
void sim_set_limit(uint64_t bytes);
uint64_t sim_get_limit(void);
uint64_t sim_live_bytes(void);

/* The most that were live at a time, since the process began or the peak was reset. */
uint64_t sim_peak_bytes(void);
void sim_reset_peak(void);

/* 1 when the pointer lies in the reserved range, in an allocation or not. */
int sim_contains(const void *pointer);

/* The host has written these bytes. Only what lies in live allocations is marked. */
void sim_mark_written(const void *pointer, size_t size);

/* `size` bytes have been copied to `target`: it is now as initialised as `source` was, wholly when
 * the source is host memory. */
void sim_copy_written(void *target, const void *source, size_t size);

uint64_t sim_arena_base(void);
uint64_t sim_arena_size(void);
uint64_t sim_arena_shadow(void);
const sim_allocation *sim_arena_table(void);
uint64_t sim_arena_table_count(void);

/* For a process that was forked from the one whose memory it is, and has it in common with it: lets
 * it see what is allocated from now on. It must not allocate or free. Nonzero if it cannot be. */
int sim_arena_join(void);

/* The last allocation that starts at or below `address`, or NULL. */
const sim_allocation *sim_find(uint64_t address);

#ifdef __cplusplus
}
#endif

#endif
