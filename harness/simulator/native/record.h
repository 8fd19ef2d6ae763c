/* Who worked on the device: torch's operators, kernels, copies to and from the host.
 *
 * Kept here, and not in Python, so that it is complete whatever a submission replaces there, and
 * whichever thread of it works.
 */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sim_worker { sim_worker_operator, sim_worker_kernel, sim_worker_copy } sim_worker;

/* Adds work of that name. */
void sim_record(sim_worker worker, const char *name, uint64_t elements, uint64_t multiplied);

/* Moves what was recorded since the last call into `into`, which has room for `room` kinds.
 * Returns how many there were; what had no room is in the last one. */
uint64_t sim_take_record(sim_work *into, uint64_t room);

#ifdef __cplusplus
}
#endif

#endif
