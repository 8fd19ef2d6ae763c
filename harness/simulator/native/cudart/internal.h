/* Declarations that the files of the CUDA runtime share. */
#pragma once

#include <cuda_runtime_api.h>

#include "cudart.h"

extern struct cudaDeviceProp sim_properties;

void sim_set_device(const struct sim_device *device);

/* Return the size of a thread's stack that the program has set, or the default one. */
size_t sim_stack_bytes(void);

/* Set the calling thread's last error, and return it. Success changes nothing. */
cudaError_t sim_report(cudaError_t error);

/* Return the error by which a kernel has broken the context and set it as the last one, or return
 * success. */
cudaError_t sim_broken(void);

/* Report an unsupported feature to the device process. The first one returns
 * cudaErrorNotSupported. */
cudaError_t sim_unsupported(const char *what);
void sim_note_unsupported(const char *what);

/* Return from a call that needs a working context, with the error that broke it. */
#define NEED_CONTEXT()                            \
  do {                                            \
    if (sim_broken()) return sim_broken();        \
  } while (0)

/* A kernel or device variable that nvcc's host code has registered. */
struct sim_symbol {
  struct module *module;
  const char *name; /* mangled */
  size_t size;
  long dynamic_shared_limit;
  const uint32_t *parameters; /* the sizes of a kernel's parameters; NULL until they are needed */
  unsigned parameter_count;
};

int sim_find_symbol(const void *host, struct sim_symbol *found);
void sim_limit_dynamic_shared(const void *host, long limit);
void sim_keep_parameters(const void *host, const uint32_t *sizes, unsigned count);

/* Get a module's number in the device process, which receives the module at its first use. */
cudaError_t sim_number_of(struct module *module, uint64_t *number);

int sim_is_stream(cudaStream_t stream);

/* Set and return the stream of the calling thread's next messages. */
void sim_work_on(cudaStream_t stream);
uint32_t sim_working_stream(void);

/* Record that the calling thread has launched a kernel on its working stream. */
void sim_launched(void);
/* Return whether a kernel was the last work that the calling thread has given to a stream, and
 * nothing has waited for it. */
int sim_follows_kernel(cudaStream_t stream);

/* Like sim_ask(), for a call that does not belong to any stream and does not wait for them. */
int sim_ask_for_host(uint32_t call, const struct sim_part *parts, unsigned count, void *answer,
                     size_t room);

/* Register the addresses of a device variable, which may lie outside of the device's range. */
void sim_know_variable(const void *pointer, size_t size);

/* Return whether an address belongs to the device. */
int sim_contains(const void *pointer);

/* ---- managed and pinned memory: managed.c ---------------------------------------------------- */

/* Allocate memory that the device and the host can use at the same address. */
cudaError_t sim_allocate_managed(void **pointer, size_t bytes, int is_pinned);

enum sim_sharing { NOT_SHARED, MANAGED, PINNED };

/* Return the kind of the managed or pinned allocation that holds all the bytes, or NOT_SHARED. With
 * no bytes, the allocation that holds the pointer decides. */
enum sim_sharing sim_sharing_of(const void *pointer, size_t bytes);

/* Remove the host's pages of a managed or pinned allocation that was freed. */
void sim_forget_managed(void *pointer);

/* Fetch the host's pages of these bytes before a system call uses them. A page fault within a
 * system call does not reach our handler, which would fetch them. */
void sim_touch(const void *pointer, size_t bytes, int is_written);
