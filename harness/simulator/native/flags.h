/* Synchronisation that a kernel makes by hand: a thread stores a flag, and another one reads it.
 *
 * A flag orders accesses by the memory model of the PTX ISA ("Release and Acquire Patterns"):
 *
 * - A fence publishes what its warp has done and seen. It gets the next number of the launch, which
 *   is its time. A fence of block scope publishes for the block only.
 * - A strong store or an atomic makes its address a flag, which carries the time of the latest
 *   fence before it. A flag that is stored before the fence carries nothing.
 * - A thread that reads a flag has acquired the time that it carries. An access is ordered before
 *   the thread's own if it was published at that time or before.
 *
 * Barriers and mbarriers pass on both times. The reader needs no fence of its own here, although
 * PTX requires one: right kernels often have only a barrier there. Of two fences with different
 * times, the earlier one counts as seen with the later one. So too much may count as ordered, never
 * too little.
 */
#ifndef SIM_FLAGS_H
#define SIM_FLAGS_H

#include "layout.h"

/* Whether an access reads a flag, stores it, or both. */
enum { FLAG_READ = 1, FLAG_WRITE = 2 };

/* Record strong accesses of the threads lanes[0..count), or 0..count, one after the other. */
void sim_flags_access(const sim_spaces *spaces, const sim_shape *shape, const int64_t *lanes,
                      uint64_t count, const void *addresses, uint32_t address_stride, int how);
/* Return whether an access of `thread` was published at a time that the warp `here` has acquired. */
int sim_flags_hand_over(const sim_race *race, uint32_t thread, uint32_t clock, uint32_t here);
/* Merge the times of the warps of a block, or of those that have `present` set. */
void sim_flags_join(sim_race *race, uint32_t start, const uint8_t *present);

#endif
