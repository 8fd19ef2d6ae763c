/* What the simulator's other parts may ask of its CUDA runtime, beside CUDA's own calls. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Run kernel `name` of the fat binary `image`; `module` tells two loads of one image apart.
 * `arguments` are pointers to the values, in the order of the kernel's parameters.
 * Returns a cudaError_t. */
typedef int (*sim_launch_callback)(const void *image, const void *module, const char *name,
                                   const unsigned grid[3], const unsigned block[3],
                                   size_t dynamic_shared_bytes, void **arguments);

/* The device address of variable `name`, or 0 where the image has none of that name. */
typedef size_t (*sim_symbol_callback)(const void *image, const void *module, const char *name);

void sim_connect(sim_launch_callback launch, sim_symbol_callback symbol);

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

#ifdef __cplusplus
}
#endif
