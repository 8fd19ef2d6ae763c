/* What the files of the CUDA runtime share. */
#pragma once

#include <cuda_runtime_api.h>

#include "cudart.h"

extern struct sim_machine sim_answers;
extern struct cudaDeviceProp sim_properties;

/* Makes an error the calling thread's last one; success changes nothing. */
cudaError_t sim_report(cudaError_t error);

/* The error that a kernel has broken the context with, which becomes the last one; or success. */
cudaError_t sim_broken(void);

/* Tells the machine what is not here. */
cudaError_t sim_unsupported(const char *what);

/* For calls that need a working context: in a broken one they return what broke it. */
#define NEED_CONTEXT()                            \
  do {                                            \
    if (sim_broken()) return sim_broken();        \
  } while (0)

/* What nvcc's host code has registered for a function or variable of the host. */
struct sim_symbol {
  struct sim_place place;
  size_t size;
  long dynamic_shared_limit;
};

int sim_find_symbol(const void *host, struct sim_symbol *found);
void sim_limit_dynamic_shared(const void *host, long limit);

int sim_is_stream(cudaStream_t stream);
