/* Codes of checked loads, stores and atomics, which run for a vector of threads at a time. */
#ifndef SIM_ACCESS_H
#define SIM_ACCESS_H

#include "layout.h"

/* The result of checking one thread's access, in `fault`. Keep in step with bindings.py. */
enum { SIM_FINE, SIM_OUT_OF_BOUNDS, SIM_MISALIGNED, SIM_UNINITIALISED };

/* The state of each byte, in the shadow. PENDING bytes are the target of an asynchronous copy that
 * no thread has waited for: they hold the data, but read as poison. BY_KERNEL bytes were written by
 * a kernel, or copied from such bytes. WRITTEN bytes came from the host or an operator of torch. */
enum { SIM_UNWRITTEN, SIM_WRITTEN, SIM_PENDING, SIM_BY_KERNEL = 0x81 };

#endif
