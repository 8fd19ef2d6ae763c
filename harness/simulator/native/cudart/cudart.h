/* What the simulator's other parts may ask of its CUDA runtime, beside CUDA's own calls. */
#pragma once

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

void sim_connect(const struct sim_machine *machine);

void sim_set_device(const struct sim_device *device);

/* The calling thread's current stream, as torch.cuda.stream() and CUDAGuard set it. */
void *sim_current_stream(void);
void sim_set_current_stream(void *stream);

/* A stream that nobody has to destroy; there are 32 of each priority from 0 to -3. */
void *sim_stream_from_pool(int priority);

/* One line on why the call that gives this error is about to fail, and what was said for the last
 * one ("" where nothing was). */
void sim_explain(int error, const char *why);
const char *sim_explanation(int error);

/* A fresh context: what broke the old one, and errors that this thread has not asked for, are gone.
 * Memory stays. */
void sim_recover(void);

#ifdef __cplusplus
}
#endif
