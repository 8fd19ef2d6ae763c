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

/* A wait of the host for a stream's work. */
struct sim_wait {
  uint64_t stream;
  int is_of_one;      /* 1 if the wait cannot be for the work of other streams as well */
  uint64_t last_copy; /* the last copy that began before the end of the work */
};

/* Return a wait for a stream's work so far. */
struct sim_wait sim_wait_for(cudaStream_t stream);

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

/* ---- copies that the host has not waited for: copies.c --------------------------------------- */

/* Record that an asynchronous copy from pinned memory has been queued on the stream. */
void sim_copy_begins(const void *from, size_t bytes, uint64_t stream);

/* Return the number of the last copy that was recorded. */
uint64_t sim_last_copy(void);

/* Report each recorded copy whose source the host has changed, and forget it. This must be called
 * before the host's pages are flushed. */
void sim_check_copies(void);

/* Check the recorded copies, and forget those that this wait may be for; NULL for all of them. */
void sim_copies_end(const struct sim_wait *wait);

/* Forget all copies, because host code may have seen that they are done. */
void sim_copies_may_have_ended(void);

/* Forget the copies from memory that a call of CUDA is about to write, in the order of streams. */
void sim_source_is_written(const void *to, size_t bytes);

/* ---- managed and pinned memory: managed.c ---------------------------------------------------- */

/* Allocate memory that the device and the host can use at the same address. */
cudaError_t sim_allocate_managed(void **pointer, size_t bytes, int is_pinned);

enum sim_sharing { NOT_SHARED, MANAGED, PINNED };

/* Return the kind of the managed or pinned allocation that holds all the bytes, or NOT_SHARED. With
 * no bytes, the allocation that holds the pointer decides. */
enum sim_sharing sim_sharing_of(const void *pointer, size_t bytes);

/* Return the offset of the first byte that the host has changed since the pages were last flushed,
 * or `bytes` if there is none. */
size_t sim_first_change(const void *pointer, size_t bytes);

/* Remove the host's pages of a managed or pinned allocation that was freed. */
void sim_forget_managed(void *pointer);

/* Fetch the host's pages of these bytes before a system call uses them. A page fault within a
 * system call does not reach our handler, which would fetch them. */
void sim_touch(const void *pointer, size_t bytes, int is_written);
