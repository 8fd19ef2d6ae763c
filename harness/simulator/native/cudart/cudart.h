/* What the worker's other parts may ask of its CUDA runtime, beside CUDA's own calls. */
#pragma once

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the socket the way to the device process, and learns what device it is. Nonzero where
 * nobody answers. */
int sim_connect(int socket);

/* A piece of a message. */
struct sim_part {
  const void *data;
  size_t size;
};

/* Sends a call made of some pieces and waits for its answer, of exactly `room` bytes. Returns the
 * cudaError_t that it was answered with, why being kept for sim_explanation(). Where the device
 * process is gone, this process ends. */
int sim_ask(uint32_t call, const struct sim_part *parts, unsigned count, void *answer, size_t room);

/* The same for an answer of any length, also one that tells an error: to be freed with free(). */
int sim_ask_any(uint32_t call, const struct sim_part *parts, unsigned count, char **answer,
                size_t *size);

/* Gives memory back without waiting. */
void sim_release(const void *pointer);

/* Device memory; NULL where there is none left. */
void *sim_allocate(size_t bytes);

/* Bytes of the device's memory, to and from the host; a cudaError_t. */
int sim_read(void *to, const void *from, size_t bytes);
int sim_write(void *to, const void *from, size_t bytes);
int sim_copy_bytes(void *to, const void *from, size_t bytes);

/* Sends what the host has written to managed memory, for what the device does next. */
void sim_flush_managed(void);

/* Bytes that are allocated, and the most that were at a time. */
uint64_t sim_live_bytes(void);
uint64_t sim_peak_bytes(void);
void sim_reset_peak(void);

/* Of torch's random numbers on the device. */
void sim_seed(uint64_t seed);

/* The calling thread's current stream, as torch.cuda.stream() and CUDAGuard set it. */
void *sim_current_stream(void);
void sim_set_current_stream(void *stream);

/* Waits for the calling thread's current stream, for which its next messages are. Returns a
 * cudaError_t. */
int sim_catch_up(void);

/* A stream that nobody has to destroy; there are 32 of each priority from 0 to -3. */
void *sim_stream_from_pool(int priority);

/* One line on why the call that gives this error is about to fail, and what was said for the last
 * one ("" where nothing was). */
void sim_explain(int error, const char *why);
const char *sim_explanation(int error);

/* A fresh context: what broke the old one, and errors that this thread has not asked for, are gone.
 * Memory stays. */
void sim_recover(void);

/* What the device answers from now on, so that a kernel with a block for each walks over several
 * tiles of a small case. */
void sim_pretend_multiprocessors(int count);

#ifdef __cplusplus
}
#endif
