/* What the simulator's other parts may ask of its CUDA runtime, beside CUDA's own calls. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel or variable `name` of the fat binary `image`; `module` tells two loads of one image
 * apart. */
struct sim_place {
  const void *image, *module;
  const char *name;
};

struct sim_launch {
  unsigned grid[3], block[3];
  size_t dynamic_shared;
  long dynamic_shared_limit; /* as cudaFuncSetAttribute has set it, else -1 */
  int is_cooperative;
};

/* What cudaFuncGetAttributes tells; bytes of a block, of a thread and of the module. */
struct sim_kernel {
  int registers, max_threads, ptx_version;
  size_t static_shared, local_bytes, const_bytes;
};

/* What the machine answers. Those that return int return a cudaError_t. */
struct sim_machine {
  /* Run a kernel; `arguments` are pointers to the values, in the order of its parameters. */
  int (*launch)(struct sim_place, const struct sim_launch *, void **arguments);
  /* The device address of a variable, or 0 where the image has none of that name. */
  size_t (*symbol)(struct sim_place);
  int (*describe)(struct sim_place, struct sim_kernel *);
  /* Whether a block may have so much dynamic shared memory beside the kernel's static one. */
  int (*allow_shared)(struct sim_place, size_t dynamic_shared);
  /* How many blocks of so many threads a multiprocessor holds. */
  int (*occupancy)(struct sim_place, const struct sim_launch *, int *blocks);
  /* The submission has asked for something that is not here. */
  void (*unsupported)(const char *what);
  /* The submission has called a function of a library that would do its work. */
  void (*library)(const char *function);
};

void sim_connect(const struct sim_machine *machine);

struct sim_device {
  char name[64];
  int major, minor;
  int multiprocessors;
  int l2_bytes;
  size_t total_memory;
  size_t shared_per_block, shared_per_block_optin, shared_per_multiprocessor;
};

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
