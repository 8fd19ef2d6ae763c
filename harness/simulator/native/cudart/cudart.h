/* The interface of the CUDA runtime for the worker's other parts, besides CUDA's own calls. */
#pragma once

#include "layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connect to the device process by a socket, and receive the device's properties. Return nonzero if
 * there is no answer. */
int sim_connect(int socket);

/* A piece of a message. */
struct sim_part {
  const void *data;
  size_t size;
};

/* Send a call whose payload is made of parts, and wait for an answer of exactly `room` bytes.
 * Return its cudaError_t; sim_explanation() has the reason. If the device process is gone, this
 * process ends. */
int sim_ask(uint32_t call, const struct sim_part *parts, unsigned count, void *answer, size_t room);

/* Like sim_ask, for an answer of any length, or the message of an error. The caller frees it with
 * free(). */
int sim_ask_any(uint32_t call, const struct sim_part *parts, unsigned count, char **answer,
                size_t *size);

/* Free device memory without waiting for an answer. */
void sim_release(const void *pointer);

/* Allocate device memory. Return NULL if there is none left. */
void *sim_allocate(size_t bytes);

/* Copy bytes from the device to the host, from the host to the device, and within the device.
 * Return a cudaError_t. */
int sim_read(void *to, const void *from, size_t bytes);
int sim_write(void *to, const void *from, size_t bytes);
int sim_copy_bytes(void *to, const void *from, size_t bytes);

/* Send the bytes that the host has written to managed memory, before the device does anything. */
void sim_flush_managed(void);

/* The bytes that are allocated, and the most that were at a time. */
uint64_t sim_live_bytes(void);
uint64_t sim_peak_bytes(void);
void sim_reset_peak(void);

/* Seed torch's random numbers on the device. */
void sim_seed(uint64_t seed);

/* The calling thread's current stream, which torch.cuda.stream() and CUDAGuard set. */
void *sim_current_stream(void);
void sim_set_current_stream(void *stream);

/* Wait for the calling thread's current stream, and send the thread's next messages for it.
 * Return a cudaError_t. */
int sim_catch_up(void);

/* Return a stream that is never destroyed. There are 32 of each priority from 0 to -3. */
void *sim_stream_from_pool(int priority);

/* Store one line on why a call is about to fail with this error. sim_explanation() returns the line
 * of the last failed call, or "" if that failed with another error. */
void sim_explain(int error, const char *why);
const char *sim_explanation(int error);

/* Make the context usable again: forget the error that broke it, and this thread's last error.
 * Memory stays. */
void sim_recover(void);

/* Set the number of multiprocessors that the device reports. With a small number, each block of a
 * persistent kernel processes several tiles even in a small case. */
void sim_pretend_multiprocessors(int count);

#ifdef __cplusplus
}
#endif
