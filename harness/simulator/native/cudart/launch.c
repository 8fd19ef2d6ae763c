/* Launches of kernels, and their attributes and occupancy. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- the triple angle brackets --------------------------------------------------------------- */

struct configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

/* A stack of launch configurations, because an argument of a launch may contain another launch.
 * Eight levels are more than nvcc produces. If an argument throws, the configuration of its
 * launch stays in the stack. So a full stack drops its oldest entry. */
static __thread struct configuration configurations[8];
static __thread int configuration_depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  if (configuration_depth == 8)
    memmove(configurations, configurations + 1, --configuration_depth * sizeof *configurations);
  configurations[configuration_depth++] = (struct configuration){grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  if (configuration_depth == 0) return sim_report(cudaErrorMissingConfiguration);
  struct configuration c = configurations[--configuration_depth];
  *grid = c.grid, *block = c.block, *shared = c.shared, *(cudaStream_t *)stream = c.stream;
  return cudaSuccess;
}

/* ---- queries of a kernel --------------------------------------------------------------------- */

static cudaError_t ask_about(const struct sim_symbol *kernel, uint32_t call, const void *what,
                             size_t bytes, void *answer, size_t room) {
  uint64_t number;
  cudaError_t error = sim_number_of(kernel->module, &number);
  const struct sim_part parts[] = {
      {&number, sizeof number}, {what, bytes}, {kernel->name, strlen(kernel->name)}};
  return error ? error : (cudaError_t)sim_ask(call, parts, 3, answer, room);
}

/* Find out how many bytes each of a launch's arguments has. */
static cudaError_t need_parameters(const void *function, struct sim_symbol *kernel) {
  if (kernel->parameters) return cudaSuccess;
  uint64_t number;
  cudaError_t error = sim_number_of(kernel->module, &number);
  if (error) return error;
  char *sizes;
  size_t bytes;
  const struct sim_part parts[] = {{&number, sizeof number}, {kernel->name, strlen(kernel->name)}};
  error = (cudaError_t)sim_ask_any(SIM_CALL_PARAMETERS, parts, 2, &sizes, &bytes);
  if (error) {
    free(sizes);
    return error;
  }
  /* The sizes are never freed, because a kernel is never forgotten. */
  kernel->parameters = (const uint32_t *)sizes;
  kernel->parameter_count = (unsigned)(bytes / sizeof *kernel->parameters);
  sim_keep_parameters(function, kernel->parameters, kernel->parameter_count);
  return cudaSuccess;
}

/* ---- launches -------------------------------------------------------------------------------- */

static cudaError_t send_launch(const struct sim_symbol *kernel, const struct sim_launch *how,
                               void **arguments, cudaStream_t stream) {
  uint64_t number;
  cudaError_t error = sim_number_of(kernel->module, &number);
  if (error) return error;
  size_t bytes = 0;
  for (unsigned i = 0; i < kernel->parameter_count; ++i) bytes += kernel->parameters[i];
  char *values = malloc(bytes + 1), *at = values;
  if (!values) return cudaErrorMemoryAllocation;
  for (unsigned i = 0; i < kernel->parameter_count; at += kernel->parameters[i++])
    memcpy(at, arguments[i], kernel->parameters[i]);
  const struct sim_part parts[] = {{&number, sizeof number},
                                   {how, sizeof *how},
                                   {kernel->name, strlen(kernel->name) + 1},
                                   {values, bytes}};
  sim_flush_managed();
  sim_work_on(stream);
  error = (cudaError_t)sim_ask(SIM_CALL_LAUNCH, parts, 4, NULL, 0);
  sim_launched();
  free(values);
  return error;
}

static const dim3 no_cluster = {0, 0, 0};

static cudaError_t launch(const void *function, struct configuration c, void **arguments,
                          int is_cooperative, int is_programmatic, dim3 cluster) {
  NEED_CONTEXT();
  struct sim_symbol kernel;
  if (!sim_find_symbol(function, &kernel)) return sim_report(cudaErrorInvalidResourceHandle);
  if (!sim_is_stream(c.stream)) return sim_report(cudaErrorInvalidResourceHandle);
  const struct sim_launch how = {
      .grid = {c.grid.x, c.grid.y, c.grid.z},
      .block = {c.block.x, c.block.y, c.block.z},
      .dynamic_shared = c.shared,
      .dynamic_shared_limit = kernel.dynamic_shared_limit,
      .stack_bytes = sim_stack_bytes(),
      .is_cooperative = is_cooperative,
      .overlaps = is_programmatic && sim_follows_kernel(c.stream),
      .cluster = {cluster.x, cluster.y, cluster.z},
  };
  cudaError_t error = need_parameters(function, &kernel);
  return sim_report(error ? error : send_launch(&kernel, &how, arguments, c.stream));
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  return launch(function, (struct configuration){grid, block, shared, stream}, arguments, 0, 0,
                no_cluster);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                        void **arguments, size_t shared, cudaStream_t stream) {
  return launch(function, (struct configuration){grid, block, shared, stream}, arguments, 1, 0,
                no_cluster);
}

