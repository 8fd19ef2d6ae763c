/* What the files of the CUDA runtime share. */
#pragma once

#include <cuda_runtime_api.h>

#include "cudart.h"

extern struct cudaDeviceProp sim_properties;

void sim_set_device(const struct sim_device *device);

/* Makes an error the calling thread's last one; success changes nothing. */
cudaError_t sim_report(cudaError_t error);

/* The error that a kernel has broken the context with, which becomes the last one; or success. */
cudaError_t sim_broken(void);

/* Tells the device process what is not here. */
cudaError_t sim_unsupported(const char *what);
void sim_note_unsupported(const char *what);

/* For calls that need a working context: in a broken one they return what broke it. */
#define NEED_CONTEXT()                            \
  do {                                            \
    if (sim_broken()) return sim_broken();        \
  } while (0)

/* What nvcc's host code has registered for a function or variable of the host. */
struct sim_symbol {
  struct module *module;
  const char *name; /* mangled */
  size_t size;
  long dynamic_shared_limit;
  const uint32_t *parameters; /* the sizes of a kernel's parameters, once they are asked for ... */
  unsigned parameter_count;   /* ... and how many there are */
};

int sim_find_symbol(const void *host, struct sim_symbol *found);
void sim_limit_dynamic_shared(const void *host, long limit);
void sim_keep_parameters(const void *host, const uint32_t *sizes, unsigned count);

/* The number that the device process knows a module by; it is sent there at its first use. */
cudaError_t sim_number_of(struct module *module, uint64_t *number);

int sim_is_stream(cudaStream_t stream);

/* For which stream the calling thread's next messages are. */
void sim_work_on(cudaStream_t stream);
uint32_t sim_working_stream(void);

/* As sim_ask(), for what the host does by itself, whatever its streams have been asked for. */
int sim_ask_for_host(uint32_t call, const struct sim_part *parts, unsigned count, void *answer,
                     size_t room);

/* Lets the addresses of a variable be the device's, wherever they are. */
void sim_know_variable(const void *pointer, size_t size);

/* Whether an address is one of the device's. */
int sim_contains(const void *pointer);

/* ---- managed and pinned memory: managed.c ---- */

/* Memory at an address of the device that the host can use too. */
cudaError_t sim_allocate_managed(void **pointer, size_t bytes, int is_pinned);

enum sim_sharing { NOT_SHARED, MANAGED, PINNED };

/* Of memory whose bytes all lie in one such allocation; what has no bytes lies where it begins. */
enum sim_sharing sim_sharing_of(const void *pointer, size_t bytes);

/* The host's pages go. */
void sim_forget_managed(void *pointer);

/* Sees that the kernel, which gets no page fault, can read or write these bytes. */
void sim_touch(const void *pointer, size_t bytes, int is_written);
