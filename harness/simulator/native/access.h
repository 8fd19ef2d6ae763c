/* Checked loads, stores and atomics of the simulated device, a vector of threads at a time. */
#ifndef SIM_ACCESS_H
#define SIM_ACCESS_H

#include "layout.h"

/* What was wrong with one thread's access, in `fault`. Kept in step with bindings.py. */
enum { SIM_FINE, SIM_OUT_OF_BOUNDS, SIM_MISALIGNED, SIM_UNINITIALISED };

/* What the shadow holds for each byte. Of a copy that nobody has waited for the data is there, but
 * reads as poison. What kernels wrote, or was made of it, is told apart from what came from the
 * host or from an operator of torch. */
enum { SIM_UNWRITTEN, SIM_WRITTEN, SIM_PENDING, SIM_BY_KERNEL = 0x81 };

#endif