/* nvcc's stubs request a handle first. Here the handle is the address of the host's stub itself. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

/* Apply a launch attribute. Attributes that only affect speed or overlap are ignored. */
static cudaError_t apply_attribute(const cudaLaunchAttribute *attribute, int *is_cooperative,
                                   int *is_programmatic, dim3 *cluster, cudaEvent_t *completion) {
  const cudaLaunchAttributeValue *value = &attribute->val;
  switch (attribute->id) {
    case cudaLaunchAttributeCooperative: *is_cooperative = value->cooperative; break;
    case cudaLaunchAttributeClusterDimension:
      if (!value->clusterDim.x || !value->clusterDim.y || !value->clusterDim.z)
        return sim_report(cudaErrorInvalidClusterSize);
      *cluster = (dim3){value->clusterDim.x, value->clusterDim.y, value->clusterDim.z};
      break;
    case cudaLaunchAttributeProgrammaticStreamSerialization:
      *is_programmatic = value->programmaticStreamSerializationAllowed;
      break;
    case cudaLaunchAttributeProgrammaticEvent: *completion = value->programmaticEvent.event; break;
    case cudaLaunchAttributeLaunchCompletionEvent:
      *completion = value->launchCompletionEvent.event;
      break;
    case cudaLaunchAttributeDeviceUpdatableKernelNode:
      return sim_unsupported("cudaLaunchAttributeDeviceUpdatableKernelNode");
    default: break;
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments) {
  if (!config || (config->numAttrs && !config->attrs)) return sim_report(cudaErrorInvalidValue);
  int is_cooperative = 0, is_programmatic = 0;
  dim3 cluster = no_cluster;
  cudaEvent_t completion = NULL;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    cudaError_t error = apply_attribute(&config->attrs[i], &is_cooperative, &is_programmatic,
                                        &cluster, &completion);
    if (error) return error;
  }
  struct configuration c = {config->gridDim, config->blockDim, config->dynamicSmemBytes,
                            config->stream};
  cudaError_t error = launch(function, c, arguments, is_cooperative, is_programmatic, cluster);
  if (!error && completion) error = cudaEventRecord(completion, config->stream);
  return error;
}

/* ---- attributes of kernels ------------------------------------------------------------------- */

enum { default_shared = 48 * 1024 };

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
  NEED_CONTEXT();
  struct sim_symbol kernel;
  struct sim_kernel facts;
  if (!attributes) return sim_report(cudaErrorInvalidValue);
  if (!sim_find_symbol(function, &kernel)) return sim_report(cudaErrorInvalidDeviceFunction);
  cudaError_t error = ask_about(&kernel, SIM_CALL_DESCRIBE, NULL, 0, &facts, sizeof facts);
  if (error) return sim_report(error);
  long limit = kernel.dynamic_shared_limit;
  *attributes = (struct cudaFuncAttributes){
      .sharedSizeBytes = facts.static_shared,
      .constSizeBytes = facts.const_bytes,
      .localSizeBytes = facts.local_bytes,
      .maxThreadsPerBlock = facts.max_threads,
      .numRegs = facts.registers,
      .ptxVersion = facts.ptx_version,
      .binaryVersion = 10 * sim_properties.major + sim_properties.minor,
      .maxDynamicSharedSizeBytes =
          limit < 0 ? default_shared - (int)facts.static_shared : (int)limit,
      .preferredShmemCarveout = cudaSharedmemCarveoutDefault,
  };
  return cudaSuccess;
}

static cudaError_t set_dynamic_shared(const void *function, const struct sim_symbol *kernel,
                                      int bytes) {
  if (bytes < 0) return sim_report(cudaErrorInvalidValue);
  const uint64_t shared = (uint64_t)bytes;
  cudaError_t error =
      ask_about(kernel, SIM_CALL_ALLOW_SHARED, &shared, sizeof shared, NULL, 0);
  if (!error) sim_limit_dynamic_shared(function, bytes);
  return sim_report(error);
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
  NEED_CONTEXT();
  struct sim_symbol kernel;
  if (!sim_find_symbol(function, &kernel)) return sim_report(cudaErrorInvalidDeviceFunction);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      return set_dynamic_shared(function, &kernel, value);
    case cudaFuncAttributePreferredSharedMemoryCarveout:
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference: return cudaSuccess;
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth:
      return value > 1 ? sim_unsupported("clusters of more than one block") : cudaSuccess;
    default: return sim_report(cudaErrorInvalidValue);
  }
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config) {
  (void)config;
  NEED_CONTEXT();
  struct sim_symbol kernel;
  return sim_find_symbol(function, &kernel) ? cudaSuccess
                                            : sim_report(cudaErrorInvalidDeviceFunction);
}

/* ---- occupancy ------------------------------------------------------------------------------- */

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *function,
                                                                   int threads, size_t shared,
                                                                   unsigned flags) {
  NEED_CONTEXT();
  struct sim_symbol kernel;
  if (!blocks || threads <= 0 || flags > cudaOccupancyDisableCachingOverride)
    return sim_report(cudaErrorInvalidValue);
  if (!sim_find_symbol(function, &kernel)) return sim_report(cudaErrorInvalidDeviceFunction);
  struct sim_launch how = {
      .grid = {1, 1, 1},
      .block = {(unsigned)threads, 1, 1},
      .dynamic_shared = shared,
      .dynamic_shared_limit = kernel.dynamic_shared_limit,
  };
  uint64_t found = 0;
  cudaError_t error =
      ask_about(&kernel, SIM_CALL_OCCUPANCY, &how, sizeof how, &found, sizeof found);
  *blocks = (int)found;
  return sim_report(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                cudaOccupancyDefault);
}
